"""Airflow notifiers: for accounts that run low on budget, and for alarms of a stream."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
