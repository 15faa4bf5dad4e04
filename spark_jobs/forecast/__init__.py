"""Forecasts of how wide the intervals of a request's release would be, from what the caller states about the table."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
