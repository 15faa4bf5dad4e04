"""The privacy ledger: accounts with caps, charges that never exceed them, and an audit log of every change."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
