"""The privacy ledger: accounts with caps, charges that never exceed them, and an audit log of every change."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.budget.errors import BudgetExceeded as BudgetExceeded
    from dp_operators.budget.errors import ChargeConflict as ChargeConflict
    from dp_operators.budget.errors import LedgerFrozen as LedgerFrozen
    from dp_operators.budget.errors import LedgerUnavailable as LedgerUnavailable
    from dp_operators.budget.errors import NotAllowed as NotAllowed
    from dp_operators.budget.ledger import PrivacyLedger as PrivacyLedger
    from dp_operators.budget.reader import LedgerReader as LedgerReader
    from dp_operators.budget.values import Account as Account
    from dp_operators.budget.values import AuditEntry as AuditEntry
    from dp_operators.budget.values import Charge as Charge
    from dp_operators.budget.values import ChargeState as ChargeState
    from dp_operators.budget.values import Head as Head
    from dp_operators.budget.values import KeyList as KeyList
    from dp_operators.budget.values import Run as Run
    from dp_operators.budget.values import SubBudget as SubBudget
    from dp_operators.budget.values import Verification as Verification
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "errors": "BudgetExceeded ChargeConflict LedgerFrozen LedgerUnavailable NotAllowed",
            "ledger": "PrivacyLedger",
            "reader": "LedgerReader",
            "values": "Account AuditEntry Charge ChargeState Head KeyList Run SubBudget Verification",
        },
    )
