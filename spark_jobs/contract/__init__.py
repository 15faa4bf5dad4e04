"""What the Airflow side and the Spark side agree on: requests, releases, privacy value types."""

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Budget, Neighbours, PrivacyUnit
from spark_jobs.contract.release import Release, ReleaseFile
from spark_jobs.contract.request import ReleaseRequest

__all__ = ["Budget", "InvalidRequest", "Neighbours", "PrivacyUnit", "Release", "ReleaseFile", "ReleaseRequest"]
