"""From released results to files, deterministically: data, plots, the manifest and the report."""

from spark_jobs.publishing.publication import publish

__all__ = ["publish"]
