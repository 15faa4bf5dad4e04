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

CSV_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp")
"""The types that a csv column may be converted to, besides ``decimal(p,s)``."""

_KINDS = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Kind.INTEGER),
    **dict.fromkeys(("float", "double"), Kind.NUMBER),
    "string": Kind.STRING,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), Kind.TIMESTAMP),
}
_SYNONYMS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_SIZED_TEXT = re.compile(r"(?:var)?char\([1-9][0-9]{0,9}\)")
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")


def normal_type(text: str) -> str:
    """The canonical spelling of a simple type (``int`` for ``INTEGER``); others, such as structs, stay unchanged."""
    simple = re.sub(r"\s", "", text.lower())
    simple = _SYNONYMS.get(simple, simple)
    return simple if kind_of_type(simple) is not None else text.strip()


def kind_of_type(type_text: str) -> Kind | None:
    """The kind of a type in its canonical spelling (``normal_type``); None for a type that cannot be read."""
    if _SIZED_TEXT.fullmatch(type_text):
        return Kind.STRING
    if _is_decimal(type_text):
        return Kind.NUMBER
    return _KINDS.get(type_text)


def is_csv_type(type_text: str) -> bool:
    """Whether a csv column may be converted to this type, given in its canonical spelling (``normal_type``)."""
    return type_text in CSV_TYPES or _is_decimal(type_text)


def _is_decimal(type_text: str) -> bool:
    match = _DECIMAL.fullmatch(type_text)
    return match is not None and 0 < int(match[1]) <= 38 and int(match[2]) <= int(match[1])
