"""The answer to a statement: computed of released figures alone, in memory, by SQLite."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import Any

from spark_jobs.contract.sql.released import TABLE, SqlFigure
from spark_jobs.contract.sql.statement import SqlStatement

Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class SqlAnswer:
    """The rows of an answer.

    Attributes:
        columns: names; a figure is followed by the ends of its interval, ``NAME_lower`` and ``NAME_upper``.
        rows: a value for each column: text, a number, or None.
        confidence: nominal level of the intervals.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    confidence: float

    def to_csv(self) -> str:
        """The answer as CSV, with a line of names."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """The answer in plain JSON types."""
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows], "confidence": self.confidence}

    def lines(self) -> Iterator[str]:
        """The answer as aligned text, intervals in brackets after their figures."""
        shown = [name for name in self.columns if not self._is_end(name)]
        cells = [shown, *([self._cell(name, row) for name in shown] for row in self.rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(shown))]
        for row in cells:
            yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()

    def _is_end(self, name: str) -> bool:
        stem, _, end = name.rpartition("_")
        return end in ("lower", "upper") and {f"{stem}_lower", f"{stem}_upper", stem} <= set(self.columns)

    def _cell(self, name: str, row: Row) -> str:
        values = dict(zip(self.columns, row, strict=True))
        lower, upper = values.get(f"{name}_lower"), values.get(f"{name}_upper")
        text = _shown(values[name])
        return text if lower is None or upper is None else f"{text} ({_shown(lower)} to {_shown(upper)})"


def answer(statement: SqlStatement, result: Mapping[str, Any]) -> SqlAnswer:
    """What a statement asks for, of a released table of aggregates.

    Args:
        statement: whose request was released.
        result: the table, as published.
    """
    figures, shown = statement.columns.figures, statement.columns.shown
    names = [f"d{number}" for number in range(len(result["keys"]))]
    for number in range(len(figures)):
        names += [f"f{number}", f"f{number}_lower", f"f{number}_upper"]
    columns = [_values(figure, result) for figure in figures]
    rows = [
        (*labels, *(value for column in columns for value in column[cell]))
        for cell, labels in enumerate(product(*result["keys"]))
    ]
    with closing(sqlite3.connect(":memory:")) as memory:
        types = ", ".join(f'"{name}" {"TEXT" if name[0] == "d" else "REAL"}' for name in names)
        memory.execute(f"CREATE TABLE {TABLE} ({types})")
        # every name is our own; a text of the statement is in it only as a quoted alias or a literal
        memory.executemany(f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(names))})", rows)  # noqa: S608
        answered = memory.execute(statement.answer).fetchall()
    own = len(shown)
    ends = [place for place, figure in enumerate(shown) if figure is not None]
    order: list[int] = []
    titles: list[str] = []
    for place, name in enumerate(statement.columns.names):
        order.append(place)
        titles.append(name)
        if place in ends:
            first = own + 2 * ends.index(place)
            order += [first, first + 1]
            titles += [f"{name}_lower", f"{name}_upper"]
    return SqlAnswer(
        columns=tuple(titles),
        rows=tuple(tuple(row[place] for place in order) for row in answered),
        confidence=float(result["confidence"]),
    )


def _values(figure: SqlFigure, result: Mapping[str, Any]) -> Sequence[tuple[Any, Any, Any]]:
    """Of each cell a figure and the ends of its interval."""
    if figure.name in ("rows", "count"):
        if figure.name == "count" or result["incomplete"] is None:
            return list(zip(result["count"], result["count_lower"], result["count_upper"], strict=True))
        sums = [one + other for one, other in zip(result["count"], result["incomplete"], strict=True)]
        return [(one, None, None) for one in sums]
    [measure] = [one for one in result["measures"] if (one["name"], one["of"]) == (figure.name, figure.of)]
    return list(zip(measure["values"], measure["lower"], measure["upper"], strict=True))


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
