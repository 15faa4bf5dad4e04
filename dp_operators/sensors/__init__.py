"""Airflow sensors that wait for budget, and for an alarm of a stream."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
