"""The columns of a table in one text: for each a name, a type, and what the administrator declares of the column.

::

    columns = column {"," column}
    column  = name type [domain] ["public"]
    name    = a word, or any text in backticks

such as ``id int, churned string in ('yes', 'no'), `amount, net` decimal(10,2) between 0 and 5000 step 0.01 public``.
Anything else is refused, and never taken for a part of a type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.column_types import is_known_type, normal_type
from spark_jobs.contract.domains import FORMS, Domain, Reader, parse_domain
from spark_jobs.contract.errors import InvalidRequest

_NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^\s`,][^\s,]*))(?=\s)")
_TYPE = re.compile(r"\s*[A-Za-z_]\w*(?:\s*\([^()<>]*\)|\s*<)?")
_COMMA = re.compile(r"\s*,(?=\s*\S)")


@dataclass(frozen=True, kw_only=True)
class WrittenColumn:
    """A column as the text of columns declares it.

    Attributes:
        name: its name.
        type: its type, in one spelling.
        domain: what it may hold; None if the text has no domain.
        public: whether it is declared public.
    """

    name: str
    type: str
    domain: Domain | None
    public: bool

    def fields(self) -> dict[str, Any]:
        """Name, type and, where there is one, domain: the fields of a bound column."""
        given = {} if self.domain is None else {"domain": str(self.domain)}
        return {"name": self.name, "type": self.type, **given}


def columns_in(text: str) -> tuple[WrittenColumn, ...]:
    """The columns in a text.

    Raises:
        InvalidRequest: the text is not a list of columns, a type is unknown to all engines, or a name occurs twice.
    """
    columns: list[WrittenColumn] = []
    place = 0
    while place < len(text) or not columns:
        match = _NAME.match(text, place)
        if match is None:
            raise _not_columns(text[place:])
        name = match["plain"] or match["quoted"].replace("``", "`")
        column, place = _column(name, text, match.end())
        if any(other.name == name for other in columns):
            raise _not_columns(name)
        columns.append(column)
    return tuple(columns)


def column_of(name: str, text: str) -> WrittenColumn:
    """The column of this name whose type, domain and ``public`` stand in ``text``, such as ``int between 0 and 120``.

    Raises:
        InvalidRequest: the text is not a type with at most a domain and ``public`` after it.
    """
    column, place = _column(name, text, 0)
    if place < len(text):
        raise _unknown(name, text[place:])
    return column


def domain_of(text: str) -> tuple[str, Domain]:
    """The column and its domain in a text such as ``age between 0 and 120``.

    Raises:
        InvalidRequest: the text is not a name and a domain.
    """
    match = _NAME.match(text)
    if match is None:
        raise InvalidRequest("domain", text, "must be a column and its domain", "write 'age between 0 and 120'")
    name = match["plain"] or match["quoted"].replace("``", "`")
    try:
        return name, parse_domain(text[match.end() :])
    except InvalidRequest as refused:
        raise refused.within(name) from None


def _column(name: str, text: str, place: int) -> tuple[WrittenColumn, int]:
    """A column from its type on, and the place after it and the comma."""
    match = _TYPE.match(text, place)
    end = place if match is None else _end_of_type(text, match.end())
    written = text[place:end].strip()
    if not text[place:].strip(" ,"):
        raise _not_columns(name)
    if not is_known_type(written):
        raise InvalidRequest(
            f"columns.{name}", written or text[place : place + 40].strip(),
            "must be a type that an engine knows, such as int, bigint, double, decimal(10,2), string, "
            "boolean, date or timestamp",
            "write a column like 'age int', or with its domain: 'age int between 0 and 120'",
        )  # fmt: skip
    reader = Reader(text, end)
    try:
        domain = reader.domain()
    except InvalidRequest as refused:
        raise refused.within(f"columns.{name}") from None
    before = reader.place
    public = reader.word() == "public"
    if not public:
        reader.place = before
    comma = _COMMA.match(text, reader.place)
    if comma is None and not reader.at_end:
        raise _unknown(name, text[reader.place :])
    after = len(text) if comma is None else comma.end()
    return WrittenColumn(name=name, type=normal_type(written), domain=domain, public=public), after


def _end_of_type(text: str, place: int) -> int:
    """The end of a type whose head ends at ``place``: of one with parts in <>, after the last of them."""
    if text[place - 1] != "<":
        return place
    depth = 1
    while place < len(text) and depth:
        depth += {"<": 1, ">": -1}.get(text[place], 0)
        place += 1
    return place


def _unknown(name: str, rest: str) -> InvalidRequest:
    if rest.strip().startswith(","):
        return _not_columns(rest)
    return InvalidRequest(
        f"columns.{name}", rest.strip(), f"must be a domain ({FORMS}) or the word public, because it follows a type",
        "remove it, or put the column's name in backticks if it has blanks or commas",
    )  # fmt: skip


def _not_columns(given: str) -> InvalidRequest:
    return InvalidRequest(
        "columns", given.strip(), "must be distinct names, each with a type",
        "write them like 'id int, `first name` string', or name a JSON file by --schema",
    )  # fmt: skip
