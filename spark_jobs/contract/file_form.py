"""How the text of a csv or JSON file is read: part of an account's binding, and never guessed from rows.

A form is applied value by value, and a value that does not fit it is read as null: no row can fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen, did_you_mean

_Text = Annotated[str, Field(max_length=100)]
_Texts = Annotated[tuple[_Text, ...], Field(max_length=100)]
_WORDS = {"tab": "\t", "\\t": "\t", "semicolon": ";", "comma": ",", "pipe": "|", "space": " ", "none": ""}
_SIGNS = ("separator", "quote", "escape", "decimal", "thousands")
_OF_CSV_ALONE = ("separator", "quote", "escape", "encoding", "trim")
_GROUPING = ("", ",", ".", "'", "\u2019", " ", "\u00a0", "\u202f", "_")
MONTHS = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
"""The English names of months that ``MMM`` stands for, which may be in small letters too."""
_MONTH = "|".join(MONTHS[place : place + 3] for place in range(0, len(MONTHS), 3))
TOKENS = {
    "yyyy": r"(\d{4})",
    "yy": r"(\d{2})",
    "MMM": f"((?i:{_MONTH}))",
    "MM": r"(\d{2})",
    "M": r"(\d{1,2})",
    "dd": r"(\d{2})",
    "d": r"(\d{1,2})",
    "HH": r"(\d{2})",
    "H": r"(\d{1,2})",
    "hh": r"(\d{2})",
    "h": r"(\d{1,2})",
    "mm": r"(\d{2})",
    "ss": r"(\d{2})",
    "S": r"(\d{1,9})",
    "a": "((?i:[AP]M))",
    "XXX": r"(Z|[+-]\d{2}:\d{2})",
}
"""The parts of a date or timestamp form, as Spark writes them, and what each matches."""
_TOKEN = re.compile(r"yyyy|yy|MMM|MM|M|dd|d|HH|H|hh|h|mm|ss|S+|a|XXX|'[^']*'|[^A-Za-z'%]")
_DATE_PARTS, _TIME_PARTS = ("y", "M", "d"), ("H", "h", "m", "s", "S", "a", "X")


class FileForm(Frozen):
    r"""How values are written in the files of a csv or JSON table. In JSON, a form applies only to numbers and texts.

    Attributes:
        separator: the character between two values of a line.
        quote: the character around a value that contains the separator; empty for none.
        escape: the character before a quote within a value; empty if a quote within a value is doubled instead.
        encoding: ``utf-8``, or an encoding of one byte for each character, such as ``iso8859-1`` or ``cp1252``.
        decimal: the decimal sign of numbers.
        thousands: the sign between groups of digits, whose last group has three digits; empty for none.
        percent: whether ``52%`` is read as 0.52.
        trim: whether blanks around a value are left out.
        null: the texts, besides the empty one, that are read as null.
        true: the texts that mean true; by default as in Spark's SQL: true, t, yes, y, 1.
        false: the texts that mean false.
        date: the form of dates, such as ``dd/MM/yyyy``; by default ``yyyy-MM-dd``.
        timestamp: the form of timestamps, such as ``dd.MM.yyyy HH:mm``; by default as in ISO 8601.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    percent: bool = False
    trim: bool = True
    null: _Texts = ()
    true: _Texts = ()
    false: _Texts = ()
    date: _Text = ""
    timestamp: _Text = ""

    @field_validator(*_SIGNS, mode="before")
    @classmethod
    def _of_words(cls, value: Any) -> Any:
        return _WORDS.get(value, value) if isinstance(value, str) else value

    @field_validator("null", "true", "false", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        name = encoding_name(value)
        if name is None:
            raise InvalidRequest(
                "", value, "must be utf-8 or an encoding of one byte for each character, such as iso8859-1 or cp1252",
                "correct the name, or write the files again in utf-8",
            )  # fmt: skip
        return name

    @field_validator("date", "timestamp")
    @classmethod
    def _known_parts(cls, value: str, info: Any) -> str:
        if value:
            require_pattern(value, info.field_name)
        return value

    @model_validator(mode="after")
    def _signs_differ(self) -> Self:
        for name in ("separator", "quote", "escape", "decimal"):
            value = getattr(self, name)
            optional = name in ("quote", "escape") and not value
            if not optional and (len(value) != 1 or value.isalnum() or value in "\r\n\0"):
                raise InvalidRequest(
                    name, value, "must be one character that is no letter and no digit",
                    "write the character itself, or its name: tab, semicolon, pipe",
                )  # fmt: skip
        if self.thousands not in _GROUPING:
            raise InvalidRequest(
                "thousands", self.thousands, "must be a comma, a dot, an apostrophe, an underscore, a blank, or empty",
                "give the character that separates groups of digits",
            )  # fmt: skip
        if self.decimal not in (".", ","):
            raise InvalidRequest(
                "decimal", self.decimal, "must be a dot or a comma", "give one of these two characters"
            )
        for one, other in (("thousands", "decimal"), ("separator", "quote"), ("separator", "escape")):
            if getattr(self, one) == getattr(self, other):
                raise InvalidRequest(one, getattr(self, one), f"must differ from {other}", "correct one of the two")
        for text in set(self.true) & set(self.false) | set(self.null) & {*self.true, *self.false}:
            raise InvalidRequest(
                "null",
                text,
                "must have only one meaning, but is listed twice among null, true and false",
                "list the text under one of null, true and false",
            )
        return self

    @model_serializer(mode="wrap")
    def _as_declared(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # what is not declared is left out, so that a form with a further field has the hash that it had
        fields: dict[str, Any] = handler(self)
        return {name: value for name, value in fields.items() if getattr(self, name) != _default(name)}

    @classmethod
    def of_options(cls, options: Iterable[str], before: FileForm | None = None) -> FileForm:
        """The form that options such as ``separator=;`` and ``null=NA`` state; ``null`` may be repeated.

        Args:
            options: the options.
            before: the form that the options change; None for the default form.

        Raises:
            InvalidRequest: one of them is unknown or has an invalid value.
        """
        fields: dict[str, Any] = {} if before is None else before.model_dump()
        given: dict[str, Any] = {}
        for option in options:
            name, equals, value = option.partition("=")
            if not equals or name not in cls.model_fields:
                raise InvalidRequest(
                    "file-form", option, f"must be NAME=VALUE, of {', '.join(cls.model_fields)}",
                    f"write it like separator=; or date=dd/MM/yyyy{did_you_mean(name, cls.model_fields)}",
                )  # fmt: skip
            if name in ("null", "true", "false"):
                given[name] = (*given.get(name, ()), value)
            elif name in given:
                raise InvalidRequest(
                    f"file-form.{name}", option, "must be given only once", "leave one of the two values out"
                )
            else:
                given[name] = _yes(name, value) if name in ("percent", "trim") else value
        try:
            return cls.parse({**fields, **given})
        except InvalidRequest as refused:
            raise refused.within("file-form") from None

    def describe(self) -> str:
        """The options that differ from the default form, as text; empty for the default form."""
        return ", ".join(f"{name}={_shown(value)}" for name, value in self.model_dump().items())

    def require_format(self, form: str) -> None:
        """Reject this form for files of a format to which it does not apply.

        Raises:
            InvalidRequest: the files are neither csv nor JSON, or are JSON and the form has options that only csv has.
        """
        for name in self.model_dump():
            if form != "csv" and (form != "json" or name in _OF_CSV_ALONE):
                files = "csv" if name in _OF_CSV_ALONE else "csv and JSON"
                raise InvalidRequest(
                    f"file_form.{name}", _shown(getattr(self, name)),
                    f"must be left out for a table of format {form}, because it describes "
                    f"{files} files", "leave it out, or correct the format",
                )  # fmt: skip


@cache
def encoding_name(given: str) -> str | None:
    """The canonical name of an encoding; None if it cannot be read, such as one of several bytes for a character."""
    import codecs

    try:
        name = codecs.lookup(given).name
    except (LookupError, ValueError):
        return None
    if name in ("utf-8", "utf-8-sig", "ascii"):
        return "utf-8"
    return None if upper_half(name) is None else name


@cache
def upper_half(encoding: str) -> str | None:
    """The characters of the bytes from 128 on in an encoding that extends ASCII; None for another encoding."""
    try:
        table = getattr(import_module(f"encodings.{encoding.replace('-', '_')}"), "decoding_table", "")
    except ImportError:
        return None
    if len(table) != 256 or table[:128] != "".join(map(chr, range(128))):
        return None
    return str(table[128:]).replace("\ufffe", "\ufffd")


def require_pattern(pattern: str, field: str) -> None:
    """Reject a pattern of dates or timestamps that has an unknown part, or does not determine one date or moment.

    Raises:
        InvalidRequest: the pattern is rejected.
    """
    parts = pattern_parts(pattern)
    kinds = [part[0] for part in parts or () if part in TOKENS or part.startswith("S")]
    allowed = _DATE_PARTS if field == "date" else (*_DATE_PARTS, *_TIME_PARTS)
    hours = [kind for kind in kinds if kind in "Hh"]
    needs = {"m": bool(hours), "s": "m" in kinds, "S": "s" in kinds, "a": "h" in kinds, "h": "a" in kinds}
    if (
        parts is None
        or len(set(kinds)) < len(kinds)
        or len(hours) > 1
        or not set(_DATE_PARTS) <= set(kinds) <= set(allowed)
        or not all(needs.get(kind, True) for kind in kinds)
    ):
        example = "dd/MM/yyyy" if field == "date" else "dd/MM/yyyy HH:mm:ss"
        raise InvalidRequest(
            "",
            pattern,
            "must be made of yyyy or yy, MM, M or MMM, dd or d"
            + ("" if field == "date" else ", HH, H or hh with a, mm, ss, SSS, XXX")
            + ", each once, and signs",
            f"write it like {example}",
        )


def pattern_parts(pattern: str) -> tuple[str, ...] | None:
    """The parts of a pattern of dates or timestamps, in order; None if one of them is unknown."""
    parts, place = [], 0
    while place < len(pattern):
        match = _TOKEN.match(pattern, place)
        if match is None:
            return None
        parts.append(match[0])
        place = match.end()
    return tuple(parts)


def _default(name: str) -> Any:
    return FileForm.model_fields[name].default


def _yes(name: str, value: str) -> bool:
    if value.lower() not in ("yes", "no", "true", "false"):
        raise InvalidRequest(f"file-form.{name}", value, "must be yes or no", "give one")
    return value.lower() in ("yes", "true")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return "|".join(repr(text) for text in value)
    return {"\t": "tab", "": "none", " ": "space"}.get(value, str(value))
