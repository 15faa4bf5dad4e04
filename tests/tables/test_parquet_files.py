"""Parquet files as programs write them: read by their footers, or refused before a row is read."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import check_files
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.hadoop_files import HadoopFiles
from spark_jobs.tables.source import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON = datetime.datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def source(tmp_path: Path, columns: dict[str, str] | None, **snapshot: Any) -> TableSource:
    snapshot = snapshot or {"path_version": "v1"}
    return TableSource.parse({"path": str(tmp_path), "snapshot": snapshot, "columns": columns})


def write(tmp_path: Path, name: str, columns: dict[str, pa.Array], **options: Any) -> None:
    path = tmp_path / "v1" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, **options)


def rows(spark: SparkSession, table: TableSource) -> list[dict[str, Any]]:
    check_files(table)
    return sorted((row.asDict() for row in read_table(spark, table).collect()), key=repr)


def refused(spark: SparkSession, table: TableSource) -> str:
    """The same refusal of the worker and of the application."""
    with pytest.raises(InvalidRequest) as by_worker:
        check_files(table)
    with pytest.raises(InvalidRequest) as by_application:
        read_table(spark, table)
    assert str(by_worker.value) == str(by_application.value)
    assert "\n" not in str(by_worker.value)
    return str(by_worker.value)


def test_types_that_a_missing_value_changed_are_cast_row_by_row(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.parquet", {"n": pa.array([1, 2**53 + 1], pa.int64()), "s": pa.array([1, 2])})
    write(tmp_path, "b.parquet", {"n": pa.array([3.0, None, 1.5, 1e300, float("nan")]), "s": pa.nulls(5)})
    write(tmp_path, "c.parquet", {"n": pa.nulls(1), "s": pa.array([2.5])})
    write(tmp_path, "d.parquet", {"s": pa.array([7], pa.int32())})
    found = rows(spark, source(tmp_path, {"n": "bigint", "s": "double"}))
    assert sorted(row["n"] for row in found if row["n"] is not None) == [1, 3, 2**53 + 1]
    assert sorted(row["s"] for row in found if row["s"] is not None) == [1.0, 2.0, 2.5, 7.0]
    assert len(found) == 9
    doubles = rows(spark, source(tmp_path, {"n": "double"}))
    # a long number that no double is equal to would be another one's
    assert sorted(row["n"] for row in doubles if row["n"] is not None and row["n"] == row["n"]) == [
        1.0,
        1.5,
        3.0,
        1e300,
    ]
    assert {row["n"] for row in rows(spark, source(tmp_path, {"n": "tinyint"}))} == {1, 3, None}
    assert {field.dataType.simpleString() for field in read_table(spark, source(tmp_path, None)).schema} == {"double"}


def test_nanoseconds_are_read_to_the_microsecond_and_harm_nobody(spark: SparkSession, tmp_path: Path) -> None:
    late = pa.array([int(NOON.timestamp() * 10**6) * 1000 + 789, -1, None], pa.timestamp("ns", tz="UTC"))
    write(tmp_path, "a.parquet", {"at": late, "local": late.cast(pa.timestamp("ns")), "score": pa.array([0.5] * 3)})
    write(tmp_path, "b.parquet", {"at": pa.array([NOON], pa.timestamp("ms", tz="UTC")), "score": pa.array([0.5])})
    assert [row["score"] for row in rows(spark, source(tmp_path, {"score": "double"}))] == [0.5] * 4
    found = rows(spark, source(tmp_path, {"at": "timestamp", "local": "timestamp_ntz"}))
    instants = {row["at"] and row["at"].astimezone(datetime.UTC) for row in found}
    before = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)
    assert instants == {NOON, NOON.replace(microsecond=123000), before, None}
    assert {row["local"] for row in found} == {NOON.replace(tzinfo=None), before.replace(tzinfo=None), None}


def test_columns_that_no_engine_reads_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    halves = pa.array([1.5], pa.float16())
    write(tmp_path, "a.parquet", {"h": halves, "t": pa.array([1], pa.time64("us")), "n": pa.array([1])})
    assert rows(spark, source(tmp_path, {"n": "bigint", "t": "time"})) == [{"n": 1}]
    assert rows(spark, source(tmp_path, None)) == [{"n": 1}]
    told = refused(spark, source(tmp_path, {"h": "double"}))
    assert "column h of type float16'; must be of type double in all files" in told


@pytest.mark.parametrize(
    ("files", "columns", "told"),
    [
        ([pa.array([1]), pa.array(["x"])], {"v": "bigint"}, "column v of type string'; must be of type bigint"),
        ([pa.array([1]), pa.array(["x"])], None, "column v of type bigint'; must be of type string"),
        ([pa.array([True]), pa.array([1])], {"v": "boolean"}, "column v of type bigint'; must be of type boolean"),
        ([pa.array([1])], {"v": "bigint", "w": "int"}, "got 'w'; must be a column of at least one file"),
    ],
)
def test_types_that_no_cast_reconciles_are_refused_by_their_column(
    spark: SparkSession, tmp_path: Path, files: list[pa.Array], columns: dict[str, str] | None, told: str
) -> None:
    for place, values in enumerate(files):
        write(tmp_path, f"{place}.parquet", {"v": values})
    assert told in refused(spark, source(tmp_path, columns))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_every_codec_that_is_let_through_is_read(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    write(tmp_path, "a.parquet", {"n": pa.array([1])}, compression=codec)
    assert rows(spark, source(tmp_path, {"n": "bigint"})) == [{"n": 1}]


def test_a_codec_that_no_engine_reads_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "Zebedee-4711.parquet", {"n": pa.array([1])}, compression="brotli")
    told = refused(spark, source(tmp_path, {"n": "bigint"}))
    assert "must have files that Spark can decompress, which excludes BROTLI; write the files again with zstd" in told
    assert "Zebedee" not in told


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_files_are_refused(spark: SparkSession, tmp_path: Path, plaintext_footer: bool) -> None:
    import base64

    import pyarrow.parquet.encryption as pe

    class Keys(pe.KmsClient):  # type: ignore[misc]
        def __init__(self, _: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

    terms = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["n"]}, plaintext_footer=plaintext_footer)
    properties = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), terms)
    write(tmp_path, "a.parquet", {"n": pa.array([1]), "m": pa.array([1])}, encryption_properties=properties)
    assert "must have files that are not encrypted as Parquet files" in refused(
        spark, source(tmp_path, {"n": "bigint"})
    )


@pytest.mark.parametrize("content", [b"not parquet at all", b"PAR1PAR1", b"PAR1\x00\x00\x00\x7fPAR1"])
def test_damaged_files_are_refused(spark: SparkSession, tmp_path: Path, content: bytes) -> None:
    write(tmp_path, "a.parquet", {"n": pa.array([1])})
    (tmp_path / "v1" / "b.parquet").write_bytes(content)
    assert "must contain only intact files of its format" in refused(spark, source(tmp_path, {"n": "bigint"}))
    (tmp_path / "v1" / "b.parquet").write_bytes(b"")
    (tmp_path / "v1" / "_b.parquet").write_bytes(content)
    assert rows(spark, source(tmp_path, {"n": "bigint"})) == [{"n": 1}]


@pytest.mark.parametrize("other", ["day=1/b.parquet", "below/b.parquet", "day=1/b.parquet /c"])
def test_files_at_two_depths_are_refused(spark: SparkSession, tmp_path: Path, other: str) -> None:
    write(tmp_path, "a.parquet", {"n": pa.array([1])})
    write(tmp_path, other, {"n": pa.array([1])})
    assert "must have all its files at the same depth" in refused(spark, source(tmp_path, {"n": "bigint"}))


def test_folders_that_name_no_column_or_several_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "below/b.parquet", {"n": pa.array([1])})
    assert "must have all its files at the same depth" in refused(spark, source(tmp_path, {"n": "bigint"}))
    write(tmp_path / "x", "day=1/b.parquet", {"n": pa.array([1])})
    write(tmp_path / "x", "month=1/b.parquet", {"n": pa.array([1])})
    assert "must have all its files at the same depth" in refused(spark, source(tmp_path / "x", {"n": "bigint"}))


def test_partitions_are_read_by_their_own_files_alone(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "day=1/a.parquet", {"n": pa.array([1])})
    write(tmp_path, "day=1/b.parquet", {"n": pa.array([2.0])})
    write(tmp_path, "day=2/a.parquet", {"n": pa.array(["x"])}, compression="brotli")
    columns = {"n": "bigint", "day": "string"}
    pinned = {**source(tmp_path / "v1", columns, partition={"day": "1"}).model_dump()}
    table = TableSource.parse(pinned)
    assert rows(spark, table) == [{"n": 1, "day": "1"}, {"n": 2, "day": "1"}]
    assert rows(spark, table.changed(snapshot={"partition": {"day": "3"}})) == []
    assert "BROTLI" in refused(spark, table.changed(snapshot={"partition": {"day": "2"}}))


def test_spark_lists_and_opens_what_this_machine_does(spark: SparkSession, tmp_path: Path) -> None:
    from spark_jobs.contract.places import Place
    from spark_jobs.contract.store.table_files import TableFiles

    write(
        tmp_path,
        "day=a b%2F/a.parquet",
        {"n": pa.array(range(10_000)), **{f"c{i}": pa.nulls(10_000) for i in range(500)}},
    )
    (tmp_path / "v1" / "_SUCCESS").write_bytes(b"")
    by_spark = HadoopFiles.of(spark, f"file://{tmp_path}/v1")
    here = TableFiles.of(Place.of_folder(f"{tmp_path}/v1"))
    assert by_spark.names == here.names == ("day=a b%2F/a.parquet",)
    assert by_spark.tail(here.names[0]) == here.tail(here.names[0])
    assert len(here.tail(here.names[0]) or b"") > 1 << 16
