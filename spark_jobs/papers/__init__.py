"""Methods of papers that a request selects by name; none of them is a default."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
