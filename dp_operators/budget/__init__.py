"""The privacy ledger: accounts with caps, charges that never exceed them, and an audit log of every change."""

from dp_operators.budget.errors import BudgetExceeded, ChargeConflict, LedgerFrozen, LedgerUnavailable, NotAllowed
from dp_operators.budget.ledger import PrivacyLedger
from dp_operators.budget.reader import LedgerReader
from dp_operators.budget.values import (
    Account,
    AuditEntry,
    Charge,
    ChargeState,
    Head,
    KeyList,
    Run,
    SubBudget,
    Verification,
)

__all__ = [
    "Account",
    "AuditEntry",
    "BudgetExceeded",
    "Charge",
    "ChargeConflict",
    "ChargeState",
    "Head",
    "KeyList",
    "LedgerFrozen",
    "LedgerReader",
    "LedgerUnavailable",
    "NotAllowed",
    "PrivacyLedger",
    "Run",
    "SubBudget",
    "Verification",
]
