"""What the Airflow side and the Spark side agree on: requests, releases, privacy value types."""

from spark_jobs.lazy import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
