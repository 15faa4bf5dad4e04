"""An Airflow hook that connects to the ledger."""

from dp_operators.hooks.stores import by_connection
from spark_jobs.contract.store.conditional_put import open_by
from spark_jobs.lazy import lazy_exports

# every process of Airflow's that opens the ledger opens stores by their connections
open_by(by_connection)

__getattr__, __dir__, __all__ = lazy_exports(__name__)
