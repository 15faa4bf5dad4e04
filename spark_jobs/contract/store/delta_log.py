"""Reads the log of a Delta table on this machine, to find which files make up a version of the table.

The log alone decides which files count; its statistics of rows are not used. A version never changes, so every read
gives the same files. Tables with features that are not read here, such as deletion vectors or renamed columns, are
refused by the protocol in their log, which is public, and never by a file or a row.
Source: the Delta transaction log protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import MAX_MANIFEST
from spark_jobs.contract.store.objects import open_store

LOG = "_delta_log"
UNREADABLE_VERSION = (
    "must be a table that can be read at this version",
    "check the table's name and format, and whether it still has this version",
)
_DAMAGED = "must have a log that is intact", "let the program that writes the table check it"
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_FEATURES = ("timestampNtz", "vacuumProtocolCheck", "columnMapping")
"""Features of tables that are read here, of columns under other names only the setting that there are none."""
_MAPPING = "delta.columnMapping.mode"
_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_PARTS = ("protocol", "metaData", "add", "remove")
_LEFT_OUT = ("stats", "stats_parsed", "partitionValues_parsed", "tags")
"""Parts of a checkpoint that hold values of rows, or that are of no use."""


@dataclass(frozen=True, kw_only=True)
class DeltaVersion:
    """A version of a Delta table.

    Attributes:
        types: the types of its columns as bindings spell them, by name; nested ones as ``nested``.
        folder_columns: the partition columns, whose values are in the log and not in the files.
        files: for each file, by its path below the table's folder, the values of ``folder_columns``.
    """

    types: Mapping[str, str]
    folder_columns: tuple[str, ...]
    files: Mapping[str, tuple[str | None, ...]]

    @classmethod
    def of(cls, folder: str, version: int) -> DeltaVersion:
        """The version ``version`` of the table in ``folder``.

        Raises:
            InvalidRequest: there is no such table or version, one of its files is gone, its log is damaged, or it uses
                a protocol that is not read here.
        """
        try:
            state = _replayed(Path(folder), version)
            replayed = cls._of_state(state)
        except InvalidRequest:
            raise
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidRequest("table.path", folder, *_DAMAGED) from None
        except OSError:
            raise InvalidRequest("table.path", folder, *UNREADABLE_VERSION) from None
        if not all(Path(folder, name).is_file() for name in replayed.files):
            raise InvalidRequest("table.path", folder, *UNREADABLE_VERSION)
        return replayed

    @classmethod
    def _of_state(cls, state: _State) -> DeltaVersion:
        _require_protocol(state.protocol, dict(state.table["configuration"] or {}))
        if any(added.get("deletionVector") is not None for added in state.files.values()):
            raise ValueError("rows are removed by a feature that the protocol does not name")
        fields = json.loads(state.table["schemaString"])["fields"]
        types = {str(field["name"]): _type_of(field["type"]) for field in fields}
        columns = tuple(str(name) for name in state.table["partitionColumns"] or ())
        files = {
            path: tuple(_value(added["partitionValues"], column) for column in columns)
            for path, added in state.files.items()
        }
        return cls(types=types, folder_columns=columns, files=dict(sorted(files.items())))


@dataclass
class _State:
    """What the actions of a log add up to."""

    protocol: Mapping[str, Any]
    table: Mapping[str, Any]
    files: dict[str, Mapping[str, Any]]

    def apply(self, action: Mapping[str, Any]) -> None:
        if (protocol := action.get("protocol")) is not None:
            self.protocol = protocol
        if (table := action.get("metaData")) is not None:
            self.table = table
        if (removed := action.get("remove")) is not None:
            self.files.pop(_path(removed), None)
        if (added := action.get("add")) is not None:
            self.files[_path(added)] = added


def _replayed(folder: Path, version: int) -> _State:
    """The state at a version, from the last checkpoint before it and the commits since.

    Raises:
        OSError: the log has no such version, or not all that leads to it.
    """
    log = folder / LOG
    first, checkpoint = _last_checkpoint(log, version)
    state = _State(protocol={}, table={}, files={})
    for file in checkpoint:
        for action in _of_checkpoint(file):
            state.apply(action)
    for number in range(first, version + 1):
        # all of a commit's removals come before what it adds
        actions = [json.loads(line) for line in read_small(log / f"{number:020}.json").decode().splitlines() if line]
        for action in sorted(actions, key=lambda one: "add" in one):
            state.apply(action)
    return state


def read_small(file: Path) -> bytes:
    """The content of a file that lists others in the table's folder, whose writers are not trusted.

    Raises:
        OSError: the file does not exist, is a link or not a regular file, or has more than ``MAX_MANIFEST`` bytes.
    """
    content = open_store(str(file.parent)).read(str(file), limit=MAX_MANIFEST)
    if not content or len(content) > MAX_MANIFEST:
        raise FileNotFoundError(str(file))
    return content


def _last_checkpoint(log: Path, version: int) -> tuple[int, list[Path]]:
    """The number of the first commit to apply, and the files of the checkpoint before it; none before the first."""
    parts: dict[tuple[int, int], list[Path]] = {}
    for file in sorted(log.iterdir()):
        named = _CHECKPOINT.fullmatch(file.name)
        if named is not None and int(named[1]) <= version:
            parts.setdefault((int(named[1]), int(named[3] or 1)), []).append(file)
    complete = [(number, files) for (number, count), files in sorted(parts.items()) if len(files) == count]
    if not complete:
        return 0, []
    number, files = complete[-1]
    return number + 1, files


def _of_checkpoint(file: Path) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, pre_buffer=False) as rows:
            names = [name for name in _PARTS if name in rows.schema_arrow.names]
            # paths and settings alone: the statistics of rows are left in the file
            paths = [rows.metadata.schema.column(place).path for place in range(len(rows.metadata.schema))]
            wanted = [path for path in paths if (parts := path.split("."))[0] in names and parts[1] not in _LEFT_OUT]
            for batch in rows.iter_batches(columns=wanted):
                yield from ({name: row[name] for name in names} for row in batch.to_pylist())
    except pa.ArrowException as damaged:
        raise ValueError("a checkpoint that cannot be read") from damaged


def _path(action: Mapping[str, Any]) -> str:
    written = str(action["path"])
    path = unquote(written)
    if urlsplit(written).scheme or path.startswith("/") or ".." in path.split("/"):
        raise _refused("have its files in its own folder, which a clone does not have")
    return path


def _value(values: Any, column: str) -> str | None:
    """The value of a column in an action of JSON, or in one of a checkpoint, which has pairs; an empty one is none."""
    return dict(values or {}).get(column) or None


def _type_of(field_type: Any) -> str:
    return _TYPES.get(field_type, field_type) if isinstance(field_type, str) else "nested"


def _require_protocol(protocol: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    reader = int(protocol["minReaderVersion"])
    features = [str(name) for name in protocol.get("readerFeatures") or ()]
    unknown = [name for name in features if name not in _FEATURES]
    if reader > 3 or unknown:
        raise _refused(f"be without {' and '.join(unknown) or f'version {reader} of the protocol for readers'}")
    if settings.get(_MAPPING, "none") != "none":
        raise _refused(f"be without {_MAPPING}")


def _refused(requirement: str) -> InvalidRequest:
    return InvalidRequest(
        "table.format", "delta", f"must {requirement}, with the embedded engine",
        "write a copy of the table without, or run it on Spark with Delta's connector",
    )  # fmt: skip
