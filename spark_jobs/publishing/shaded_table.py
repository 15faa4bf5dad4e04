"""Plots of many labelled cells: a table shaded by its values, and a row of whiskers with labels below."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.publishing import figures
from spark_jobs.publishing.heat_map import shade_cells
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.value_axis import number
from spark_jobs.publishing.whisker_rows import Whisker

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ROWS, MAX_COLUMNS, MAX_BARS = 24, 60, 120
"""The most rows and columns of a shaded table, and the most whiskers side by side."""
_WIDTH, _ALONE, _HEADING = 5.0, 6.0, 0.95
_ROW, _TOP, _RIGHT, _LEFT = 0.28, 0.12, 0.15, 0.2
_CHARACTER, _SLOPED, _BAR_HEIGHT = 0.085, 0.21, 2.6
"""Inches: the width of a character of a label, the room between sloped labels, the height of a row of whiskers."""
_DARKEST, _LIGHTEST = 0.45, 0.04


@dataclass(frozen=True, kw_only=True, eq=False)
class ShadedTable:
    """The cells of a table that are drawn.

    Attributes:
        values: shape (rows, columns); NaN where a cell has no value.
        weak: whether a cell's value is unreliable; its number is then muted, and the cell not shaded; shape (rows,
            columns).
        rows, columns: labels.
        write: turns a value into a few characters.
    """

    values: FloatArray
    weak: BoolArray
    rows: Sequence[str]
    columns: Sequence[str]
    write: Callable[[float], str]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The axes as fractions of a plot without a heading."""
        foot, body = self._heights()
        return 1 - (self._across + _RIGHT) / _WIDTH, foot / body, self._across / _WIDTH, 1 - (foot + _TOP) / body

    @property
    def _across(self) -> float:
        """The width of the axes in inches: what the labels of rows leave."""
        return _WIDTH - _RIGHT - _LEFT - _CHARACTER * max(map(len, self.rows))

    def _heights(self) -> tuple[float, float]:
        foot = _foot(self.columns, self._across, titled=0.35)
        return foot, foot + _TOP + _ROW * len(self.rows)

    def draw(self, *, alone: bool, label: str) -> tuple[Figure, Axes]:
        """The table, with room for a heading above it if it stands ``alone``."""
        figure, axes = _axes(self.box, self._heights()[1], alone=alone, x_label=label, y_label="")
        axes.set_xlim(0, len(self.columns))
        axes.set_ylim(len(self.rows), 0)
        axes.grid(visible=False)
        axes.set_yticks(np.arange(len(self.rows)) + 0.5, self.rows)
        _label_below(axes, self.columns, np.arange(0.5, len(self.columns)), self._across)
        shown = np.where(self.weak, np.nan, self.values)
        across, down = np.arange(len(self.columns) + 1.0), np.arange(len(self.rows) + 1.0)
        for hue, depths in _depths(shown):
            shade_cells(axes, depths.T, across, down, hue=hue, darkest=_DARKEST)
        axes.hlines(down, 0, len(self.columns), color=light("hairline"), linewidth=0.8)
        axes.vlines(across, 0, len(self.rows), color=light("hairline"), linewidth=0.8)
        texts = [(self.write(float(value)) if math.isfinite(value) else "–") for value in self.values.flat]
        if _sloped(texts, self._across * len(self.rows)):
            return figure, axes
        for text, (row, column) in zip(texts, np.ndindex(self.values.shape), strict=True):
            colour = light("muted" if self.weak[row, column] else "ink")
            axes.text(column + 0.5, row + 0.53, text, color=colour, size=9, ha="center", va="center")
        return figure, axes


def _depths(values: FloatArray) -> list[tuple[str, FloatArray]]:
    """The tokens of a table's colours, and how deep each cell is in it, from 0 to 1: above 0 in one, below in another.

    Values that have one sign and lie far from 0 are shaded from the least on, so that their differences show.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return []
    low, high = float(finite.min()), float(finite.max())
    if low < 0 < high:
        deepest = max(-low, high)
        return [("curve", np.clip(values, 0, None) / deepest), ("spent", np.clip(-values, 0, None) / deepest)]
    base = 0.0 if min(abs(low), abs(high)) < 0.5 * max(abs(low), abs(high)) else low if low >= 0 else high
    reach = max(abs(low - base), abs(high - base)) or 1.0
    return [("curve" if high > 0 else "spent", np.maximum(np.abs(values - base) / reach, _LIGHTEST))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Bars:
    """Whiskers side by side, with labels below.

    Attributes:
        whiskers: lower end, value, upper end and colour token of each whisker, from left to right.
        labels: the label of each whisker.
        ends: the ends of the vertical axis; what lies beyond is cut off.
    """

    whiskers: Sequence[Whisker]
    labels: Sequence[str]
    ends: tuple[float, float]

    @property
    def box(self) -> tuple[float, float, float, float]:
        """The axes as fractions of a plot without a heading."""
        foot = _foot(self.labels, _WIDTH - 0.9)
        body = foot + _TOP + _BAR_HEIGHT
        return 0.75 / _WIDTH, foot / body, 1 - 0.9 / _WIDTH, _BAR_HEIGHT / body

    def draw(self, *, alone: bool, label: str) -> tuple[Figure, Axes]:
        """The whiskers, with room for a heading above them if the plot stands ``alone``."""
        body = _foot(self.labels, _WIDTH - 0.9) + _TOP + _BAR_HEIGHT
        figure, axes = _axes(self.box, body, alone=alone, x_label="", y_label=label)
        figures.set_ticks(axes, (-0.5, len(self.whiskers) - 0.5), self.ends)
        _label_below(axes, self.labels, np.arange(float(len(self.labels))), _WIDTH - 0.9)
        axes.grid(axis="x", visible=False)
        axes.yaxis.set_major_formatter(lambda value, _: number(value, 4, plain_below=6))
        for token in dict.fromkeys(one[-1] for one in self.whiskers):
            drawn = [(place, *one[:3]) for place, one in enumerate(self.whiskers) if one[-1] == token]
            places, low, value, high = np.array(drawn).T
            axes.vlines(places, low, high, color=light(token), linewidth=1.2)
            axes.plot(places, value, color=light(token), marker="o", markersize=3.2, linestyle="none")
        return figure, axes


def _axes(
    box: tuple[float, float, float, float], body: float, *, alone: bool, x_label: str, y_label: str
) -> tuple[Figure, Axes]:
    height = body + (_HEADING if alone else 0.0)
    left, bottom, wide, high = box
    size = (_ALONE if alone else _WIDTH, height)
    share = body / height
    return figures.new_axes(size, (left, bottom * share, wide, high * share), x_label=x_label, y_label=y_label)


def _sloped(labels: Sequence[str], width: float) -> bool:
    """Whether labels do not fit beside each other into ``width`` inches."""
    return max(map(len, labels)) * _CHARACTER > width / len(labels)


def _foot(labels: Sequence[str], width: float, titled: float = 0.0) -> float:
    """The height below axes of ``width`` inches that their labels need, and a line of text of so many inches."""
    return titled + 0.25 + (0.75 * _CHARACTER * max(map(len, labels)) if _sloped(labels, width) else 0.0)


def _label_below(axes: Axes, labels: Sequence[str], places: FloatArray, width: float) -> None:
    """Write as many of the labels as there is room for, at even distances."""
    sloped = _sloped(labels, width)
    step = max(1, math.ceil(len(labels) * _SLOPED / width)) if sloped else 1
    axes.set_xticks(places[::step], labels[::step])
    if sloped:
        for text in axes.get_xticklabels():
            text.set(rotation=45, ha="right", rotation_mode="anchor")
