"""Reads the footers of a table's Parquet files: codec, encryption, and the columns' names and types.

Nothing else of a footer is used, since its counts and statistics depend on rows. Names and types belong to the schema,
which is public. A single missing value may have changed a type, as when a program writes whole numbers as doubles: such
types are reconciled row by row, so that no refusal depends on a missing value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_types import kind_of_type, normal_type, struct_fields
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import did_you_mean

CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW")
"""The codecs of Parquet that every engine reads."""
NANOSECONDS = {"timestamp(ns)": "timestamp", "timestamp_ntz(ns)": "timestamp_ntz"}
"""Types of files that no engine reads as such, and the types that their values have to the microsecond."""
VOID = "void"
"""The type of a column that a program wrote without any value."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_NUMBERS = (*_WHOLE, "float", "double")
_SIGNED = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_UNSIGNED = {8: "smallint", 16: "int", 32: "bigint", 64: "decimal(20,0)"}
_PLAIN = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "INT96": "timestamp",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
    "FIXED_LEN_BYTE_ARRAY": "fixed_binary",  # which no engine reads as text
}
_LOGICAL = {"String": "string", "Enum": "string", "JSON": "string", "Date": "date", "Null": VOID, "Float16": "float16"}


class DamagedFile(ValueError):
    """The content is not the footer of a Parquet file."""


@dataclass(frozen=True, kw_only=True)
class Footer:
    """The fields of a Parquet file's footer that are used.

    Attributes:
        codecs: the codecs by which the file's columns are compressed.
        encrypted: whether any part of the file is encrypted.
        types: the type of each column, as an engine reads it, by its name; empty if the file is encrypted.
    """

    codecs: frozenset[str]
    encrypted: bool
    types: Mapping[str, str]


def footer_of(content: bytes) -> Footer:
    """The footer in the last bytes of a file, which begin with the four bytes before it and end with the magic number.

    Raises:
        DamagedFile: the bytes are not a footer.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if content[-4:] == b"PARE":
        return Footer(codecs=frozenset(), encrypted=True, types={})
    try:
        metadata = pq.ParquetFile(pa.BufferReader(content)).metadata
        # the footer of a file with encrypted columns is signed; to ask for such a column would end the process
        if metadata.serialized_size != len(content) - 12:
            return Footer(codecs=frozenset(), encrypted=True, types={})
        groups = (metadata.row_group(place) for place in range(metadata.num_row_groups))
        codecs = frozenset(group.column(place).compression for group in groups for place in range(group.num_columns))
        return Footer(codecs=codecs, encrypted=False, types=_types(metadata.schema))
    except (pa.ArrowException, OSError, ValueError):
        raise DamagedFile from None


def _types(schema: Any) -> dict[str, str]:
    """The types of the columns of a Parquet schema, in its order."""
    leaves = (schema.column(place) for place in range(len(schema)))
    simple = {leaf.path: leaf for leaf in leaves if leaf.max_repetition_level == 0}
    types = {}
    for field in schema.to_arrow_schema():
        leaf = simple.get(field.name)
        nested = leaf is None or _is_nested(field.type)
        types[field.name] = arrow_type(field.type) if nested else _leaf_type(leaf)
    return types


def _is_nested(of: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(of))


def _leaf_type(leaf: Any) -> str:
    logical = json.loads(leaf.logical_type.to_json())
    match logical["Type"]:
        case "Int":
            return (_SIGNED if logical["isSigned"] else _UNSIGNED)[logical["bitWidth"]]
        case "Decimal":
            return f"decimal({logical['precision']},{logical['scale']})"
        case "Timestamp":
            name = "timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz"
            return f"{name}(ns)" if logical["timeUnit"] == "nanoseconds" else name
        case "None":
            return _PLAIN[leaf.physical_type]
        case other:
            return _LOGICAL.get(other, str(other).lower())


def arrow_type(of: Any) -> str:
    """The name of the type as which an engine reads a type of Arrow; Arrow's own name if no engine reads it.

    A struct is given without the fields that cannot be read.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(of):
        return arrow_type(of.value_type)
    if pa.types.is_timestamp(of):
        return ("timestamp" if of.tz is not None else "timestamp_ntz") + ("(ns)" if of.unit == "ns" else "")
    if pa.types.is_decimal(of):
        return f"decimal({of.precision},{of.scale})"
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"array<{arrow_type(of.value_type)}>"
    if pa.types.is_struct(of):
        parts = ((of.field(place).name, arrow_type(of.field(place).type)) for place in range(of.num_fields))
        return f"struct<{','.join(f'{name}:{part}' for name, part in parts if is_readable(part))}>"
    if pa.types.is_map(of):
        return f"map<{arrow_type(of.key_type)},{arrow_type(of.item_type)}>"
    return _ARROW.get(str(of), str(of))


_ARROW = {
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "halffloat": "float16",
    "float": "float",
    "double": "double",
    "binary": "binary",
    "large_binary": "binary",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "date32[day]": "date",
    "null": VOID,
}


def is_readable(type_text: str) -> bool:
    """Whether values of this type can be read: simple values, and structs of them."""
    return kind_of_type(normal_type(type_text)) is not None or struct_fields(type_text) is not None


def readable_part(type_text: str) -> str:
    """A type without the fields of structs that cannot be read."""
    fields = struct_fields(type_text)
    if fields is None:
        return normal_type(type_text)
    return f"struct<{','.join(f'{name}:{readable_part(of)}' for name, of in fields if is_readable(of))}>"


def common_types(footers: Iterable[Footer]) -> dict[str, str]:
    """The type as which each column can be read from all files, for a table that no account binds.

    Columns are in the order of the files. Nanoseconds become microseconds; a mix of whole numbers and doubles becomes
    doubles.

    Raises:
        InvalidRequest: no cast reconciles two types of a column.
    """
    common: dict[str, str] = {}
    for footer in footers:
        for name, of in footer.types.items():
            of = NANOSECONDS.get(of, of)
            before = next((known for known in common if known.lower() == name.lower()), name)
            common[before] = _wider(common.get(before, of), of, name)
    return common


def _wider(one: str, other: str, name: str) -> str:
    if one == VOID or reconciles(one, other):
        if other in _NUMBERS and one in _NUMBERS and _NUMBERS.index(other) < _NUMBERS.index(one):
            return one
        return other if other != VOID else one
    if reconciles(other, one):
        return one
    raise _irreconcilable(name, one, other)


def reconciles(of_file: str, bound: str) -> bool:
    """Whether values of a file's type can be cast to the bound type one by one; those that do not fit become null."""
    of_file, bound = NANOSECONDS.get(of_file, of_file), readable_part(bound)
    if of_file in (bound, VOID) or (of_file, bound) == ("binary", "string"):
        return True
    if of_file.startswith("decimal(") and bound.startswith("decimal("):
        (digits, scale), (width, places) = (of[8:-1].split(",") for of in (of_file, bound))
        return scale == places and int(digits) <= int(width)
    return of_file in _NUMBERS and bound in _NUMBERS


def require_readable(footers: Sequence[Footer], *, field: str, value: object) -> None:
    """Reject files whose footers show that no engine can read them.

    Raises:
        InvalidRequest: a file is encrypted, has a codec outside ``CODECS``, or has two names that differ in case alone.
    """
    if any(footer.encrypted for footer in footers):
        raise InvalidRequest(
            field, value, "must have files that are not encrypted as Parquet files",
            "write the files without Parquet's encryption, and let the store encrypt them",
        )  # fmt: skip
    unknown = sorted({codec for footer in footers for codec in footer.codecs} - set(CODECS))
    if unknown:
        raise InvalidRequest(
            field, value, f"must have files that Spark can decompress, which excludes {' or '.join(unknown)}",
            "write the files again with zstd, snappy or gzip",
        )  # fmt: skip
    for footer in footers:
        if len({name.lower() for name in footer.types}) < len(footer.types):
            raise InvalidRequest(
                field, value, "must have column names that differ in more than case", "rename one of the two columns"
            )


def require_types(footers: Collection[Footer], columns: Iterable[BoundColumn], *, folders: Iterable[str]) -> None:
    """Reject files if a bound column is missing from all of them, or if no cast reconciles its type with the bound one.

    Args:
        footers: the footers of the files.
        columns: the bound columns.
        folders: the columns that the names of folders add.

    Raises:
        InvalidRequest: names the column, and both types if they cannot be reconciled.
    """
    types: dict[str, dict[str, None]] = {}
    for footer in footers:
        for name, of in footer.types.items():
            types.setdefault(name.lower(), {})[of] = None
    others = {folder.lower() for folder in folders}
    for column in columns:
        in_files = types.get(column.name.lower(), {})
        if not in_files and types and column.name.lower() not in others:
            raise InvalidRequest(
                "table",
                column.name,
                "must be a column of at least one file, because the account binds it",
                "correct the name that is bound, or the files; a state with other columns cannot be read"
                + did_you_mean(column.name, dict.fromkeys(name for footer in footers for name in footer.types)),
            )
        for of in in_files if is_readable(column.type) else ():
            if not reconciles(of, column.type):
                raise _irreconcilable(column.name, of, column.type)


def _irreconcilable(name: str, of_file: str, bound: str) -> InvalidRequest:
    return InvalidRequest(
        "table", f"column {name} of type {of_file}",
        f"must be of type {bound} in all files, which is the bound type or the type in the other files",
        "write all files with the same type, or open an account for a table with the column bound as another type",
    )  # fmt: skip
