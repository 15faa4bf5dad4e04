"""Releases of several owners' tables together: noisy sums of vectors that nobody sees in the clear."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
