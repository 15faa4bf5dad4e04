"""Each kind of diagnostic: turns noisy counts into a frozen result with its bands, intervals and tests."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
