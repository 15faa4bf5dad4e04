"""Airflow operators: a release, one for each kind of diagnostic, a request for more budget, and what goes with them."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
