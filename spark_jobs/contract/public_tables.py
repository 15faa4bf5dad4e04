"""Reads a lookup from two columns of a small public file, for the administrator who registers it.

No message shows what is in the file.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.objects import open_store

_FIELD = "file"


def read_lookup(path: str, *, key: str | None = None, value: str | None = None) -> dict[str, Any]:
    """The ``key``, ``value`` and ``entries`` of the lookup in a public file.

    Args:
        path: a path or the URI of an object; ``.csv`` with a header, ``.json`` (a list of objects) or ``.parquet``.
        key: the name of the column of keys; by default the first of a file's two columns.
        value: the name of the column of values; by default the second of two.

    Raises:
        InvalidRequest: the file cannot be read, or does not have the columns.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _READERS:
        raise InvalidRequest(_FIELD, path, f"must end in {', '.join(_READERS)}", "write keys and values to such a file")
    content = _content(path)
    try:
        columns = _READERS[suffix](content)
    except (
        ValueError,
        csv.Error,
        RecursionError,
    ):  # no text, no JSON, no Parquet; pyarrow's errors are ValueErrors too
        raise InvalidRequest(
            _FIELD, path, f"must be a {suffix} file, as its name says, that can be read", "check the file"
        ) from None
    titles = _titles(list(columns), key, value)
    rows = zip(*(columns[title] for title in titles), strict=True)
    return {"key": titles[0], "value": titles[1], "entries": [list(row) for row in rows]}


def _content(path: str) -> bytes:
    uri = path if "://" in path else str(Path(path).absolute())
    try:
        content = open_store(uri, what=_FIELD).read(uri)
    except OSError:
        content = None
    if content is None:
        raise InvalidRequest(_FIELD, path, "must be a file that can be read", "check the path")
    return content


def _titles(known: Sequence[str], key: str | None, value: str | None) -> tuple[str, str]:
    if key is None and value is None and len(known) == 2:
        return known[0], known[1]
    for option, title in (("key", key), ("value", value)):
        if title not in known:
            raise InvalidRequest(
                option, title, "must be a column of the file, and may be left out only if the file has exactly two "
                "columns",
                "name the columns of keys and values with --key and --value",
            )  # fmt: skip
    if key == value:
        raise InvalidRequest(
            "value", value, "must be another column than the column of keys", "name the column of values"
        )
    return str(key), str(value)


def _of_csv(content: bytes) -> Mapping[str, Sequence[Any]]:
    titles, *rows = [
        row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True) if row
    ]
    if len(set(titles)) < len(titles) or any(len(row) != len(titles) for row in rows):
        raise ValueError
    return {title: [row[place] for row in rows] for place, title in enumerate(titles)}


def _of_json(content: bytes) -> Mapping[str, Sequence[Any]]:
    rows = json.loads(content)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError
    return {title: [row.get(title) for row in rows] for title in dict.fromkeys(name for row in rows for name in row)}


def _of_parquet(content: bytes) -> Mapping[str, Sequence[Any]]:
    import pyarrow.parquet

    table = pyarrow.parquet.ParquetFile(io.BytesIO(content)).read()
    if len(set(table.column_names)) < len(table.column_names):
        raise ValueError
    return {title: table.column(title).to_pylist() for title in table.column_names}


_READERS = {".csv": _of_csv, ".json": _of_json, ".parquet": _of_parquet}
