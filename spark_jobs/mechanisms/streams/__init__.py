"""Mechanisms that release counts step by step as they arrive, with the state that is kept between steps."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
