"""A folder with what an engine is to read of a table: links to its Parquet files, or copies of those that need one.

An engine that fails on text that is no UTF-8 gets a copy of the file, in which such a value is null. Null is a rule for
each value by itself, so that no two units become one and the tables that are counted still differ by the rows of one
unit. Spark compares the bytes instead. Where a label, a group, a level or a number is wanted, neither such bytes nor
null are one; but a *unit* of such a name counts with Spark, and has no unit here. Files whose texts a program has kept
as categories, which the engine does not read as text, are copied as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ROWS = 1 << 16


def make_view(table: Path, names: Sequence[str], columns: Sequence[str], *, view: Path) -> None:
    """Make the folder ``view``.

    Files without a byte and summaries of others, which Spark passes over, are left out. All names are plain, as an
    engine may take others for patterns.

    Args:
        table: the table's folder.
        names: the paths of its files below it.
        columns: those that are read, spelt as in the binding; a file may spell them in another case.
        view: the folder, which only this user may enter. A copy has these columns alone.

    Raises:
        OSError: a file cannot be read, or a copy not be written.
    """
    view.mkdir(mode=0o700)
    for place, name in enumerate(names):
        if not (table / name).stat().st_size or Path(name).name.startswith(("_", ".")):
            continue
        target = view / f"part-{place:06}.parquet"
        with pq.ParquetFile(table / name, pre_buffer=False) as file:
            own = _spellings(file.schema_arrow.names, columns)
            texts = [column for column in own if _is_text(file.schema_arrow.field(column).type)]
            if all(_is_plain(file.schema_arrow.field(column).type) for column in texts) and _is_valid(file, texts):
                target.symlink_to(table / name)
            else:
                _copy(file, own, target)


def _spellings(of_file: Sequence[str], columns: Sequence[str]) -> list[str]:
    wanted = {column.lower() for column in columns}
    return [name for name in of_file if name.lower() in wanted]


def _is_text(of: pa.DataType) -> bool:
    value = of.value_type if pa.types.is_dictionary(of) else of
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value))


def _is_plain(of: pa.DataType) -> bool:
    """Whether the engine reads texts of a type of Arrow, which a program may have noted in a file, as text."""
    return not pa.types.is_dictionary(of)


def _is_valid(file: Any, texts: Sequence[str]) -> bool:
    if not texts:
        return True
    return all(_has_text_alone(column) for batch in file.iter_batches(_ROWS, columns=texts) for column in batch.columns)


def _has_text_alone(values: pa.Array) -> bool:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _copy(file: Any, columns: Sequence[str], to: Path) -> None:
    schema = pa.schema([_plain_field(file.schema_arrow.field(column)) for column in columns])
    with pq.ParquetWriter(to, schema, compression="zstd") as writer:
        for batch in file.iter_batches(_ROWS, columns=list(columns)):
            values = {name: _with_text_alone(batch.column(name)) for name in schema.names}
            writer.write_table(pa.table(values, schema=schema))


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if _is_text(field.type) else field


def _with_text_alone(values: pa.Array) -> pa.Array:
    if not _is_text(values.type):
        return values
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if _has_text_alone(plain):
        return pc.cast(plain, pa.string())
    return pa.array(list(map(_text_of, pc.cast(plain, pa.large_binary()).to_pylist())), pa.string())


def _text_of(octets: bytes | None) -> str | None:
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None
