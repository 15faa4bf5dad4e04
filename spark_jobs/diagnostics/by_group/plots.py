"""Plots of a result by group: the largest difference of every figure, and each figure's groups in rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.results.groups import ByGroup, GroupComparison
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import level, one_line
from spark_jobs.publishing.rendering import Plot, known
from spark_jobs.publishing.theme import light
from spark_jobs.publishing.whisker_rows import draw_rows, rows_axes, rows_box

if TYPE_CHECKING:
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
_KEY_CHARACTERS = 16


def name_of(comparison: GroupComparison) -> str:
    """The name of a figure as the plots show it."""
    name = NAMES[comparison.figure]
    return name if comparison.threshold is None else f"{name} at {comparison.threshold:.3g}"


def is_unequal(comparison: GroupComparison) -> bool:
    """Whether the listed groups differ by more than noise and sampling explain, at the 5 % level."""
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
        figure, axes = rows_axes(len(rows), alone=alone, label="Largest difference between two groups")
        axes.axvline(0.0, color=light("ink"), linewidth=0.8)
        draw_rows(axes, rows, [name_of(comparison) for comparison in shown], (min(-0.15, -0.15 * reach), 1.1 * reach))
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
        axes=rows_box(len(rows)),
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
        figure, axes = rows_axes(len(rows), alone=alone, label=name_of(comparison))
        if overall == overall:
            axes.axvline(overall, color=light("muted"), linewidth=0.9, linestyle=(0, (4, 3)))
        draw_rows(axes, rows, [one_line(key, _KEY_CHARACTERS) for key in keys], (min(ends) - room, max(ends) + room))
        return figure

    undefined = sum(status == UNDEFINED for status in result.status)
    return Plot(
        name=f"by_group_figure_{place}",
        title=name_of(comparison),
        description=f"{name_of(comparison)} of {len(rows)} groups with intervals, one row each; {undefined} groups are "
        "undefined.",
        draw=draw,
        axes=rows_box(len(rows)),
    )
