"""An Airflow hook that connects to the ledger."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from dp_operators.hooks.ledger import PrivacyLedgerHook as PrivacyLedgerHook
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "ledger": "PrivacyLedgerHook",
        },
    )
