"""A figure of every cell of a table as a picture: rows of whiskers, whiskers side by side, or a shaded table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.contract.figure import Numbers
from spark_jobs.contract.figures import OK
from spark_jobs.contract.results.aggregates import CellsOfTable
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import level, one_line
from spark_jobs.publishing.rendering import Legend, Plot
from spark_jobs.publishing.shaded_table import MAX_BARS, MAX_COLUMNS, MAX_ROWS, Bars, ShadedTable
from spark_jobs.publishing.value_axis import number
from spark_jobs.publishing.whisker_rows import Whisker, draw_rows, rows_axes, rows_box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

TITLE = "Table of aggregates"
MAX_WHISKERS = 16
"""The most cells in rows of whiskers; larger tables are drawn with less room a cell."""
_CHARACTERS = 16
_WHISKERS: Legend = (("curve", "released, with interval"), ("speck", "weak cell"))
_SHADES: Legend = (("right", "the stronger, the higher"), ("wrong", "below 0: the stronger, the lower"))
_Draw = Callable[..., "tuple[Drawing, Axes]"]


def picture(table: CellsOfTable, numbers: Numbers, label: str, name: str, confidence: float) -> Plot:
    """The picture of one figure, ``label``, in as many cells of ``table`` as there is room for."""
    shaded = table.cells > MAX_WHISKERS and len(table.by) > 1
    if shaded:
        shown, box, drawn = _shaded(table, numbers)
    else:
        shown, box, drawn = _whiskers(table, numbers)
    lines = f"with {level(confidence)} intervals for the same rows without noise"

    def draw(alone: bool) -> Drawing:
        figure, _ = drawn(alone=alone, label=label)
        if alone:
            about = "the stronger the colour, the higher; intervals are in the data file" if shaded else lines
            figures.heading(figure, left=0.03, title=TITLE, lines=(about, "released with noise"))
        return figure

    cells = f"{shown:,} of {table.cells:,} cells" if shown < table.cells else f"{shown:,} cells"
    what = "as a shaded table" if shaded else "with intervals"
    return Plot(
        name=name,
        title=TITLE if name == "aggregates" else "Figures by cell",
        description=f"One figure of {cells} {what}.",
        draw=draw,
        axes=box,
        legend=_SHADES if shaded else _WHISKERS,
    )


def labels_of(table: CellsOfTable, first: int | None = None) -> Iterator[tuple[str, ...]]:
    """The labels of each cell's groups, in the order of the cells."""
    return islice(product(*table.keys), first)


def _whiskers(table: CellsOfTable, numbers: Numbers) -> tuple[int, tuple[float, float, float, float], _Draw]:
    aside = table.cells > MAX_WHISKERS
    shown = min(table.cells, MAX_BARS)
    ends = numbers.ends()
    rows: list[Whisker] = [
        (float(low), float(value), float(high), "curve" if status == OK else "chance")
        for low, value, high, status in zip(ends.lower, numbers.value, ends.upper, table.status, strict=True)
    ][:shown]
    labels = [one_line(", ".join(one) or "all rows", _CHARACTERS) for one in labels_of(table, shown)]
    across = _ends(rows)
    if aside:
        bars = Bars(whiskers=rows, labels=labels, ends=across)
        return shown, bars.box, bars.draw

    def draw(*, alone: bool, label: str) -> tuple[Drawing, Axes]:
        figure, axes = rows_axes(shown, alone=alone, label=label)
        draw_rows(axes, rows, labels, across)
        axes.xaxis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
        return figure, axes

    return shown, rows_box(shown), draw


def _ends(rows: list[Whisker]) -> tuple[float, float]:
    """The ends of an axis that shows every value and the intervals that say something.

    The interval of a mean in a weak cell may be all of its range, beside which nothing could be seen: it is cut off.
    """
    strong = [end for one in rows if one[-1] == "curve" for end in one[:3:2]]
    values = [value for _, value, _, _ in rows]
    drawn = [end for end in (*strong, *values) if end == end] or [end for one in rows for end in one[:3:2]]
    drawn = [end for end in drawn if end == end] or [0.0, 1.0]
    room = 0.05 * (max(drawn) - min(drawn)) or 1.0
    return min(drawn) - room, max(drawn) + room


def _shaded(table: CellsOfTable, numbers: Numbers) -> tuple[int, tuple[float, float, float, float], _Draw]:
    *outer, across = table.keys
    rows = [one_line(", ".join(one), _CHARACTERS) for one in islice(product(*outer), MAX_ROWS)]
    columns = [one_line(one, _CHARACTERS) for one in across[:MAX_COLUMNS]]
    part = np.s_[: len(rows), : len(columns)]
    shaded = ShadedTable(
        values=numbers.value.reshape(-1, len(across))[part],
        weak=(np.array(table.status, dtype=object) != OK).reshape(-1, len(across))[part],
        rows=rows,
        columns=columns,
        write=lambda value: number(value, 3, plain_below=5),
    )
    return len(rows) * len(columns), shaded.box, shaded.draw
