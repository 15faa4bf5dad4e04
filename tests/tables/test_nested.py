"""Fields of structs are read by path from columnar files, and nothing else of the struct is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.contract.columns import ColumnNeed
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.expressions import feature_column, filter_column, read
from spark_jobs.tables.nested import with_fields
from spark_jobs.tables.source import read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(params=["parquet", "orc"])
def frame(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> DataFrame:
    rows = [(1, ("Rome", 7, (0.5,)), 10), (2, ("Oslo", None, None), 20), (3, None, 30)]
    schema = "id int, address struct<city: string, `zip.code`: int, geo: struct<lat: double>>, `address.x` int"
    spark.createDataFrame(rows, schema).write.format(request.param).save(str(tmp_path / "v1"))
    fields = {"path": str(tmp_path), "format": request.param, "snapshot": {"path_version": "v1"}}
    return with_fields(read_table(spark, TableSource.parse(fields)))


def test_fields_are_columns_named_by_their_path(frame: DataFrame) -> None:
    assert frame.columns == [
        "id", "address", "address.x", "address.city", "address.`zip.code`", "address.geo.lat"
    ]  # fmt: skip
    read_rows = frame.select("`address.city`", "`address.``zip.code```", "`address.geo.lat`", "`address.x`").collect()
    assert sorted(map(tuple, read_rows), key=repr) == [
        ("Oslo", None, None, 20), ("Rome", 7, 0.5, 10), (None, None, None, 30)
    ]  # fmt: skip


def test_filters_and_features_name_them(frame: DataFrame) -> None:
    kept = frame.where(
        filter_column("address.city = 'Rome' OR `address`.geo.lat > 1 OR `address.x` = 30", frame.schema)
    )
    assert sorted(row["id"] for row in kept.collect()) == [1, 3]
    [value] = (
        frame.where("id = 1").select(feature_column("address.`zip.code` + address.geo.lat", frame.schema)).collect()
    )
    assert value[0] == 7.5


def test_only_the_needed_field_is_read(frame: DataFrame) -> None:
    column = read(ColumnNeed(name="ADDRESS.GEO.LAT", field="x"), frame.schema).column
    plan = frame.select(column)._jdf.queryExecution().executedPlan().toString()
    [schema] = [line for line in plan.splitlines() if "ReadSchema" in line]
    assert "struct<address:struct<geo:struct<lat:double>>>" in schema


def test_a_table_without_structs_stays_as_it_is(spark: SparkSession) -> None:
    flat = spark.range(3)
    assert with_fields(flat) is flat
