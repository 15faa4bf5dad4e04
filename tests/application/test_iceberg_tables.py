"""Iceberg tables by path at a snapshot, on the embedded engine, against what pyiceberg itself reads of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType

from spark_jobs.application.embedded_tables import prepare_embedded
from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.embedded_engine import require_embedded
from spark_jobs.contract.store import iceberg_metadata
from spark_jobs.contract.store.iceberg_metadata import IcebergVersion
from spark_jobs.embedded.client import CONNECT_MODE, embedded_session
from tests.application.test_delta_tables import within_the_calendar
from tests.support.engine_cases import cases, counted, differences, request
from tests.support.engine_rows import COLUMNS, table, with_invalid_texts, write

CASES = ("roc_curve-0", "by_group-0", "unit-whole", "unit-times", "where-10", "blocks-days", "decimal-sums")
WIDER = {"smallint": "int", "tinyint": "int"}
"""Types that Iceberg does not have, and what it has instead."""
BOUND = {name: WIDER.get(of, of) for name, of in COLUMNS.items()}


@dataclass(frozen=True, kw_only=True)
class Lake:
    """A table of a catalog in a file, and its snapshots in their order."""

    folder: Path
    table: Table

    @property
    def snapshots(self) -> list[int]:
        return [one.snapshot_id for one in self.table.refresh().metadata.snapshots]

    def rows(self, snapshot: int) -> pa.Table:
        """What pyiceberg reads, in the types of the tests' table."""
        rows = self.table.scan(snapshot_id=snapshot).to_arrow()
        types = {field.name: field.type for field in as_iceberg(table(seed=2)).schema}
        made = {
            name: rows[name].cast(of) if name in rows.column_names else pa.nulls(len(rows), of)
            for name, of in types.items()
        }
        return pa.table(made)


def as_iceberg(rows: pa.Table) -> pa.Table:
    """Rows with the types that Iceberg has."""
    for name, of in BOUND.items():
        if of != COLUMNS[name]:
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, name, rows[name].cast(pa.int32()))
    return rows


def new_lake(folder: Path, rows: pa.Table, **properties: str) -> Lake:
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("tests", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("lake")
    location = f"file://{folder}/visits"
    made = catalog.create_table("lake.visits", schema=rows.schema, location=location, properties=properties)
    return Lake(folder=folder / "visits", table=made)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Any]:
    with embedded_session(SQL_SETTINGS) as session:
        yield session


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    monkeypatch.setenv(CONNECT_MODE, "1")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A table that was appended to, deleted from, changed in schema and partitions, and overwritten."""
    rows = as_iceberg(within_the_calendar())
    parts = [rows.slice(start, 500) for start in range(0, 3_000, 500)]
    without = [part.drop_columns(["paid"]) for part in parts]
    made = new_lake(tmp_path_factory.mktemp("lake"), without[0])
    made.table.append(without[0])
    made.table.append(without[1])
    made.table.delete("visit = 1 and score < 0.5")
    with made.table.update_schema() as schema:
        schema.add_column("paid", DoubleType())
    made.table.append(parts[2])
    with made.table.update_spec() as spec:
        spec.add_field("few", IdentityTransform())
    made.table.append(parts[3])
    made.table.delete("visit = 0")
    made.table.overwrite(parts[4])
    return made


def at(lake: Lake, snapshot: int, *, without: tuple[str, ...] = (), **changes: Any) -> ReleaseRequest:
    columns = [{"name": name, "type": of} for name, of in BOUND.items() if name not in without]
    bound = {"format": "iceberg", "columns": columns, "version": {"by": "table_version"}}
    source = {"path": str(lake.folder), "snapshot": {"table_version": snapshot}, **bound}
    asked = request(lake.folder, **changes)
    return asked.model_copy(update={"table": type(asked.table).parse(source)})


def of_copy(folder: Path, **changes: Any) -> ReleaseRequest:
    """A request of a folder of Parquet files with these types."""
    asked = request(folder, **changes)
    columns = [{"name": name, "type": of} for name, of in BOUND.items()]
    source = {**asked.table.model_dump(mode="json", exclude_none=True), "columns": columns}
    return asked.model_copy(update={"table": type(asked.table).parse(source)})


def counts(session: Any, asked: ReleaseRequest) -> dict[str, Any]:
    require_embedded(asked)
    return counted(prepare_embedded(session, asked), asked)


def test_each_snapshot_is_counted_as_a_copy_of_its_rows(embedded: Any, lake: Lake, tmp_path: Path) -> None:
    seen = []
    for place, snapshot in enumerate(lake.snapshots):
        write(tmp_path / f"{place}" / "v1", lake.rows(snapshot))
        without = ("paid",) if place < 3 else ()
        for name in CASES:
            expected = counts(embedded, of_copy(tmp_path / f"{place}" / "v1", **cases()[name]))
            assert differences(counts(embedded, at(lake, snapshot, without=without, **cases()[name])), expected) == []
        seen.append(expected)
    # the control: snapshots are not all alike
    assert len(seen) >= 7
    assert differences(seen[0], seen[1]) != []
    assert differences(seen[1], seen[2]) != []


def test_a_snapshot_without_rows_and_a_text_that_is_none_fail_no_run(embedded: Any, tmp_path: Path) -> None:
    rows = as_iceberg(within_the_calendar())
    made = new_lake(tmp_path / "lake", rows)
    made.table.append(rows)
    made.table.delete("visit >= 0 or visit is null")
    write(tmp_path / "none" / "v1", made.rows(made.snapshots[-1]), files=1)
    expected = counts(embedded, of_copy(tmp_path / "none" / "v1", **cases()["by_group-0"]))
    assert differences(counts(embedded, at(made, made.snapshots[-1], **cases()["by_group-0"])), expected) == []
    [file] = IcebergVersion.of(str(made.folder), made.snapshots[0]).files
    numbered = pq.read_schema(made.folder / file)
    texts = as_iceberg(with_invalid_texts(table(), "site"))
    pq.write_table(texts.cast(pa.schema(list(numbered))), made.folder / file)
    write(tmp_path / "texts" / "v1", texts)
    expected = counts(embedded, of_copy(tmp_path / "texts" / "v1", **cases()["by_group-0"]))
    assert differences(counts(embedded, at(made, made.snapshots[0], **cases()["by_group-0"])), expected) == []


def refused(asked: ReleaseRequest) -> str:
    with pytest.raises(InvalidRequest) as line:
        require_embedded(asked)
    assert "\n" not in str(line.value)
    return str(line.value)


GONE = "must be a table that can be read at this version; check the table's name and format, and"


def test_a_snapshot_that_is_not_there_or_gone_is_refused(lake: Lake, tmp_path: Path) -> None:
    assert GONE in refused(at(lake, 17))
    assert GONE in refused(at(Lake(folder=tmp_path, table=lake.table), 17))
    rows = as_iceberg(within_the_calendar().slice(0, 100))
    made = new_lake(tmp_path / "lake", rows)
    made.table.append(rows)
    made.table.overwrite(rows)
    first, *_, last = made.snapshots
    [file] = IcebergVersion.of(str(made.folder), first).files
    (made.folder / file).unlink()
    assert GONE in refused(at(made, first))
    require_embedded(at(made, last))
    made.table.maintenance.expire_snapshots().by_id(first).commit()
    assert GONE in refused(at(made, first))
    require_embedded(at(made, last))


def small(folder: Path, **properties: str) -> Lake:
    rows = as_iceberg(within_the_calendar().slice(0, 100))
    made = new_lake(folder, rows, **properties)
    made.table.append(rows)
    return made


def test_metadata_are_read_once_for_the_check_and_for_the_files(
    embedded: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever puts other metadata there after the check has no file read whose columns nobody looked at."""
    read, first = [], IcebergVersion.of.__func__  # type: ignore[attr-defined]

    def once(cls: Any, folder: str, snapshot: int) -> Any:
        assert not read, "read again after the check"
        read.append(snapshot)
        return first(cls, folder, snapshot)

    asked = at(lake, lake.snapshots[-1], **cases()["roc_curve-0"])
    monkeypatch.setattr(IcebergVersion, "of", classmethod(once))
    prepare_embedded(embedded, asked)
    assert len(read) == 1


def test_columns_that_are_others_in_a_file_are_refused(tmp_path: Path) -> None:
    renamed = small(tmp_path / "renamed")
    with renamed.table.update_schema() as schema:
        schema.rename_column("score", "points")
        schema.rename_column("few", "score")
    renamed.table.append(renamed.table.scan().to_arrow())
    line = refused(at(renamed, renamed.snapshots[-1]))
    assert "column score of type int in this version" in line
    swapped = small(tmp_path / "swapped")
    with swapped.table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("score")
    with swapped.table.update_schema() as schema:
        schema.add_column("score", DoubleType())
    swapped.table.append(swapped.table.scan().to_arrow())
    line = refused(at(swapped, swapped.snapshots[-1]))
    assert "column score of which a file has another column under this name" in line
    moved = small(tmp_path / "moved")
    with moved.table.update_schema() as schema:
        schema.rename_column("score", "points")
    moved.table.append(moved.table.scan().to_arrow())
    with moved.table.update_schema() as schema:
        schema.rename_column("points", "score")
    moved.table.append(moved.table.scan().to_arrow())
    assert "column score of which a file has it under another name" in refused(at(moved, moved.snapshots[-1]))


def test_a_column_that_only_folders_have_is_refused(tmp_path: Path) -> None:
    made = small(tmp_path)
    with made.table.update_spec() as spec:
        spec.add_field("score", IdentityTransform())
    snapshot = made.snapshots[-1]
    [file] = IcebergVersion.of(str(made.folder), snapshot).files
    pq.write_table(pq.read_table(made.folder / file).drop_columns(["score"]), made.folder / file)
    assert "column score of which a file has none, but its folder's value" in refused(at(made, snapshot))


def rewrite(lake: Lake, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the last metadata as somebody who writes to the store can."""
    file = max((lake.folder / "metadata").glob("*.metadata.json"))
    metadata = json.loads(file.read_text())
    change(metadata)
    file.write_text(json.dumps(metadata))


def _elsewhere(path: str) -> Callable[[dict[str, Any]], None]:
    return lambda metadata: [one.update({"manifest-list": path}) for one in metadata["snapshots"]] and None


WRITTEN = {
    "server": (_elsewhere("s3://elsewhere/snap.avro"), "must have its files in its own folder"),
    "absolute": (_elsewhere("file:///etc/hosts"), "must have its files in its own folder"),
    "above": (_elsewhere("FOLDER/../catalog.db"), "must have its files in its own folder"),
    "none": (lambda metadata: metadata["snapshots"][0].pop("manifest-list"), "must have metadata that are intact"),
    "tab": (_elsewhere("file://FOLDER/.\t./outside.avro"), "must have its files in its own folder"),
    "query": (_elsewhere("FOLDER/metadata/words?x"), "must have its files in its own folder"),
    "host": (_elsewhere("file:////etc/hosts"), "must have its files in its own folder"),
    "later": (lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0}), "must be of version 2"),
    "no-schema": (lambda metadata: metadata.pop("schemas"), "must have metadata that are intact"),
    "no-avro": (_elsewhere("FOLDER/metadata/words"), "must have metadata that are intact"),
}


@pytest.mark.parametrize(("change", "line"), WRITTEN.values(), ids=WRITTEN)
def test_metadata_that_name_other_files_or_are_not_read_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], line: str
) -> None:
    made = small(tmp_path)
    snapshot = made.snapshots[-1]
    (made.folder / "metadata" / "words").write_text("Zebedee")

    def changed(metadata: dict[str, Any]) -> None:
        change(metadata)
        for one in metadata["snapshots"]:
            if "manifest-list" in one:
                one["manifest-list"] = one["manifest-list"].replace("FOLDER", str(made.folder))

    rewrite(made, changed)
    said = refused(at(made, snapshot))
    assert line in said
    assert "Zebedee" not in said


def test_a_table_that_was_moved_and_a_data_file_elsewhere_are_refused(tmp_path: Path) -> None:
    made = small(tmp_path / "one")
    moved = Lake(folder=tmp_path / "two", table=made.table)
    shutil.copytree(made.folder, moved.folder)
    assert "must have its files in its own folder, where it was written" in refused(at(moved, made.snapshots[-1]))
    other = pa.table(within_the_calendar().slice(0, 10))
    pq.write_table(as_iceberg(other), tmp_path / "outside.parquet")
    made.table.add_files([f"file://{tmp_path}/outside.parquet"])
    assert "must have its files in its own folder" in refused(at(made, made.snapshots[-1]))


@pytest.mark.parametrize("planted", ["link", "pipe", "endless"])
def test_what_is_no_file_is_refused_before_a_charge_and_not_waited_for(tmp_path: Path, planted: str) -> None:
    made = small(tmp_path)
    snapshot = made.snapshots[-1]
    file = max((made.folder / "metadata").glob("*.metadata.json"))
    if planted == "pipe":
        file.unlink()
        os.mkfifo(file)
    elif planted == "link":
        file.rename(tmp_path / "elsewhere.json")
        file.symlink_to(tmp_path / "elsewhere.json")
    else:
        with file.open("wb") as content:
            content.truncate(2**36)
    assert "table.path" in refused(at(made, snapshot))


def test_a_column_of_another_case_is_another_one(tmp_path: Path) -> None:
    made = small(tmp_path)
    snapshot = made.snapshots[-1]
    [file] = IcebergVersion.of(str(made.folder), snapshot).files
    rows = pq.read_table(made.folder / file)
    place = rows.schema.get_field_index("score")
    other = pa.field("SCORE", pa.float64(), metadata={"PARQUET:field_id": "999"})
    pq.write_table(rows.set_column(place, other, rows["score"]), made.folder / file)
    assert "column score of which a file has another column under this name" in refused(at(made, snapshot))


def test_a_table_names_no_program_that_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "planted.py").write_text("raise SystemExit('it was run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    made = small(tmp_path / "lake")
    snapshots = made.snapshots
    rewrite(made, lambda metadata: metadata["properties"].update({"py-io-impl": "planted.FileIO"}))
    with pytest.raises(SystemExit, match="it was run"):  # by pyiceberg's own door
        StaticTable.from_metadata(str(max((made.folder / "metadata").glob("*.metadata.json"))))
    require_embedded(at(made, snapshots[-1]))


def test_files_of_deletes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.manifest import ManifestContent, ManifestFile

    made = small(tmp_path)
    monkeypatch.setattr(ManifestFile, "content", property(lambda _: ManifestContent.DELETES))
    assert "must be without files of deletes" in refused(at(made, made.snapshots[-1]))


def test_without_its_reader_the_line_names_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise InvalidRequest("table.format", "iceberg", "needs pyiceberg", "install dp-diagnostics[iceberg]")

    monkeypatch.setattr(iceberg_metadata, "_require_reader", missing)
    assert "install dp-diagnostics[iceberg]" in refused(at(lake, lake.snapshots[0]))
