from spark_jobs.contract.errors import InvalidRequest as InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable as ExpectedTable
from spark_jobs.contract.privacy import Budget as Budget, Neighbours as Neighbours, PrivacyUnit as PrivacyUnit
from spark_jobs.contract.release import (
    PartSpending as PartSpending,
    PublishedSizes as PublishedSizes,
    Release as Release,
    ReleaseFile as ReleaseFile,
    ReleasePart as ReleasePart,
)
from spark_jobs.contract.request import ReleaseRequest as ReleaseRequest
from spark_jobs.contract.snapshots import Snapshot as Snapshot
from spark_jobs.contract.stream_request import StreamRequest as StreamRequest
from spark_jobs.contract.stream_states import StreamStates as StreamStates
from spark_jobs.contract.tables import (
    ColumnsModel as ColumnsModel,
    Label as Label,
    LinearModel as LinearModel,
    LogisticModel as LogisticModel,
    Scoring as Scoring,
    SparkMLModel as SparkMLModel,
    TableSource as TableSource,
)
