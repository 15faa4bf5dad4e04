"""Airflow notifiers: of what an account has left, and of alarms of a stream."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
