"""A table of a catalog at a version: what Spark tells the catalog, and what becomes of what the catalog answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.source import read_table
from tests.support.versioned_catalog import NEWEST, SECRET, versioned_catalogs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PROVIDERS = {"ice": "iceberg", "delta_lake": "delta", "csv_lake": "csv"}
STATES = {"3": "int(id) AS id", "4": "int(id + 10) AS id", "5": "string(id) AS id", NEWEST: "int(id + 100) AS id"}
ROWS = 4


@pytest.fixture(scope="module", autouse=True)
def catalogs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("versions")
    for version, column in STATES.items():
        spark.range(ROWS).selectExpr(column).write.parquet(str(folder / "visits" / version))
    with versioned_catalogs(spark, folder, **PROVIDERS):
        yield


def source(catalog: str, version: Any, *, table: str = "visits") -> TableSource:
    return TableSource.parse(
        {"name": f"{catalog}.sales.{table}", "snapshot": {"table_version": version}, "columns": {"id": "int"}}
    )


@pytest.mark.parametrize("catalog", ["ice", "delta_lake"])
@pytest.mark.parametrize(("version", "first"), [(3, 0), (4, 10)])
def test_the_version_of_the_request_is_read_and_not_the_newest(
    spark: SparkSession, catalog: str, version: int, first: int
) -> None:
    rows = read_table(spark, source(catalog, version)).collect()
    assert sorted(row["id"] for row in rows) == list(range(first, first + ROWS))


@pytest.mark.parametrize(
    ("catalog", "table", "version", "line"),
    [
        (
            "ice",
            "visits",
            9,
            "must be a table that can be read at this version; check the table's name and format, and",
        ),
        ("ice", "visits", 5, "must have the columns that its account binds, of the same types"),
        ("ice", "nothing", 3, "must be a table that can be read at this version"),
        ("csv_lake", "visits", 3, "must be stored as parquet, orc, delta, iceberg, and not as csv"),
    ],
)
def test_what_the_catalog_cannot_give_is_refused_in_one_line(
    spark: SparkSession, catalog: str, table: str, version: int, line: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_table(spark, source(catalog, version, table=table))
    assert line in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("version", ["main", "2026-11-21", -1, 1.5, True])
def test_a_branch_a_tag_and_a_time_are_no_version(version: Any) -> None:
    with pytest.raises(InvalidRequest):
        source("ice", version)
