"""A folder with what an engine is to read of a table: links to its Parquet files, or copies of those that need one.

An engine that fails on text that is not UTF-8 gets a copy of the file in which every such value is null. The value
becomes null whatever other rows contain, and no two units become one; so the counted tables still differ by the rows of
one unit. (Spark compares the bytes of such values. The results agree for labels, groups, levels and numbers, where
neither such bytes nor null are valid. They differ for a *unit* with such a name: it counts under Spark, and is no unit
here.)

The engine reads a column by the type that the writing program noted beside the footer, and fails where this differs
from the footer's own type: categories, unsigned numbers, days in milliseconds. It reads neither nanoseconds nor
timestamps of 96 bits, and fails on milliseconds beyond the year 294247. Files with such a column are copied too,
whatever their rows, with each value exact. There are two exceptions: nanoseconds are cut to whole microseconds, as by
Spark; and milliseconds beyond that year, on which Spark fails, become null.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_jobs.contract.footers import NANOSECONDS
from spark_jobs.contract.store.table_files import folder_of

_ROWS = 1 << 16
_ARROW = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
"""For each type of columns, but for decimals, the one of Arrow that the engine reads."""
_TIMES_96 = "INT96"
_UINT32_DAYS = 1 << 32
_DAY_MILLISECONDS, _DAY_MICROSECONDS = 86_400_000, 86_400_000_000
_WHOLE_THOUSANDS = 2**63 // 1000


def make_view(
    table: Path,
    files: Mapping[str, Sequence[str | None]],
    columns: Mapping[str, str],
    *,
    view: Path,
    folder_columns: Sequence[str] = (),
) -> None:
    """Make the folder ``view``, with a subfolder for each value of a folder column.

    Empty files (0 bytes), which Spark ignores, are left out. If no file is left, the view has one file without rows.
    Files get plain names, as an engine may take other names for patterns.

    Args:
        table: the table's folder.
        files: for each file, by its path below the table, its values of ``folder_columns``.
        columns: the types of the columns to read, the same in all files, by their bound names; a file may spell a name
            in another case, and a column that a file lacks is null there.
        view: the folder to make, which only this user may enter. A copy has only these columns.
        folder_columns: the columns whose values the folders' names hold, in order.

    Raises:
        OSError: a file cannot be read, or a copy cannot be written.
    """
    view.mkdir(mode=0o700)
    folders = {column.lower() for column in folder_columns}
    types = {column: _arrow_type(of) for column, of in columns.items() if column.lower() not in folders}
    wanted = {column.lower() for column in columns}
    used = [place for place, column in enumerate(folder_columns) if column.lower() in wanted]
    for place, (name, values) in enumerate(files.items()):
        if not (table / name).stat().st_size:
            continue
        named = [folder_of(folder_columns[column], values[column]) for column in used]
        target = _below(view, named) / f"part-{place:06}.parquet"
        with pq.ParquetFile(table / name, pre_buffer=False, coerce_int96_timestamp_unit="us") as file:
            spelt = {column.lower(): column for column in file.schema_arrow.names}
            own = {spelt[column.lower()]: of for column, of in types.items() if column.lower() in spelt}
            texts = [column for column, of in own.items() if of == pa.string()]
            is_plain = len(own) == len(types) and all(_is_plain(file, column, of) for column, of in own.items())
            # of a column of the folders, a file's own values do not count
            is_plain &= folders.isdisjoint(spelt)
            if is_plain and _is_valid(file, texts):
                target.symlink_to(table / name)
            else:
                rest = {column: of for column, of in types.items() if column.lower() not in spelt}
                _copy(file, table / name, own, target, without=rest)
    if not any(view.iterdir()):
        named = [folder_of(folder_columns[column], None) for column in used]
        target = _below(view, named) / "part-000000.parquet"
        pq.write_table(pa.schema(list(types.items())).empty_table(), target, store_schema=False)


def _below(view: Path, folders: Sequence[str]) -> Path:
    folder = view.joinpath(*folders)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _arrow_type(of: str) -> pa.DataType:
    if of.startswith("decimal("):
        digits, scale = of[8:-1].split(",")
        return pa.decimal128(int(digits), int(scale))
    return _ARROW[NANOSECONDS.get(of, of)]


def _is_plain(file: Any, column: str, of: pa.DataType) -> bool:
    """Whether the engine reads a file's column as values of this type, and fails on none."""
    if _is_96_bits(file, column):
        return False
    return all(_is_alike(schema.field(column).type, of) for schema in _schemas(file) if column in schema.names)


def _is_96_bits(file: Any, column: str) -> bool:
    schema = file.metadata.schema
    return any(
        schema.column(place).physical_type == _TIMES_96
        for place in range(len(schema)) if schema.column(place).path == column
    )  # fmt: skip


def _schemas(file: Any) -> list[pa.Schema]:
    """The file's schema, and the one that the program noted which wrote it."""
    noted = (file.metadata.metadata or {}).get(b"ARROW:schema")
    if noted is None:
        return [file.schema_arrow]
    try:
        return [file.schema_arrow, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(noted)))]
    except (pa.ArrowInvalid, OSError, binascii.Error):
        return [file.schema_arrow, pa.schema([pa.field(name, pa.null()) for name in file.schema_arrow.names])]


def _is_alike(one: pa.DataType, of: pa.DataType) -> bool:
    if of == pa.string():
        return bool(pa.types.is_string(one) or pa.types.is_large_string(one) or pa.types.is_string_view(one))
    if pa.types.is_timestamp(of) and pa.types.is_timestamp(one):
        return bool(one.unit == of.unit and (one.tz is None) == (of.tz is None))
    return bool(one == of)


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


def _copy(
    file: Any, path: Path, types: Mapping[str, pa.DataType], to: Path, *, without: Mapping[str, pa.DataType]
) -> None:
    """Copy a file's columns of these types, and nulls for those that it is without."""
    early = [column for column in types if _is_96_bits(file, column)]
    schema = pa.schema([*types.items(), *without.items()])
    with (
        pq.ParquetFile(path, pre_buffer=False, coerce_int96_timestamp_unit="ms") as in_milliseconds,
        pq.ParquetWriter(to, schema, compression="zstd", store_schema=False) as writer,
    ):
        milliseconds = in_milliseconds.iter_batches(_ROWS, columns=early)
        for batch in file.iter_batches(_ROWS, columns=list(types)):
            values = {name: _as(batch.column(name), of) for name, of in types.items()}
            values |= {name: pa.nulls(batch.num_rows, of) for name, of in without.items()}
            if early:
                rounded = next(milliseconds)
                times = {name: _of_96_bits(batch.column(name), rounded.column(name)) for name in early}
                values |= {name: time.cast(types[name]) for name, time in times.items()}
            writer.write_table(pa.table(values, schema=schema))


def _as(values: pa.Array, of: pa.DataType) -> pa.Array:
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if of == pa.string():
        return _with_text_alone(plain)
    if pa.types.is_timestamp(of):
        return _microseconds(plain).cast(of)
    if pa.types.is_integer(of) and plain.type != of:
        return _whole(plain, of)
    if pa.types.is_floating(of) and pa.types.is_integer(plain.type):
        return _exact(plain, of)
    return pc.cast(plain, of, safe=False)  # a double as a float is rounded


def _whole(values: pa.Array, of: pa.DataType) -> pa.Array:
    """Numbers as whole ones of a type, and null where they are none, as ``parquet_files.cast``."""
    limits = np.iinfo(of.to_pandas_dtype())
    numbers = _known(values)
    # 2^63 as a double is at most the largest long, which is a double no more: Spark makes it that number
    fits = (numbers >= limits.min) & (numbers <= limits.max) & (np.rint(numbers) == numbers)
    return pa.array(_saturated(np.where(fits, numbers, 0)), of, mask=~fits | _unknown(values))


def _exact(values: pa.Array, of: pa.DataType) -> pa.Array:
    """Whole numbers as floats, and null where one is none, likewise."""
    numbers = _known(values)
    floats = numbers.astype(of.to_pandas_dtype())
    return pa.array(floats, of, mask=(_saturated(floats.astype(np.float64)) != numbers) | _unknown(values))


def _known(values: pa.Array) -> np.ndarray:
    """The numbers, as long as they can be, with 0 for nulls."""
    wide = pa.int64() if pa.types.is_integer(values.type) else pa.float64()
    known: np.ndarray = pc.fill_null(pc.cast(values, wide), 0).to_numpy(zero_copy_only=False)
    return known


def _unknown(values: pa.Array) -> np.ndarray:
    unknown: np.ndarray = values.is_null().to_numpy(zero_copy_only=False)
    return unknown


def _saturated(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers up to 2^63 as long ones."""
    if numbers.dtype == np.int64:
        return numbers
    beyond = numbers >= 2.0**63
    return np.where(beyond, np.int64(2**63 - 1), np.where(beyond, 0, numbers).astype(np.int64))


def _microseconds(values: pa.Array) -> pa.Array:
    """Times of any unit in microseconds since 1970, rounded down; null for those that do not fit."""
    numbers, unknown = _numbers(values)
    if values.type.unit == "ns":
        whole = numbers // 1000
        return pa.array(
            whole, mask=unknown | (whole < -_WHOLE_THOUSANDS)
        )  # as Spark, whose subtraction overflows there
    if values.type.unit == "ms":
        beyond = (numbers > _WHOLE_THOUSANDS) | (numbers < -_WHOLE_THOUSANDS)
        return pa.array(np.where(beyond, 0, numbers) * 1000, mask=unknown | beyond)
    return pa.array(numbers, mask=unknown)


def _of_96_bits(microseconds: pa.Array, milliseconds: pa.Array) -> pa.Array:
    """Times of 96 bits in microseconds since 1970, modulo 2^64 as Spark takes them.

    Arrow reads a day before 4713 BC, which is a negative number of 32 bits, as one without a sign. In milliseconds it
    does not overflow, and so shows which they are.
    """
    numbers, unknown = _numbers(microseconds)
    misread = _numbers(milliseconds)[0] >= (_UINT32_DAYS // 2) * _DAY_MILLISECONDS
    offset = np.array(_UINT32_DAYS * _DAY_MICROSECONDS % 2**64, dtype=np.uint64)
    moved = (numbers.view(np.uint64) - np.where(misread, offset, np.uint64(0))).view(np.int64)
    return pa.array(moved, mask=unknown)


def _numbers(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that times are, 0 for nulls, and where these are."""
    return pc.fill_null(pc.cast(values, pa.int64()), 0).to_numpy(zero_copy_only=False), _unknown(values)


def _with_text_alone(values: pa.Array) -> pa.Array:
    if not pa.types.is_binary(values.type) and not pa.types.is_large_binary(values.type) and _has_text_alone(values):
        return pc.cast(values, pa.string())
    return pa.array(list(map(_text_of, pc.cast(values, pa.large_binary()).to_pylist())), pa.string())


def _text_of(octets: bytes | None) -> str | None:
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return None
