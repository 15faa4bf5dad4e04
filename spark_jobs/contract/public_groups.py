"""Keys of groups from a public file, for a draft or for an administrator who registers them in a ledger.

The groups of a release must not depend on the private rows; an empty group is released like any other. Only an
administrator can decide that a file is public, so a charged request does not name a file: it lists its keys, or names a
registered list. No message reveals what a file contains, not even its columns.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.linear import MAX_GROUPS, MAX_KEY_CHARACTERS, require_keys
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.objects import open_store
from spark_jobs.contract.values import Frozen

_FIELD = "diagnostics.groups"
_SUFFIXES = (".csv", ".json", ".parquet")


class KeyFile(Frozen):
    """A public file that lists groups.

    Attributes:
        path: a path or an ``s3://`` URI; ``.csv`` with a header, ``.json`` (a list of keys, or of objects) or
            ``.parquet``.
        column: the column of the keys; may be left out if the file has only one column.
    """

    path: Annotated[str, Field(min_length=1)]
    column: Annotated[str, Field(min_length=1)] | None = None


def is_registered(groups: object) -> bool:
    """Whether ``groups`` is ``{"list": NAME}``, which names a list that an administrator has registered."""
    return isinstance(groups, Mapping) and "list" in groups


def names_file(groups: object) -> bool:
    """Whether ``groups`` names a public file."""
    return isinstance(groups, str) or (isinstance(groups, Mapping) and not is_registered(groups))


def with_public_groups(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, with the name of a file replaced by its keys: each once, in the file's order.

    Raises:
        InvalidRequest: the file cannot be read, has no valid keys, or lies within the table.
    """
    entries = fields.get("diagnostics")
    if not isinstance(entries, (list, tuple)):
        return dict(fields)
    return {**fields, "diagnostics": [_resolved(entry, fields.get("table")) for entry in entries]}


def _resolved(entry: Any, table: Any) -> Any:
    groups = entry.get("groups") if isinstance(entry, Mapping) else None
    if not isinstance(groups, (Mapping, str)):
        return entry
    if is_registered(groups):
        raise InvalidRequest(
            _FIELD, groups, "names a registered list, which only the ledger knows",
            "run the request by the operator or by dp-budget run, or list the keys",
        )  # fmt: skip
    try:
        named = KeyFile.parse({"path": groups} if isinstance(groups, str) else dict(groups))
    except InvalidRequest as refused:
        raise refused.within(_FIELD) from None
    _require_apart(named.path, table)
    return {**entry, "groups": read_keys(named)}


def read_keys(file: KeyFile) -> tuple[str | int, ...]:
    """The keys in a public file, each once, in the file's order.

    Raises:
        InvalidRequest: the file cannot be read or has no valid keys; the message does not reveal its contents.
    """
    try:
        return require_keys(list(dict.fromkeys(_keys(file))))
    except InvalidRequest as refused:
        if refused.field:
            raise
        raise InvalidRequest(
            f"{_FIELD}.path", file.path,
            f"must contain 1 to {MAX_GROUPS} different keys: texts of 1 to {MAX_KEY_CHARACTERS} characters "
            "or whole numbers of 64 bits", "write the keys to a file of their own, as they are in the column",
        ) from None  # fmt: skip
    except TypeError:  # keys that are lists or objects
        raise InvalidRequest(
            f"{_FIELD}.path", file.path, "must contain texts or whole numbers as keys", "check the file"
        ) from None


def _require_apart(path: str, table: Any) -> None:
    """Reject a file of the private table: keys that are read from its rows would reveal who is in it."""
    file = _place_of(path)
    try:
        place = Place.of_folder(str(table.get("path"))) if isinstance(table, Mapping) else None
    except InvalidRequest:
        return  # of a catalog, or refused with the rest of the request
    if place is not None and (place.contains(file) or place.resolved().contains(file.resolved())):
        raise InvalidRequest(
            f"{_FIELD}.path", path,
            "must not lie within the table, because keys that are read from its rows are not public",
            "name a file that was made without the table",
        )  # fmt: skip


def _place_of(path: str) -> Place:
    return Place.of_folder(path if "://" in path else str(Path(path).absolute()), what=f"{_FIELD}.path")


def _keys(named: KeyFile) -> Iterable[Any]:
    suffix = Path(named.path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InvalidRequest(
            f"{_FIELD}.path", named.path, f"must end in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}",
            "write the keys to such a file",
        )  # fmt: skip
    content = _read(named.path)
    try:
        return {".csv": _of_csv, ".json": _of_json, ".parquet": _of_parquet}[suffix](content, named.column)
    except InvalidRequest as refused:
        raise refused.within(_FIELD) from None
    except (ValueError, csv.Error):  # no text, no JSON, no Parquet; pyarrow's errors are ValueErrors too
        raise InvalidRequest(
            f"{_FIELD}.path", named.path, f"must be a {suffix} file, as its name says, that can be read",
            "check the file",
        ) from None  # fmt: skip


def _read(path: str) -> bytes:
    scheme = path.partition("://")[0] if "://" in path else ""
    uri = path if scheme else str(Path(path).absolute())
    try:
        content = open_store(uri, what=f"{_FIELD}.path").read(uri)
    except OSError:
        content = None
    if content is None:
        raise InvalidRequest(f"{_FIELD}.path", path, "must be a file that can be read", "check the path")
    return content


def _of_csv(content: bytes, column: str | None) -> list[str]:
    rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    place = _place(next(rows, []), column)
    # a short row has no key, which is refused as an empty one
    return [(row[place : place + 1] or [""])[0] for row in rows if row]


def _of_json(content: bytes, column: str | None) -> list[Any]:
    data = json.loads(content)
    if not isinstance(data, list):
        raise ValueError
    if not any(isinstance(row, dict) for row in data):
        return data
    if not all(isinstance(row, dict) for row in data):
        raise ValueError
    names = list(dict.fromkeys(name for row in data for name in row))
    name = names[_place(names, column)]
    return [row.get(name) for row in data]


def _of_parquet(content: bytes, column: str | None) -> list[Any]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(io.BytesIO(content))
    names = file.schema_arrow.names
    name = names[_place(names, column)]
    return list(file.read(columns=[name]).column(0).to_pylist())


def _place(names: Sequence[str], column: str | None) -> int:
    if column is None and len(names) == 1:
        return 0
    if column is None or column not in names:
        raise InvalidRequest(
            "column", column, "must be a column of the file, and may be left out only if the file has a single column",
            "name the column of the keys",
        )  # fmt: skip
    return list(names).index(column)
