"""The privacy ledger: accounts with caps, charges that never exceed them, and an audit log of every change."""

from dp_operators.budget.errors import BudgetExceeded, ChargeConflict, LedgerUnavailable
from dp_operators.budget.ledger import PrivacyLedger
from dp_operators.budget.values import Account, AuditEntry, Charge, ChargeState, Head, Verification

__all__ = [
    "Account",
    "AuditEntry",
    "BudgetExceeded",
    "Charge",
    "ChargeConflict",
    "ChargeState",
    "Head",
    "LedgerUnavailable",
    "PrivacyLedger",
    "Verification",
]
