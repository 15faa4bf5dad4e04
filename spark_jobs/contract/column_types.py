"""Types of columns as Spark writes them, and the kinds of value that they hold."""

from __future__ import annotations

import re
from enum import StrEnum


class Kind(StrEnum):
    """What a column holds, as far as expressions and models care."""

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
"""What a csv column may be converted to, beside ``decimal(p,s)``."""

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
    """One spelling for one simple type (``INTEGER`` is ``int``); other types, such as structs, stay as they are."""
    simple = re.sub(r"\s", "", text.lower())
    simple = _SYNONYMS.get(simple, simple)
    return simple if kind_of_type(simple) is not None else text.strip()


def kind_of_type(type_text: str) -> Kind | None:
    """What a column of this type, spelled as ``normal_type`` spells it, holds; None for types that cannot be read."""
    if _SIZED_TEXT.fullmatch(type_text):
        return Kind.STRING
    if _is_decimal(type_text):
        return Kind.NUMBER
    return _KINDS.get(type_text)


def is_csv_type(type_text: str) -> bool:
    """Whether a csv column may be converted to this type, spelled as ``normal_type`` spells it."""
    return type_text in CSV_TYPES or _is_decimal(type_text)


def _is_decimal(type_text: str) -> bool:
    match = _DECIMAL.fullmatch(type_text)
    return match is not None and 0 < int(match[1]) <= 38 and int(match[2]) <= int(match[1])
