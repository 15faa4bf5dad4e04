"""Exact statistics of private rows, as value types with known sensitivities. None of them is released."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
