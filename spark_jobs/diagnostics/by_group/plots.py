"""Plots of a result by group: the largest difference of every figure, and each figure's groups in rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.results.groups import ByGroup, GroupComparison
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import level, one_line
from spark_jobs.publishing.rendering import Plot, known
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_FIGURES, MAX_DRAWN = 24, 16
"""The most figures and groups that the report draws; the data files have all of them."""
UNEQUAL_BELOW = 0.05
"""Adjusted p-values below this are drawn in colour."""
TITLE = "Results by group"
NAMES = {
    "positive_rate": "Positives",
    "auc": "AUC",
    "mean_residual": "Mean residual",
    "predicted_positive_rate": "Predicted positive",
    "recall": "Recall",
    "false_positive_rate": "False positive rate",
    "precision": "Precision",
}
_FRAME = figures.Frame(width=6.0, height=4.6, heading=0.95, small=5.0, box=(0.16, 0.155, 0.77, 0.82))
_ROW, _FOOT, _LABELS, _KEY_CHARACTERS = 0.26, 0.62, 1.95, 16
Whisker = tuple[float, float, float, str]
"""Lower end, value, upper end, and the token of its colour; NaN if there is none."""


def name_of(comparison: GroupComparison) -> str:
    """A figure as a reader reads it."""
    name = NAMES[comparison.figure]
    return name if comparison.threshold is None else f"{name} at {comparison.threshold:.3g}"


def is_unequal(comparison: GroupComparison) -> bool:
    """Whether the listed groups differ by more than noise and sampling explain, at 5 %."""
    return comparison.adjusted_p_value is not None and comparison.adjusted_p_value < UNEQUAL_BELOW


def differences_plot(result: ByGroup) -> Plot:
    """The largest difference of every figure, a row each, with its simultaneous interval."""
    shown = result.comparisons[:MAX_FIGURES]
    rows = []
    for comparison in shown:
        low, high = comparison.difference.ends()
        rows.append((low, comparison.difference.number, high, "curve" if is_unequal(comparison) else "chance"))
    reach = max((abs(end) for low, _, high, _ in rows for end in (low, high) if end == end), default=1.0)

    def draw(alone: bool) -> Figure:
        figure, axes = _rows_axes(len(rows), alone=alone, label="Largest difference between two groups")
        axes.axvline(0.0, color=light("ink"), linewidth=0.8)
        _draw_rows(axes, rows, [name_of(comparison) for comparison in shown], (min(-0.15, -0.15 * reach), 1.1 * reach))
        if alone:
            line = f"with {level(result.confidence)} intervals for the populations, for all pairs together"
            figures.heading(figure, left=0.03, title=TITLE, lines=(line, "released with noise"))
        return figure

    unequal = sum(map(is_unequal, result.comparisons))
    return Plot(
        name="by_group",
        title=TITLE,
        description=f"The largest difference between two groups in each of {len(shown)} figures; {unequal} differ by "
        "more than noise and sampling explain.",
        draw=draw,
        axes=_box(len(rows)),
    )


def figure_plot(result: ByGroup, place: int) -> Plot:
    """One figure of all groups, a row each, with intervals for the populations."""
    comparison = result.comparisons[place]
    keys = result.keys[:MAX_DRAWN]
    rows = [
        (known(low), known(value), known(high), "chance" if key == result.keys[-1] else "curve")
        for low, value, high, key in zip(
            comparison.values.lower, comparison.values.value, comparison.values.upper, result.keys, strict=True
        )
    ][:MAX_DRAWN]
    overall = comparison.overall.number
    shown = [overall, *(end for low, _, high, _ in rows for end in (low, high))]
    ends = [end for end in shown if end == end] or [0.0, 1.0]
    room = 0.05 * max(max(ends) - min(ends), 1e-3)

    def draw(alone: bool) -> Figure:
        figure, axes = _rows_axes(len(rows), alone=alone, label=name_of(comparison))
        if overall == overall:
            axes.axvline(overall, color=light("muted"), linewidth=0.9, linestyle=(0, (4, 3)))
        _draw_rows(axes, rows, [one_line(key, _KEY_CHARACTERS) for key in keys], (min(ends) - room, max(ends) + room))
        return figure

    undefined = sum(status == UNDEFINED for status in result.status)
    return Plot(
        name=f"by_group_figure_{place}",
        title=name_of(comparison),
        description=f"{name_of(comparison)} of {len(rows)} groups with intervals, one row each; {undefined} groups are "
        "undefined.",
        draw=draw,
        axes=_box(len(rows)),
    )


def _box(rows: int) -> tuple[float, float, float, float]:
    body = _body(rows)
    return _LABELS / _FRAME.width, _FOOT / body, 1 - (_LABELS + 0.25) / _FRAME.width, 1 - (_FOOT + 0.1) / body


def _body(rows: int) -> float:
    return rows * _ROW + _FOOT + 0.12


def _rows_axes(rows: int, *, alone: bool, label: str) -> tuple[Figure, Axes]:
    body, box = _body(rows), _box(rows)
    height = body + (_FRAME.heading if alone else 0.0)
    return figures.new_axes(
        (_FRAME.width if alone else _FRAME.small, height),
        (box[0], box[1] * body / height, box[2], box[3] * body / height),
        x_label=label,
        y_label="",
    )


def _draw_rows(axes: Axes, rows: Sequence[Whisker], labels: Sequence[str], ends: tuple[float, float]) -> None:
    figures.set_ticks(axes, ends, (len(rows) - 0.5, -0.5))
    axes.set_yticks(range(len(rows)), labels)
    axes.grid(axis="y", visible=False)
    for row, (low, value, high, token) in enumerate(rows):
        if value == value:
            axes.hlines(row, low, high, color=light(token), linewidth=1.6)
            axes.plot([value], [row], color=light(token), marker="o", markersize=5)
        else:
            axes.text(0.5, row, "undefined", color=light("muted"), size=9, ha="center", va="center",
                      transform=axes.get_yaxis_transform())  # fmt: skip
