"""Delta and Iceberg by path, against stand-ins: what Spark is told, and what becomes of what the formats answer.

No package registry that the tests reach has the connectors for this Spark. A stand-in is a data source of the format's
name that keeps a table's versions as files of rows, takes the connector's own option, and has no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.source import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OPTIONS = {"delta": "versionAsOf", "iceberg": "snapshot-id"}
SECRET = "Zebedee-4711"


@pytest.fixture(params=["delta", "iceberg"])
def form(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """The format whose stand-in the session has."""
    from pyspark.sql.datasource import DataSource, DataSourceReader

    name, option, secret = request.param, OPTIONS[request.param], SECRET

    class Reader(DataSourceReader):
        def __init__(self, rows: list[list[Any]]) -> None:
            self.rows = rows

        def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
            return iter([tuple(row) for row in self.rows])

    class StandIn(DataSource):
        @classmethod
        def name(cls) -> str:
            return name

        def _version(self) -> dict[str, Any]:
            given = {key for key in self.options if key.lower() != "path"}
            if {key.lower() for key in given} != {option.lower()}:
                raise ValueError(f"{secret}: other options")
            file = Path(str(self.options["path"]).removeprefix("file://")) / f"{self.options[option]}.json"
            if not file.exists():
                raise ValueError(f"{secret}: no such version")
            version: dict[str, Any] = json.loads(file.read_text())
            return version

        def schema(self) -> str:
            return str(self._version()["schema"])

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(self._version()["rows"])

    spark.dataSource.register(StandIn)
    return name


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for version, schema, rows in ((3, "id int", [[1]]), (4, "id int", [[1], [2]]), (5, "id string", [["x"]])):
        (tmp_path / f"{version}.json").write_text(json.dumps({"schema": schema, "rows": rows}))
    return tmp_path


def source(table: Path, form: str, version: Any, **fields: Any) -> TableSource:
    return TableSource.parse(
        {"path": str(table), "format": form, "snapshot": {"table_version": version}, "columns": {"id": "int"}, **fields}
    )


def test_a_path_is_read_at_its_version(spark: SparkSession, table: Path, form: str) -> None:
    assert [row["id"] for row in read_table(spark, source(table, form, 3)).collect()] == [1]
    assert sorted(row["id"] for row in read_table(spark, source(table, form, 4)).collect()) == [1, 2]


@pytest.mark.parametrize(
    ("version", "line"),
    [
        (
            6,
            "must be a table that can be read at this version; check the table's name and format, and",
        ),
        (5, "must have the columns that its account binds, of the same types"),
    ],
)
def test_a_version_that_is_gone_and_another_schema_are_refused_in_one_line(
    spark: SparkSession, table: Path, form: str, version: int, line: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_table(spark, source(table, form, version))
    assert line in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("snapshot", [{"path_version": "v1"}, {"partition": {"day": "1"}}])
def test_a_folder_or_a_partition_is_no_state_of_such_a_table(table: Path, snapshot: dict[str, Any]) -> None:
    for name in OPTIONS:
        with pytest.raises(InvalidRequest, match="must be replaced by table_version for the format"):
            source(table, name, 1, snapshot=snapshot)


@pytest.mark.parametrize("version", ["main", "2026-11-21", -1, 1.5, True, None])
def test_a_branch_a_tag_and_a_time_are_no_version(table: Path, version: Any) -> None:
    for name in OPTIONS:
        with pytest.raises(InvalidRequest):
            source(table, name, version)


@pytest.mark.parametrize("name", [None, "parquet"])
def test_a_number_pins_no_folder_of_files(table: Path, name: str | None) -> None:
    fields = {"path": str(table), "format": name, "snapshot": {"table_version": 1}}
    with pytest.raises(InvalidRequest, match="table_version"):
        preflight(
            ReleaseRequest.parse(
                {
                    "table": fields,
                    "diagnostics": [{"kind": "ecdf", "column": "id", "bounds": [0, 1]}],
                    "budget": {"epsilon": 1},
                }
            )
        )


@pytest.mark.parametrize("name", OPTIONS)
def test_a_format_without_its_connector_is_refused_with_a_remedy(spark: SparkSession, table: Path, name: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_table(spark.newSession(), source(table, name, 3))
    assert "must be of a format that Spark can read; add the connector of its format by" in str(refused.value)
    assert "the master embedded reads Delta tables of one machine" in str(refused.value)
