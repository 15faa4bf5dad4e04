"""Airflow triggers that wait for budget, or for an application, without a worker."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
