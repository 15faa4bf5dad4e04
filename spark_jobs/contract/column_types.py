"""Types of columns as Spark writes them, and the kinds of their values."""

from __future__ import annotations

import re
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of values that expressions and models distinguish."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


TYPES = {
    Kind.INTEGER: ("ByteType", "ShortType", "IntegerType", "LongType"),
    Kind.NUMBER: ("FloatType", "DoubleType", "DecimalType"),
    Kind.STRING: ("StringType", "CharType", "VarcharType"),
    Kind.BOOLEAN: ("BooleanType",),
    Kind.DATE: ("DateType",),
    Kind.TIMESTAMP: ("TimestampType", "TimestampNTZType"),
}
"""The names of Spark's types of each kind; columns of other types cannot be read."""

TEXT_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp")
"""The types that the text of a csv or JSON file may be converted to, besides ``decimal(p,s)``."""

_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Kind.INTEGER),
    **dict.fromkeys(("float", "double"), Kind.NUMBER),
    "string": Kind.STRING,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), Kind.TIMESTAMP),
}
_SYNONYMS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_UNREAD_TYPES = (
    "binary", "calendarinterval", "char", "decimal", "dec", "geography", "geometry", "interval", "null", "numeric",
    "time", "timestamp_ltz", "varchar", "variant", "void",
)  # fmt: skip
"""Types that engines know and no request can read; a column of such a type does no harm."""
_PARAMETERS = re.compile(r"(?:binary|varbinary|dec|decimal|numeric|time|timestamp)\(\d{1,4}(?:,\d{1,3})?\)")
_ARROW_TYPE = re.compile(r"(?:time32|time64|timestamp|duration|fixed_size_binary)\[[\w, =/+:-]+\]")
_NESTED = re.compile(r"(?:array|list|map)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_SIZED_TEXT = re.compile(r"(?:var)?char\([1-9][0-9]{0,9}\)")
_STRUCT = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_FIELD = re.compile(r"[^:,<>()`]+")
_MAX_NESTING = 100
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")


def normal_type(text: str) -> str:
    """The canonical spelling of a type: ``int`` for ``INTEGER``, also in structs; others, such as maps, stay as is."""
    simple = re.sub(r"\s", "", text.lower())
    simple = _SYNONYMS.get(simple, simple)
    if kind_of_type(simple) is not None:
        return simple
    fields = struct_fields(text)
    if fields is None:
        return text.strip()
    return f"struct<{','.join(f'{name}:{normal_type(of)}' for name, of in fields)}>"


def is_known_type(text: str) -> bool:
    """Whether an engine knows a type of this name; a column of any other type is taken for a misspelling."""
    simple = normal_type(text)
    if kind_of_type(simple) is not None:
        return True
    lower = re.sub(r"\s", "", simple.lower())
    if lower in _UNREAD_TYPES or _PARAMETERS.fullmatch(lower) or _ARROW_TYPE.fullmatch(simple.strip()):
        return True
    fields = struct_fields(text)
    if fields is not None:
        return all(is_known_type(of) for _, of in fields)
    nested = _NESTED.fullmatch(text.strip())
    return nested is not None and text.count("<") <= _MAX_NESTING and all(map(is_known_type, _parts(nested[1])))


def _parts(text: str) -> tuple[str, ...]:
    """The parts of a nested type, between the commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(parts) if depth == 0 else ("",)


def struct_fields(text: str) -> tuple[tuple[str, str], ...] | None:
    """The names and types of the fields of a struct such as ``struct<city:string,zip:int>``; None for another type."""
    match = _STRUCT.fullmatch(text.strip())
    if match is None or text.count("<") > _MAX_NESTING:
        return None
    parts = _parts(match[1])
    fields = [part.partition(":") for part in parts]
    if any(not colon or not _FIELD.fullmatch(name.strip()) or not of.strip() for name, colon, of in fields):
        return None
    return tuple((name.strip(), of.strip()) for name, _, of in fields)


def kind_of_type(type_text: str) -> Kind | None:
    """The kind of a type in its canonical spelling (``normal_type``); None for a type that cannot be read."""
    if _SIZED_TEXT.fullmatch(type_text):
        return Kind.STRING
    if _is_decimal(type_text):
        return Kind.NUMBER
    return _KINDS.get(type_text)


def is_text_type(type_text: str, *, structs: bool = False) -> bool:
    """Whether text may be converted to this type, given in its canonical spelling (``normal_type``).

    Args:
        type_text: the type.
        structs: whether structs of such types are accepted too.
    """
    fields = struct_fields(type_text) if structs else None
    if fields is not None:
        alike = {name.lower() for name, _ in fields}
        return len(alike) == len(fields) and all(is_text_type(of, structs=True) for _, of in fields)
    return type_text in TEXT_TYPES or _is_decimal(type_text)


def _is_decimal(type_text: str) -> bool:
    match = _DECIMAL.fullmatch(type_text)
    return match is not None and 0 < int(match[1]) <= 38 and int(match[2]) <= int(match[1])
