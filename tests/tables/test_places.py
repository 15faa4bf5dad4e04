"""What Hadoop and Spark make of a table's text is what the ledger takes it for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.source import read_table
from tests.support.places import spellings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ALIASES = {"": "file", "s3a": "s3", "s3n": "s3", "abfs": "abfss"}


def hadoop_identity(spark: SparkSession, text: str) -> str:
    """The folder that Hadoop's ``Path`` makes of a text, in the ledger's spelling of schemes, hosts and ports."""
    uri = spark._jvm.org.apache.hadoop.fs.Path(text).toUri()  # type: ignore[union-attr]
    assert uri.getQuery() is None
    assert uri.getFragment() is None
    scheme = (uri.getScheme() or "").lower()
    scheme, authority = _ALIASES.get(scheme, scheme), (uri.getAuthority() or "").lower().removesuffix(":8020")
    authority = "" if (scheme, authority) == ("file", "localhost") else authority
    return f"{scheme}://{authority}{uri.getPath() or '/'}"


@example(text="/lake/toy#/../secret")
@example(text="s3://bucket/día of:x//v=1/")
@example(text="file:////lake/a+b")
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=spellings())
def test_what_hadoop_makes_of_a_text_is_its_identity(spark: SparkSession, text: str) -> None:
    try:
        place = Place.parse(text)
    except InvalidRequest:
        return
    assert hadoop_identity(spark, text) == place.identity
    assert hadoop_identity(spark, place.path) == place.identity
    hadoop = spark._jvm.org.apache.hadoop.fs.Path(place.path)  # type: ignore[union-attr]
    assert Place.parse(hadoop.toString()) == place
    assert hadoop.isAbsolute()


@pytest.mark.parametrize(
    "name", ["a b", "día", "x:y", "v=1", "a,b", "a+b", "a&b;c=d", "~a'b\"c", "@$!(x)|^`<>", "日本"]
)
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_spark_reads_the_folder_that_the_identity_names(
    spark: SparkSession, tmp_path: Path, name: str, form: str
) -> None:
    for number, folder in enumerate((name, f"{name}2", "secret")):
        (tmp_path / folder).mkdir()
        rows = spark.range(number, number + 1)
        if form == "parquet":
            rows.toPandas().to_parquet(tmp_path / folder / "part-0.parquet")
        else:
            (tmp_path / folder / "part-0.csv").write_text(f"id\n{number}\n")
    fields: dict[str, Any] = {"columns": {"id": "bigint"}} if form == "csv" else {}
    source = TableSource(path=str(tmp_path), format=form, snapshot={"path_version": name}, **fields)  # type: ignore[arg-type]
    frame = read_table(spark, source)
    assert [row.id for row in frame.collect()] == [0]
    assert {Place.parse(unquote(uri).rpartition("/")[0]) for uri in frame.inputFiles()} == {source.pinned}


def test_the_text_of_one_table_and_the_rows_of_another_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate(("toy", "secret")):
        spark.range(number, number + 1).write.parquet(str(tmp_path / name / "v1"))
    with pytest.raises(InvalidRequest, match="must not contain any of"):
        TableSource(path=f"{tmp_path}/toy#/../secret", snapshot={"path_version": "v1"})  # type: ignore[arg-type]
    # a request that was not checked when it was made is read by its identity all the same
    crooked = TableSource.model_construct(
        format="parquet", path=f"{tmp_path}/toy#/../secret", name=None, columns=None,
        snapshot=TableSource.parse({"path": "/t", "snapshot": {"path_version": "v1"}}).snapshot,
    )  # fmt: skip
    with pytest.raises(InvalidRequest, match="must not contain any of"):
        read_table(spark, crooked)


@pytest.mark.parametrize("link", ["table", "version", "folder", "file", "above"])
def test_no_symbolic_link_leads_to_another_table(spark: SparkSession, tmp_path: Path, link: str) -> None:
    spark.range(1).write.parquet(str(tmp_path / "secret" / "v1" / "day=1"))
    (tmp_path / "toy" / "v1" / "day=2").mkdir(parents=True)
    spark.range(1).toPandas().to_parquet(tmp_path / "toy" / "v1" / "day=2" / "part-0.parquet")
    toy = tmp_path / "toy"
    if link == "table":
        toy.rename(tmp_path / "was")
        toy.symlink_to(tmp_path / "secret")
    elif link == "above":
        (tmp_path / "lake").symlink_to(tmp_path)
        toy = tmp_path / "lake" / "secret"
    elif link == "version":
        (toy / "v1").rename(toy / "v0")
        (toy / "v1").symlink_to(tmp_path / "secret" / "v1")
    elif link == "folder":
        (toy / "v1" / "day=1").symlink_to(tmp_path / "secret" / "v1" / "day=1")
    else:
        found = next((tmp_path / "secret" / "v1" / "day=1").glob("*.parquet"))
        (toy / "v1" / "day=2" / "part-1.parquet").symlink_to(found)
    source = TableSource(path=str(toy), snapshot={"path_version": "v1"})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"^table.path: .*symbolic link"):
        read_table(spark, source)


def test_a_bare_path_is_refused_where_the_default_file_system_is_another(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.parquet(str(tmp_path / "t" / "v1"))
    bare = TableSource(path=str(tmp_path / "t"), snapshot={"path_version": "v1"})  # type: ignore[arg-type]
    uri = TableSource(path=f"file://{tmp_path}/t", snapshot={"path_version": "v1"})  # type: ignore[arg-type]
    assert bare.identity == uri.identity
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    before = hadoop.get("fs.defaultFS")
    hadoop.set("fs.defaultFS", "hdfs://name")
    try:
        with pytest.raises(InvalidRequest, match=r"^table.path: .*default file system is hdfs://name"):
            read_table(spark, bare)
        assert read_table(spark, uri).count() == 1
    finally:
        hadoop.set("fs.defaultFS", before)


def test_two_names_of_a_catalogs_table_are_one_and_a_view_is_none(spark: SparkSession) -> None:
    spark.sql("create database if not exists places")
    spark.range(3).selectExpr("id", "id % 2 as half").write.mode("overwrite").partitionBy("half").saveAsTable(
        "places.t"
    )
    spark.sql("create or replace view places.seen as select * from places.t")
    short, full, view = (
        TableSource(format="catalog", name=name, snapshot={"partition": {"half": 1}})  # type: ignore[arg-type]
        for name in ("Places.T", "spark_catalog.places.t", "places.seen")
    )
    assert short.identity == full.identity == "catalog:spark_catalog.places.t"
    before = spark.catalog.currentDatabase()
    assert [[row.id for row in read_table(spark, each).collect()] for each in (short, full)] == [[1], [1]]
    assert spark.catalog.currentDatabase() == before
    with pytest.raises(InvalidRequest, match=r"^table.name: .*not a view"):
        read_table(spark, view)
