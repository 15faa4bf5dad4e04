from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.nested import with_fields
from spark_jobs.tables.source import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "Zebedee-4711"


def write(tmp_path: Path, *lines: str | bytes) -> Path:
    folder = tmp_path / "v1"
    folder.mkdir()
    texts = [line.encode() if isinstance(line, str) else line for line in lines]
    (folder / "a.json").write_bytes(b"\n".join(texts))
    return folder


def table(spark: SparkSession, folder: Path, columns: dict[str, str]) -> Any:
    fields = {"format": "json", "path": str(folder.parent), "snapshot": {"path_version": folder.name}}
    return with_fields(read_table(spark, TableSource.parse({**fields, "columns": columns})))


def rows(spark: SparkSession, folder: Path, columns: dict[str, str], *names: str) -> list[list[Any]]:
    frame = table(spark, folder, columns)
    return [list(row) for row in frame.select(*(f"`{name.replace('`', '``')}`" for name in names or columns)).collect()]


def test_the_declared_columns_alone_are_read_whatever_the_lines_hold(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, '{"n": 1, "extra": {"deep": [1, 2]}, "s": "a"}', '{"s": 5, "n": "2"}', '{"N": 3}')
    (folder / "b.json.gz").write_bytes(gzip.compress(b'{"n": 4}\n'))
    read = table(spark, folder, {"n": "int", "s": "string"})
    assert read.dtypes == [("n", "int"), ("s", "string")]
    assert sorted((list(row) for row in read.collect()), key=repr) == [[1, "a"], [2, "5"], [4, None], [None, None]]


def test_no_line_stops_the_others_or_is_quoted(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"n": "int", "x": "double", "b": "boolean", "t": "timestamp", "d": "decimal(5,2)"}
    bad = [
        '{"n": 5',
        '[{"n": 6}]',
        '"n"',
        SECRET,
        '{"n": [1], "x": {"y": 1}, "b": 7.5, "t": "12:30", "d": 1e99}',
        '{"n": 99999999999, "x": "' + SECRET + '", "b": "perhaps", "t": "2026-02-30", "d": 1234567}',
        '{"n": ' + "[" * 1500 + "]" * 1500 + "}",
        '{"n": ' + "9" * 5000 + "}",
        b'\xff\xfe{\x00"n"',
        b'{"n":\xff}',
    ]
    folder = write(tmp_path, "", "   ", '{"n": 1, "x": 0.5, "b": true, "t": "2026-01-31 12:00:00", "d": 1.25}', *bad)
    read = rows(spark, folder, columns)
    assert len(read) == 1 + len(bad)
    assert [str(value) for value in read[0]] == ["1", "0.5", "True", "2026-01-31 12:00:00", "1.25"]
    assert read[1:] == [[None] * 5] * len(bad)


def test_random_lines_are_each_one_row(spark: SparkSession, tmp_path: Path) -> None:
    generator = random.Random(5)
    pieces = [b'{"n":', b"1", b"}", b"{", b'"', b"\\u12", b",", b"[", b"]", b"\xc3", b"e9", b"NaN", b'"s":"x"', b"\x00"]
    lines = [b"".join(generator.choices(pieces, k=generator.randint(1, 8))) for _ in range(2000)]
    folder = write(tmp_path, *lines)
    assert len(rows(spark, folder, {"n": "int", "s": "string"})) == 2000


def test_a_damaged_line_reaches_no_column_whatever_its_name(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, SECRET, '{"n": 1', '{"_corrupt_record": "given"}')
    read = rows(spark, folder, {"n": "int", "_corrupt_record": "string"})
    assert read == [[None, None], [None, None], [None, "given"]]


def test_an_object_is_the_first_of_its_line_and_the_last_of_equal_names_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write(tmp_path, '\ufeff {"n": 1, "n": 2} {"n": 3}')
    assert rows(spark, folder, {"n": "int"}) == [[2]]


def test_fields_of_objects_are_columns_by_path(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        '{"a": {"city": "Rome", "zip.code": 7, "geo": {"lat": 1.5}}, "x.y": 9}',
        '{"a": {"city": 5, "zip.code": "north"}}',
        '{"a": "flat"}',
        '{"a": null}',
    )
    columns = {"a": "struct<city: STRING, zip.code: integer, geo: struct<lat: double>>", "x.y": "int"}
    read = rows(spark, folder, columns, "a.city", "a.`zip.code`", "a.geo.lat", "x.y")
    assert read == [["Rome", 7, 1.5, 9], ["5", None, None, None], [None] * 4, [None] * 4]


def test_folders_give_partition_columns_and_may_pin_the_table(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / f"day=0{day}"
        folder.mkdir()
        (folder / "x.json").write_text(f'{{"n": {day}, "day": "other"}}\n')
    fields = {"format": "json", "path": str(tmp_path), "snapshot": {"partition": {"day": "02"}}}
    source = TableSource.parse({**fields, "columns": {"n": "int", "day": "string"}})
    assert [list(row) for row in read_table(spark, source).collect()] == [[2, "02"]]


def test_a_file_without_a_byte_is_an_empty_table_and_a_folder_without_a_file_is_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = write(tmp_path, "")
    assert rows(spark, folder, {"n": "int"}) == []
    (folder / "a.json").unlink()
    with pytest.raises(InvalidRequest, match=r"^table\.path: .*must be a table with files in it"):
        table(spark, folder, {"n": "int"})


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (None, "columns is required for a json table"),
        ({"a": "array<int>"}, "columns.a: got 'array<int>'; must be one of boolean"),
        ({"a": "struct<b:int,B:int>"}, "or a struct of these"),
        (
            {"a": "struct<b:int> NOT NULL COMMENT 'x'"},
            """columns.a: got "NOT NULL COMMENT 'x'"; must be a domain (""",
        ),
    ],
)
def test_a_schema_is_declared_and_of_types_that_text_has(columns: Any, line: str) -> None:
    fields = {"format": "json", "path": "/lake/t", "snapshot": {"path_version": "v1"}, "columns": columns}
    with pytest.raises(InvalidRequest) as refused:
        TableSource.parse(fields)
    assert line in str(refused.value).replace("columns: is", "columns is")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("extra", [{"options": {"path": "/etc"}}, {"multiLine": True}, {"schema": "n int"}])
def test_a_request_has_no_options_of_the_reader(extra: dict[str, Any]) -> None:
    fields = {"format": "json", "path": "/lake/t", "snapshot": {"path_version": "v1"}, "columns": {"n": "int"}}
    with pytest.raises(InvalidRequest, match="is not a field"):
        TableSource.parse({**fields, **extra})
