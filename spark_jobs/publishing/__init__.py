"""The step from a released result to files: data, pictures, the manifest and the report. Deterministic throughout."""

from spark_jobs.publishing.facts import ReleaseFacts
from spark_jobs.publishing.publication import publish

__all__ = ["ReleaseFacts", "publish"]
