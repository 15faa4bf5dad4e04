"""Plots of labelled rows, each with a value and its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_jobs.publishing import figures
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Whisker = tuple[float, float, float, str]
"""Lower end, value, upper end, and the token of its colour; NaN if there is none."""
_FRAME = figures.Frame(width=6.0, height=4.6, heading=0.95, small=5.0, box=(0.16, 0.155, 0.77, 0.82))
_ROW, _FOOT, _LABELS = 0.26, 0.62, 1.95


def rows_box(rows: int) -> tuple[float, float, float, float]:
    """The axes of a plot of ``rows`` rows, as fractions of the plot without a heading."""
    body = _body(rows)
    return _LABELS / _FRAME.width, _FOOT / body, 1 - (_LABELS + 0.25) / _FRAME.width, 1 - (_FOOT + 0.1) / body


def _body(rows: int) -> float:
    return rows * _ROW + _FOOT + 0.12


def rows_axes(rows: int, *, alone: bool, label: str) -> tuple[Figure, Axes]:
    """Axes with room for the labels of ``rows`` rows, and for a heading if the plot stands ``alone``."""
    body, box = _body(rows), rows_box(rows)
    height = body + (_FRAME.heading if alone else 0.0)
    return figures.new_axes(
        (_FRAME.width if alone else _FRAME.small, height),
        (box[0], box[1] * body / height, box[2], box[3] * body / height),
        x_label=label,
        y_label="",
    )


def draw_rows(axes: Axes, rows: Sequence[Whisker], labels: Sequence[str], ends: tuple[float, float]) -> None:
    """Draw a whisker and its value in each row, from the top; a row without a value gets a whisker alone, or a note."""
    figures.set_ticks(axes, ends, (len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), labels)
    axes.grid(axis="y", visible=False)
    for row, (low, value, high, token) in enumerate(rows):
        if low == low:
            axes.hlines(row, low, high, color=light(token), linewidth=1.6)
        if value == value:
            axes.plot([value], [row], color=light(token), marker="o", markersize=5)
        elif low != low:
            axes.text(0.5, row, "undefined", color=light("muted"), size=9, ha="center", va="center",
                      transform=axes.get_yaxis_transform())  # fmt: skip
