"""Blocks: disjoint parts of a table, identified by a public attribute of its rows.

A row lies in the block that its attribute names; a row whose attribute is null lies in no block and is never read. The
names of the blocks in a request alone decide which rows its release reads (``predicate``), so it reads only rows that
it pays for.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen

ALL = "all"
"""The one block of an account without a block expression: every row of its tables."""

INTERVAL = "interval"
"""Placeholder for the blocks of a DAG run's data interval, until the run is known."""

MAX_BLOCKS = 400
"""The most blocks that one release may name."""

MAX_CONSECUTIVE = 10_000
"""The most blocks by time that it may name if they are consecutive: 27 years of days."""

_TO = ".."
_MIN_RANGE = 3
_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}(-[0-9]{2}(T[0-9]{2})?)?)?")
_CALL = re.compile(r"\s*(?P<by>[a-z]+)\s*\((?P<column>[^():]+)(?::(?P<values>[^()]*))?\)\s*")


class BlockBy(StrEnum):
    """How a column determines a row's block: by its value, or by the UTC interval that its time lies in."""

    VALUE = "value"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"


# what completes the name of a block to an ISO 8601 time
_REST = {BlockBy.YEAR: "-01-01", BlockBy.MONTH: "-01", BlockBy.DAY: "", BlockBy.HOUR: ":00"}
_LENGTHS = {4: BlockBy.YEAR, 7: BlockBy.MONTH, 10: BlockBy.DAY, 13: BlockBy.HOUR}
_SPELLED = {BlockBy.YEAR: "2026", BlockBy.MONTH: "2026-11", BlockBy.DAY: "2026-11-21", BlockBy.HOUR: "2026-11-21T05"}


class BlockExpression(Frozen):
    """How rows are assigned to blocks.

    Attributes:
        by: the column's value, or the hour, day, month or year (UTC) in which its date or timestamp lies.
        column: a public attribute of a row that never changes.
        values: for ``value``: the possible values; None allows any value.
    """

    by: BlockBy
    column: Annotated[str, Field(min_length=1, max_length=200)]
    values: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: Any) -> Any:
        if not isinstance(data, str):
            return data
        match = _CALL.fullmatch(data)
        if match is None or match["by"] not in list(BlockBy):
            raise InvalidRequest(
                "blocks", data, "must have a form such as 'day(visited_at)' or 'value(region: north, south)'",
                "name one of " + ", ".join(BlockBy) + " and a column",
            )  # fmt: skip
        values = [value.strip() for value in match["values"].split(",")] if match["values"] else None
        return {"by": match["by"], "column": match["column"].strip(), "values": values}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.values is not None and self.by is not BlockBy.VALUE:
            raise InvalidRequest(
                "values", ", ".join(self.values), "are allowed only in an expression by value", "leave the values out"
            )
        if self.values is not None and len(set(self.values)) != len(self.values):
            raise InvalidRequest("values", ", ".join(self.values), "must be distinct", "list each value once")
        for value in self.values or ():
            if _ends(value) is not None:
                raise InvalidRequest(
                    "values", value, "must not have the form of a range of times", "give that value another name"
                )
        return self

    def __str__(self) -> str:
        """The expression as a request or an account spells it."""
        return f"{self.by}({self.column}{'' if self.values is None else ': ' + ', '.join(self.values)})"

    def require(self, blocks: Iterable[str]) -> None:
        """Reject names that are not blocks of this expression.

        Raises:
            InvalidRequest: a name is not a block, or there are more than ``MAX_BLOCKS`` names (``MAX_CONSECUTIVE`` if
                they are consecutive).
        """
        names = list(blocks)
        consecutive = (
            self.by is not BlockBy.VALUE and len(names) <= MAX_CONSECUTIVE and len(self.spans(sorted(names))) == 1
        )
        if consecutive:  # _spans has raised if one of them is not a block
            return
        if len(names) > MAX_BLOCKS:
            raise InvalidRequest(
                "blocks", len(names), f"must be at most {MAX_BLOCKS} in one release", "name fewer blocks"
            )
        for name in names:
            if self.by is BlockBy.VALUE:
                if name in (ALL, INTERVAL):
                    raise self._no_block(name, "must not be a word that the ledger reserves", "rename that value")
                if self.values is not None and name not in self.values:
                    raise self._no_block(name, "must be one of " + ", ".join(self.values), "name one of them")
            else:
                self._start(name)

    def compact(self, blocks: Iterable[str]) -> tuple[str, ...]:
        """The blocks in order, with three or more consecutive ones by time written as ``first..last``; see ``expand``.

        Raises:
            InvalidRequest: the expression is by time, and a name is not a block of it.
        """
        names = sorted(set(blocks))
        if self.by is BlockBy.VALUE or names == [ALL]:
            return tuple(names)
        written: list[str] = []
        place = 0
        for start, end in self.spans(names):
            first = place
            while start < end:
                start, place = _next(self.by, start), place + 1
            row = names[first:place]
            written += row if len(row) < _MIN_RANGE else [f"{row[0]}{_TO}{row[-1]}"]
        return tuple(written)

    def expand(self, written: Iterable[str]) -> tuple[str, ...]:
        """The names of blocks, with every range that ``compact`` writes replaced by its blocks.

        Raises:
            InvalidRequest: a range has too many blocks.
        """
        return tuple(written) if self.by is BlockBy.VALUE else expand_ranges(written)

    def covering(self, start: dt.datetime, end: dt.datetime) -> tuple[str, ...]:
        """The blocks that make up the interval from ``start`` (included) to ``end`` (excluded).

        Raises:
            InvalidRequest: the expression is by value, or the interval is empty, has no time zone, or cuts a block.
        """
        shown = f"{start.isoformat()}/{end.isoformat()}"
        if self.by is BlockBy.VALUE:
            raise InvalidRequest(
                "blocks",
                str(self),
                "must be blocks by time, because a data interval is given",
                "name the blocks that are read",
            )
        if start.tzinfo is None or end.tzinfo is None or start >= end:
            raise InvalidRequest(
                "blocks", shown, "must be an interval that is not empty and has a time zone",
                "run the DAG on a timetable with data intervals, or name the blocks",
            )  # fmt: skip
        moment, last = start.astimezone(dt.UTC), end.astimezone(dt.UTC)
        names: list[str] = []
        while moment < last and len(names) <= MAX_CONSECUTIVE:
            name = _name(self.by, moment)
            if self._start(name) != moment.replace(tzinfo=None):
                break
            names.append(name)
            moment = _next(self.by, moment)
        if moment != last:
            raise InvalidRequest(
                "blocks", shown,
                f"must consist of whole {self.by.value}s in UTC, at most {MAX_CONSECUTIVE} of them",
                f"give the DAG intervals of whole {self.by.value}s in UTC, or name the blocks",
            )  # fmt: skip
        return tuple(names)

    def require_covered(self, blocks: Iterable[str], start: dt.datetime, end: dt.datetime) -> None:
        """Reject blocks by time that leave out a part of the interval from ``start`` (included) to ``end`` (excluded).

        Raises:
            InvalidRequest: a part of the interval is in none of the blocks.
        """
        reached = start.astimezone(dt.UTC).replace(tzinfo=None)
        for first, last in self.spans(sorted(set(blocks))):
            if first <= reached < last:
                reached = last
        if reached < end.astimezone(dt.UTC).replace(tzinfo=None):
            raise self._no_block(
                _name(self.by, reached), "is left out, although the stream reads it", "name every block of the stream"
            )

    def predicate(self, blocks: Iterable[str]) -> str:
        """A filter of the allow-list that is true for the rows of ``blocks`` and for no others.

        Raises:
            InvalidRequest: a name is not a block of this expression.
        """
        names = sorted(set(blocks))
        self.require(names)
        column = f"`{self.column.replace('`', '``')}`"
        if self.by is BlockBy.VALUE:
            listed = ", ".join(_text(name) for name in names)
            return f"CAST({column} AS STRING) IN ({listed})"
        moment = f"CAST({column} AS TIMESTAMP)"
        spans = " OR ".join(
            f"({moment} >= TIMESTAMP '{start}' AND {moment} < TIMESTAMP '{end}')" for start, end in self.spans(names)
        )
        return f"({spans})"

    def spans(self, names: Iterable[str]) -> list[tuple[dt.datetime, dt.datetime]]:
        """The time intervals of blocks, with consecutive ones joined."""
        spans: list[tuple[dt.datetime, dt.datetime]] = []
        for name in names:
            start = self._start(name)
            end = _next(self.by, start)
            if spans and spans[-1][1] == start:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return spans

    def _start(self, name: str) -> dt.datetime:
        start = _time(self.by, name)
        if start is None:
            raise self._no_block(name, f"must be a {self.by.value} in UTC", f"write it as {_SPELLED[self.by]}")
        return start

    def _no_block(self, name: str, requirement: str, remedy: str) -> InvalidRequest:
        return InvalidRequest("blocks", name, f"{requirement}, for blocks by {self}", remedy)


def expand_ranges(blocks: Iterable[str], *, what: str = "blocks") -> tuple[str, ...]:
    """Replace each range, such as ``2026-01..2026-03``, by the blocks by time from the first to the last.

    No block by value has such a name, so a range can be expanded without knowing the account.

    Raises:
        InvalidRequest: a range ends before it begins, or there are more than ``MAX_CONSECUTIVE`` blocks.
    """
    names: list[str] = []
    for written in blocks:
        ends = _ends(written)
        if ends is None:
            names.append(written)
            continue
        by, moment, last = ends
        row: list[str] = []
        while moment <= last and len(names) + len(row) <= MAX_CONSECUTIVE:
            row.append(_name(by, moment))
            moment = _next(by, moment)
        if not row or len(names) + len(row) > MAX_CONSECUTIVE:
            raise InvalidRequest(
                what, written, f"must be a range from a first block to a last one, at most {MAX_CONSECUTIVE} in all",
                "write a range as 2026-01-01..2026-03-31",
            )  # fmt: skip
        names += row
    return tuple(names)


def _ends(written: str) -> tuple[BlockBy, dt.datetime, dt.datetime] | None:
    """The first and the last block of a range by time; None for any other text."""
    first, to, last = written.partition(_TO)
    by = _LENGTHS.get(len(first))
    if not to or by is None or len(first) != len(last):
        return None
    start, end = _time(by, first), _time(by, last)
    return None if start is None or end is None else (by, start, end)


def _time(by: BlockBy, name: str) -> dt.datetime | None:
    """The start, in UTC, of the block by time with this name; None if no block has it. Each block has one name."""
    if _LENGTHS.get(len(name)) is not by or _TIME.fullmatch(name) is None:
        return None
    try:
        start = dt.datetime.fromisoformat(name + _REST[by])
        _next(by, start)
    except (ValueError, OverflowError):
        return None
    return start if 1900 <= start.year < 9999 else None


def _name(by: BlockBy, start: dt.datetime) -> str:
    return start.isoformat()[: len(_SPELLED[by])]


def _next(by: BlockBy, start: dt.datetime) -> dt.datetime:
    match by:
        case BlockBy.HOUR:
            return start + dt.timedelta(hours=1)
        case BlockBy.DAY:
            return start + dt.timedelta(days=1)
        case BlockBy.MONTH:
            return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        case _:
            return start.replace(year=start.year + 1)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
