"""Delta tables by path at a version, on the embedded engine, against what Delta's own library reads at that version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_jobs.application.embedded_tables import prepare_embedded
from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.embedded_engine import require_embedded
from spark_jobs.contract.store.delta_log import LOG, DeltaVersion
from spark_jobs.embedded.client import CONNECT_MODE, embedded_session
from tests.support.engine_cases import cases, counted, differences, request
from tests.support.engine_rows import COLUMNS, table, with_invalid_texts, write

CASES = ("roc_curve-0", "by_group-0", "unit-whole", "unit-times", "where-10", "blocks-days", "decimal-sums")
WRITTEN = 9
"""How many versions the table of these tests has."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[Any]:
    with embedded_session(SQL_SETTINGS) as session:
        yield session


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    monkeypatch.setenv(CONNECT_MODE, "1")


def within_the_calendar() -> pa.Table:
    """The tests' table with null for what Delta's library cannot write: late days, and names too long for folders."""
    rows = table()
    for column, of, most in (("born", pa.int32(), 2_932_896), ("at", pa.int64(), 2**57), ("local", pa.int64(), 2**57)):
        numbers = rows[column].cast(of)
        inside = pc.and_(pc.less_equal(numbers, most), pc.greater(numbers, -719_163 if of == pa.int32() else -(2**55)))
        kept = pc.if_else(inside, rows[column], None)
        rows = rows.set_column(rows.schema.get_field_index(column), column, kept)
    short = pc.if_else(pc.less(pc.utf8_length(rows["site"]), 100), rows["site"], None)
    return rows.set_column(rows.schema.get_field_index("site"), "site", short)


@pytest.fixture(scope="module")
def delta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that was appended to, deleted from, updated, changed in schema, compacted and overwritten."""
    made, rows = tmp_path_factory.mktemp("lake") / "visits", within_the_calendar()
    parts = [rows.slice(start, 500) for start in range(0, 3_000, 500)]
    without = [part.drop_columns(["paid"]) for part in parts]
    write_deltalake(made, without[0], partition_by=["site"])
    write_deltalake(made, without[1], mode="append")
    DeltaTable(made).delete("visit % 3 = 0")
    DeltaTable(made).update(predicate="few = 1", updates={"flag": "true", "score": "0.75"})
    write_deltalake(made, parts[2], mode="append", schema_mode="merge")
    DeltaTable(made).create_checkpoint()
    write_deltalake(made, parts[3], mode="append")
    DeltaTable(made).delete("site = 'a'")
    DeltaTable(made).optimize.compact()
    write_deltalake(made, parts[4], mode="overwrite")
    assert DeltaTable(made).version() == WRITTEN - 1
    return made


def at(folder: Path, version: int, *, without: tuple[str, ...] = (), **changes: Any) -> ReleaseRequest:
    columns = [{"name": name, "type": of} for name, of in COLUMNS.items() if name not in without]
    bound = {"format": "delta", "columns": columns, "version": {"by": "table_version"}}
    source = {"path": str(folder), "snapshot": {"table_version": version}, **bound}
    asked = request(folder, **changes)
    return asked.model_copy(update={"table": type(asked.table).parse(source)})


def counts(session: Any, asked: ReleaseRequest) -> dict[str, Any]:
    require_embedded(asked)
    return counted(prepare_embedded(session, asked), asked)


def as_written(folder: Path, version: int) -> pa.Table:
    """What Delta's own library reads at a version, in the types of the tests' table."""
    rows = pa.table(DeltaTable(folder, version=version).to_pyarrow_table())
    plain = table(seed=2).schema
    made = {
        name: rows[name].cast(plain.field(name).type) if name in rows.column_names else pa.nulls(len(rows), of.type)
        for name, of in zip(plain.names, plain, strict=True)
    }
    return pa.table(made)


@pytest.mark.parametrize(
    "version",
    [version if version in (3, 6) else pytest.param(version, marks=pytest.mark.verify) for version in range(WRITTEN)],
)
def test_each_version_is_counted_as_a_copy_of_its_rows(
    embedded: Any, delta: Path, tmp_path: Path, version: int
) -> None:
    write(tmp_path / "v1", as_written(delta, version))
    for name in CASES:
        without = ("paid",) if version < 4 else ()
        expected = counts(embedded, request(tmp_path / "v1", **cases()[name]))
        assert differences(counts(embedded, at(delta, version, without=without, **cases()[name])), expected) == []


def test_versions_differ(embedded: Any, delta: Path) -> None:
    """The control of the test above."""
    found = [counts(embedded, at(delta, version)) for version in (1, 2, 3)]
    assert differences(found[0], found[1]) != []
    assert differences(found[1], found[2]) != []


def test_a_version_without_rows_is_counted(embedded: Any, tmp_path: Path) -> None:
    made, rows = tmp_path / "visits", within_the_calendar()
    write_deltalake(made, rows, partition_by=["site"])
    DeltaTable(made).delete()
    write(tmp_path / "v1", rows.slice(0, 0), files=1)
    for name in CASES:
        expected = counts(embedded, request(tmp_path / "v1", **cases()[name]))
        assert differences(counts(embedded, at(made, 1, **cases()[name])), expected) == []


@pytest.mark.parametrize("version", [0, 5, 7])
def test_the_engines_own_reader_has_the_same_rows(embedded: Any, delta: Path, version: int) -> None:
    rows = embedded.read.format("delta").option("versionAsOf", str(version)).load(str(delta))
    own = [(row["visit"], row["site"]) for row in rows.select("visit", "site").collect()]
    written = [(row["visit"], row["site"]) for row in as_written(delta, version).select(["visit", "site"]).to_pylist()]
    assert sorted(own, key=repr) == sorted(written, key=repr)


def refused(asked: ReleaseRequest) -> str:
    with pytest.raises(InvalidRequest) as line:
        require_embedded(asked)
    assert "\n" not in str(line.value)
    return str(line.value)


def test_a_version_that_is_not_there_or_gone_is_refused(delta: Path, tmp_path: Path) -> None:
    gone = "must be a table that can be read at this version; check the table's name and format, and"
    assert gone in refused(at(delta, WRITTEN))
    assert gone in refused(at(tmp_path, 0))
    made, rows = tmp_path / "visits", within_the_calendar()
    write_deltalake(made, rows.slice(0, 100))
    write_deltalake(made, rows.slice(100, 100), mode="overwrite")
    write_deltalake(made, rows.slice(200, 100), mode="append")
    require_embedded(at(made, 0))
    DeltaTable(made).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert gone in refused(at(made, 0))
    require_embedded(at(made, 1))
    DeltaTable(made).create_checkpoint()
    for version in (0, 1):
        (made / LOG / f"{version:020}.json").unlink()
    assert gone in refused(at(made, 1))
    last = DeltaTable(made).version()
    assert DeltaVersion.of(str(made), last).files.keys() == {file.name for file in made.glob("*.parquet")}


def test_a_version_with_other_columns_is_refused(delta: Path) -> None:
    sums = cases()["residual_plot-0"]
    assert "column paid of type none in this version'; must be of the bound type double" in refused(
        at(delta, 1, **sums)
    )
    require_embedded(at(delta, 5, **sums))


ADDED = {"partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
FEATURES = {"readerFeatures": ["timestampNtz"], "writerFeatures": ["timestampNtz"]}
COMMIT = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **FEATURES}}


def handmade(folder: Path, rows: pa.Table, *actions: dict[str, Any]) -> Path:
    """A table of one commit, written by hand; later actions take the place of earlier ones."""
    (folder / LOG).mkdir(parents=True)
    pq.write_table(rows, folder / "a b%.parquet")
    types = {"bigint": "long", "int": "integer", "smallint": "short", "tinyint": "byte"}
    fields = [
        {"name": name, "type": types.get(of, of), "nullable": True, "metadata": {}} for name, of in COLUMNS.items()
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    table_of = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
    }
    lines = [
        COMMIT,
        {"metaData": {**table_of, "configuration": {}}},
        {"add": {**ADDED, "path": "a%20b%25.parquet", "size": (folder / "a b%.parquet").stat().st_size}},
    ]
    given = {name: action for action in (*lines, *actions) for name in action}
    (folder / LOG / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in given.values()))
    return folder


def test_a_text_that_is_none_fails_no_run(embedded: Any, tmp_path: Path) -> None:
    rows = with_invalid_texts(table(), "site")
    write(tmp_path / "v1", rows)
    made = handmade(tmp_path / "visits", rows)
    expected = counts(embedded, request(tmp_path / "v1", **cases()["by_group-0"]))
    assert differences(counts(embedded, at(made, 0, **cases()["by_group-0"])), expected) == []


VECTORS = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"], "writerFeatures": []}
NOT_READ = {
    "vectors": ({"protocol": VECTORS}, "must be without deletionVectors, with the embedded engine"),
    "later": ({"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}, "must be without version 4"),
    "clone": ({"add": {**ADDED, "path": "file:///etc/hosts"}}, "must have its files in its own folder"),
    "above": ({"add": {**ADDED, "path": "../v1/part-0.parquet"}}, "must have its files in its own folder"),
    "absolute": ({"add": {**ADDED, "path": "/etc/hosts"}}, "must have its files in its own folder"),
    "no-path": ({"add": ADDED}, "must have a log that is intact"),
    "no-schema": ({"metaData": {"partitionColumns": [], "configuration": {}}}, "must have a log that is intact"),
    "vector-without-feature": (
        {"add": {**ADDED, "path": "a%20b%25.parquet", "deletionVector": {"storageType": "u"}}},
        "must have a log that is intact",
    ),
}


@pytest.mark.parametrize(("action", "line"), NOT_READ.values(), ids=NOT_READ)
def test_what_is_not_read_of_the_protocol_is_refused(tmp_path: Path, action: dict[str, Any], line: str) -> None:
    assert line in refused(at(handmade(tmp_path / "visits", table().slice(0, 50), action), 0))


def test_columns_under_other_names_are_refused(tmp_path: Path) -> None:
    made = handmade(tmp_path / "visits", table().slice(0, 50))
    log = made / LOG / f"{0:020}.json"
    log.write_text(
        log.read_text().replace('"configuration": {}', '"configuration": {"delta.columnMapping.mode": "name"}')
    )
    assert "must be without delta.columnMapping.mode" in refused(at(made, 0))


def test_a_damaged_log_is_refused_without_its_words(tmp_path: Path) -> None:
    made = handmade(tmp_path / "visits", table().slice(0, 50))
    (made / LOG / f"{0:020}.json").write_text('{"add": {"path": "Zebedee')
    line = refused(at(made, 0))
    assert "must have a log that is intact" in line
    assert "Zebedee" not in line
