from dp_operators.budget.errors import (
    BudgetExceeded as BudgetExceeded,
    ChargeConflict as ChargeConflict,
    LedgerFrozen as LedgerFrozen,
    LedgerUnavailable as LedgerUnavailable,
    NotAllowed as NotAllowed,
)
from dp_operators.budget.ledger import PrivacyLedger as PrivacyLedger
from dp_operators.budget.reader import LedgerReader as LedgerReader
from dp_operators.budget.values import (
    Account as Account,
    AuditEntry as AuditEntry,
    Charge as Charge,
    ChargeState as ChargeState,
    Head as Head,
    KeyList as KeyList,
    RegisteredLookup as RegisteredLookup,
    Run as Run,
    SubBudget as SubBudget,
    Verification as Verification,
)
