"""Methods of papers that a request reaches by their name alone; no default runs on them."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
