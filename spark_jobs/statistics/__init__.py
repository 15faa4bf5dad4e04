"""Exact statistics of private rows, as value types with known sensitivities. They are private and never released."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
