"""Airflow operators: for releases of any kind and of each single kind, streams, verification and more budget."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
