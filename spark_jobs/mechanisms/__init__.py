"""Mechanisms, which turn exact counts into noisy ones with a guarantee: the only place where randomness is drawn."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
