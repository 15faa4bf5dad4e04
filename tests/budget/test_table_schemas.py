"""What an administrator says of a table, from options and from files."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget.table_schemas import binding_lines, binding_of
from spark_jobs.contract import InvalidRequest

ROWS: dict[str, Any] = {
    "id": pa.array([1], pa.int64()),
    "age": pa.array([1], pa.int32()),
    "score": pa.array([0.5], pa.float64()),
    "name": pa.array(["x"]),
    "paid": pa.array([Decimal("1.25")], pa.decimal128(10, 2)),
    "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC")),
    "local": pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us")),
    "day": pa.array([dt.date(2026, 1, 1)]),
    "sick": pa.array([True]),
    "tags": pa.array([["a"]]),
}
TYPES = {
    "id": "bigint",
    "age": "int",
    "score": "double",
    "name": "string",
    "paid": "decimal(10,2)",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "day": "date",
    "sick": "boolean",
    "tags": "array<string>",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    part = tmp_path / "v=1" / "region=north"
    part.mkdir(parents=True)
    pq.write_table(pa.table(ROWS), part / "a.parquet")
    return tmp_path


def test_columns_are_read_from_a_file_and_from_the_folders_on_the_way(folder: Path) -> None:
    whole = binding_of("/lake/t", schema=folder, version_columns=["v"], public_columns=["region"])
    assert whole.types == {**TYPES, "v": "string", "region": "string"}
    assert (whole.table, whole.format, whole.version.columns) == ("file:///lake/t", "parquet", ("v",))
    # where versions are folders, one of them has the schema
    assert binding_of("/lake/t", schema=folder / "v=1").types == {**TYPES, "region": "string"}
    assert binding_of("/lake/t", schema=folder / "v=1" / "region=north" / "a.parquet").types == TYPES
    assert "region  string  public" in binding_lines(whole).replace("   ", " ").replace("  ", " ").replace(" ", "  ")


def test_columns_of_several_files_have_a_type_that_all_can_be_read_as(tmp_path: Path) -> None:
    at = pa.array([0], pa.timestamp("ns"))
    pq.write_table(pa.table({"at": at, "n": [1], "s": pa.nulls(1)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [0.5], "s": ["x"], "h": pa.array([1], pa.float16())}), tmp_path / "b.parquet")
    types = {"at": "timestamp_ntz", "n": "double", "s": "string", "h": "float16"}
    assert binding_of("/lake/t", schema=tmp_path).types == types
    # as Spark and Impala write what they read as instants
    pq.write_table(pa.table({"at": at}), tmp_path / "c.parquet", use_deprecated_int96_timestamps=True)
    assert binding_of("/lake/t", schema=tmp_path / "c.parquet").types == {"at": "timestamp"}


def test_the_header_of_a_csv_file_is_bound_in_its_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffid, paid\n1,2\n", encoding="utf-8")
    binding = binding_of("/lake/t", schema=tmp_path / "a.csv", columns="id int, paid decimal(10, 2)")
    assert (binding.format, binding.types) == ("csv", {"id": "int", "paid": "decimal(10,2)"})
    with pytest.raises(InvalidRequest, match=r"^columns: .* must be the names in the header of"):
        binding_of("/lake/t", schema=tmp_path / "a.csv", columns="paid double, id int")
    with pytest.raises(InvalidRequest, match=r"^columns: must be given"):
        binding_of("/lake/t", schema=tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("`did they leave?` string,`a, b` decimal(10,2)", {"did they leave?": "string", "a, b": "decimal(10,2)"}),
        (" `Umsatz (``netto``)`\tdouble , id int ", {"Umsatz (`netto`)": "double", "id": "int"}),
        ("p.score double,`%` int", {"p.score": "double", "%": "int"}),
    ],
)
def test_names_in_backticks_are_columns_as_in_sql(text: str, types: dict[str, str]) -> None:
    assert binding_of("/lake/t", columns=text).types == types


def test_a_file_of_a_binding_is_taken_and_options_add_to_what_was(tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"columns": {"id": "int"}, "version": {"by": "table_version"}, "format": "catalog"}))
    binding = binding_of("catalog:lake.visits", schema=file)
    assert binding.version.by == "table_version"
    before = binding.model_dump(mode="json")
    again = binding_of("catalog:lake.visits", before=before, public_columns=["id"])
    assert (again.columns, again.version, again.public_columns) == (binding.columns, binding.version, ("id",))
    again.require_extends(binding)
    declared = binding_of("catalog:lake.visits", before=before, rows_per_unit=12, append_only=True)
    assert "only gains rows, which nothing checks" in binding_lines(declared)
    assert binding_of("catalog:lake.visits", before=declared.model_dump(mode="json")).append_only
    assert "at most 12 rows of a unit, which nothing checks" in binding_lines(declared)
    assert binding_of("catalog:lake.visits", before=declared.model_dump(mode="json")).rows_per_unit == 12


@pytest.mark.parametrize(
    "columns", ["id", "id int, id string", "id int,,", "id int,", "`id` ", "`id int", "`` int", "`a` int, `a` int", ""]
)
def test_columns_that_are_no_list_are_refused(columns: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^columns: "):
        binding_of("/lake/t", columns=columns)


@pytest.mark.parametrize("content", [None, b"not parquet", b"PAR1PAR1"])
def test_a_file_that_says_nothing_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "a.parquet"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=r"^schema: ") as refused:
        binding_of("/lake/t", schema=file)
    assert "\n" not in str(refused.value)
