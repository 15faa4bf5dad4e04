"""Computes the answer to a statement from released figures alone, in memory, by SQLite."""

from __future__ import annotations

import csv
import io
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.sql.all_rows import reach_of_rows
from spark_jobs.contract.sql.released import ENDS, TABLE, SqlFigure
from spark_jobs.contract.sql.statement import SqlStatement

Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class SqlAnswer:
    """The answer to a statement, as rows.

    Attributes:
        columns: names of columns; a figure is followed by the ends of its interval, ``NAME_lower`` and ``NAME_upper``.
        rows: the rows, each with a value for every column: text, a number, or None.
        confidence: nominal level of the intervals.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    confidence: float

    def to_csv(self) -> str:
        """The answer as CSV, with a header line."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return text.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """The answer in plain JSON types."""
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows], "confidence": self.confidence}

    def lines(self) -> Iterator[str]:
        """The lines of the answer as aligned text, with intervals in brackets after their figures."""
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
    """The answer to a statement, from the released table of aggregates.

    Args:
        statement: the statement from which the request was made.
        result: the table in its published form.

    Raises:
        InvalidRequest: the answer cannot be computed (``check_answer``).
    """
    columns = [_values(figure, result) for figure in statement.figures]
    cells = enumerate(product(*result["keys"]))
    rows = (
        (
            *(one.value(label) for one, label in zip(statement.by, labels, strict=True)),
            *(value for column in columns for value in column[cell]),
        )
        for cell, labels in cells
    )
    titles, answered = _selected(statement, rows)
    return SqlAnswer(columns=titles, rows=answered, confidence=float(result["confidence"]))


def check_answer(statement: SqlStatement) -> None:
    """Refuse a statement whose answer SQLite cannot compute, before anything is charged.

    Raises:
        InvalidRequest: SQLite cannot compute the answer.
    """
    _selected(statement, ())


def _selected(statement: SqlStatement, rows: Iterable[Row]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """The names and rows of a statement's answer, from a row of labels and figures for each cell."""
    # a column without a type keeps numbers and texts as they are
    names = {f"d{number}": "TEXT" if one.is_text else "" for number, one in enumerate(statement.by)}
    for number in range(len(statement.figures)):
        names |= dict.fromkeys((f"f{number}", *(f"f{number}_{end}" for end in ENDS)), "REAL")
    types = ", ".join(f'"{name}" {of}' for name, of in names.items())
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.execute(f"CREATE TABLE {TABLE} ({types})")
        # every name is our own; a text of the statement is in it only as a quoted alias or a literal
        memory.executemany(f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(names))})", rows)  # noqa: S608
        try:
            cursor = memory.execute(statement.answer)
            return tuple(column[0] for column in cursor.description), tuple(cursor)
        except (sqlite3.Error, OverflowError):
            raise InvalidRequest(
                "sql", None, "must be computed from released figures", "simplify the columns, HAVING or ORDER BY"
            ) from None


def _values(figure: SqlFigure, result: Mapping[str, Any]) -> Sequence[tuple[Any, Any, Any]]:
    """A figure of each cell, with the ends of its interval."""
    if figure.name in ("rows", "count"):
        if figure.name == "count" or result["incomplete"] is None:
            return list(zip(result["count"], result["count_lower"], result["count_upper"], strict=True))
        reach = reach_of_rows(result)
        sums = [one + other for one, other in zip(result["count"], result["incomplete"], strict=True)]
        return [(one, min(max(one - reach, 0.0), one), max(one + reach, 0.0)) for one in sums]
    [measure] = [one for one in result["measures"] if (one["name"], one["of"]) == (figure.name, figure.of)]
    if not figure.of_sample:
        return list(zip(measure["values"], measure["lower"], measure["upper"], strict=True))
    # the factor falls as rows grow: the lower end of an interval takes the upper end of the rows
    parts = ("count", "count_upper", "count_lower")
    factors = ([_of_sample(rows, root=figure.name == "sd") for rows in result[part]] for part in parts)
    columns = (measure[part] for part in ("values", "lower", "upper"))
    scaled = (
        [None if one is None else one * factor for one, factor in zip(column, own, strict=True)]
        for column, own in zip(columns, factors, strict=True)
    )
    return list(zip(*scaled, strict=True))


def _of_sample(rows: float, *, root: bool) -> float:
    """What makes of a variance that is divided by the rows one that is divided by the rows less one; or its root.

    Rows are noisy: they are taken to be at least two, without which SQL has no such variance.
    """
    factor = max(rows, 2.0) / (max(rows, 2.0) - 1)
    return math.sqrt(factor) if root else factor


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
