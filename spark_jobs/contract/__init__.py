"""What the Airflow side and the Spark side agree on: requests, releases, privacy value types."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.contract.errors import InvalidRequest as InvalidRequest
    from spark_jobs.contract.expected_table import ExpectedTable as ExpectedTable
    from spark_jobs.contract.privacy import Budget as Budget
    from spark_jobs.contract.privacy import Neighbours as Neighbours
    from spark_jobs.contract.privacy import PrivacyUnit as PrivacyUnit
    from spark_jobs.contract.release import PartSpending as PartSpending
    from spark_jobs.contract.release import PublishedSizes as PublishedSizes
    from spark_jobs.contract.release import Release as Release
    from spark_jobs.contract.release import ReleaseFile as ReleaseFile
    from spark_jobs.contract.release import ReleasePart as ReleasePart
    from spark_jobs.contract.request import ReleaseRequest as ReleaseRequest
    from spark_jobs.contract.snapshots import Snapshot as Snapshot
    from spark_jobs.contract.stream_request import StreamRequest as StreamRequest
    from spark_jobs.contract.stream_states import StreamStates as StreamStates
    from spark_jobs.contract.tables import ColumnsModel as ColumnsModel
    from spark_jobs.contract.tables import Label as Label
    from spark_jobs.contract.tables import LinearModel as LinearModel
    from spark_jobs.contract.tables import LogisticModel as LogisticModel
    from spark_jobs.contract.tables import Scoring as Scoring
    from spark_jobs.contract.tables import SparkMLModel as SparkMLModel
    from spark_jobs.contract.tables import TableSource as TableSource
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "errors": "InvalidRequest",
            "expected_table": "ExpectedTable",
            "privacy": "Budget Neighbours PrivacyUnit",
            "release": "PartSpending PublishedSizes Release ReleaseFile ReleasePart",
            "request": "ReleaseRequest",
            "snapshots": "Snapshot",
            "stream_request": "StreamRequest",
            "stream_states": "StreamStates",
            "tables": "ColumnsModel Label LinearModel LogisticModel Scoring SparkMLModel TableSource",
        },
    )
