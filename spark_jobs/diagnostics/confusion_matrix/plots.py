"""The pictures of confusion matrices: one matrix with its rates, or the rates at several thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Numbers
from spark_jobs.contract.results.score_figures import RATES, ConfusionMatrix
from spark_jobs.publishing import figures
from spark_jobs.publishing.chart import draw_band
from spark_jobs.publishing.formats import SPACE, count, percent
from spark_jobs.publishing.rendering import finite
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {"accuracy": "Accuracy", "precision": "Precision", "recall": "Recall", "specificity": "Specificity", "f1": "F1"}
SHORT = {"true_positives": "TP", "false_positives": "FP", "false_negatives": "FN", "true_negatives": "TN"}
_TILES = (("positive", ("true_positives", "false_negatives")), ("negative", ("false_positives", "true_negatives")))
"""Rows of the matrix: an actual class, and its counts that are predicted positive and predicted negative."""
_LEFT, _TOP, _TILE_WIDTH, _TILE_HEIGHT, _GAP = 0.13, 0.94, 0.43, 0.21, 0.012
_BARS, _STEP, _NAME_WIDTH = 0.385, 0.082, 0.21
_STYLES: dict[str, tuple[str, object]] = {
    "accuracy": ("ink", "-"),
    "precision": ("curve", "-"),
    "recall": ("spent", (0, (6, 2))),
    "specificity": ("before", (0, (4, 1, 1, 1))),
    "f1": ("caution", (0, (1.5, 1.5))),
}
_APART, _MAX_TICKS = 0.055, 6


def draw_matrix(axes: Axes, result: ConfusionMatrix) -> None:
    """Draw the matrix of a single threshold, and below it the rates with their intervals."""
    draw_tiles(axes, result, 0)
    axes.set_ylim(0, 1)
    for place, name in enumerate(RATES):
        _bar(axes, result, name, _BARS - place * _STEP)


def draw_tiles(axes: Axes, result: ConfusionMatrix, place: int) -> None:
    """Draw the four tiles of one threshold, darker for a larger share of their class."""
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(_TOP - 2 * _TILE_HEIGHT, 1)
    for column, text in enumerate(("predicted positive", "predicted negative")):
        middle = _LEFT + (column + 0.5) * _TILE_WIDTH
        axes.text(middle, _TOP + 0.015, text, color=light("muted"), size=9.5, ha="center", va="bottom")
    known = result.status == "ok"
    for row, (label, tiles) in enumerate(_TILES):
        bottom = _TOP - (row + 1) * _TILE_HEIGHT
        axes.text(
            _LEFT - 0.02, bottom + _TILE_HEIGHT / 2, label, color=light("muted"), size=9.5, rotation="vertical",
            ha="right", va="center",
        )  # fmt: skip
        sizes = [max(float(getattr(result, name)[place]), 0.0) for name in tiles]
        for column, name in enumerate(tiles):
            share = sizes[column] / max(sum(sizes), 1.0) if known else 0.0
            correct = name.startswith("true")
            named = f"{SHORT[name]}, {'correct' if correct else 'incorrect'}"
            _tile(
                axes,
                (_LEFT + column * _TILE_WIDTH, bottom),
                correct=correct,
                share=share,
                texts=(sizes[column], named, percent(share) if known else ""),
            )


def _tile(
    axes: Axes, corner: tuple[float, float], *, correct: bool, share: float, texts: tuple[float, str, str]
) -> None:
    x, y = corner[0] + _GAP / 2, corner[1] + _GAP / 2
    wide, high = _TILE_WIDTH - _GAP, _TILE_HEIGHT - _GAP
    colour = light("curve" if correct else "spent")
    axes.add_patch(Rectangle((x, y), wide, high, facecolor=colour, alpha=0.08 + 0.34 * share, linewidth=0))
    size, name, share_text = texts
    middle = x + wide / 2
    axes.text(middle, y + 0.62 * high, f"≈{SPACE}{count(size)}", color=light("ink"), size=15, ha="center", va="center")
    axes.text(middle, y + 0.33 * high, name, color=light("ink"), size=9.5, ha="center", va="center")
    axes.text(middle, y + 0.13 * high, share_text, color=light("ink"), size=8.5, ha="center", va="center")


def _bar(axes: Axes, result: ConfusionMatrix, name: str, height: float) -> None:
    """Draw a rate on a scale from 0 to 100 %."""
    rate: Numbers = getattr(result, name)
    value, low, high = (float(values[0]) for values in (rate.value, *rate.ends()))
    first, last = _NAME_WIDTH, 0.84

    def along(share: float) -> float:
        return first + (last - first) * share

    axes.text(first - 0.02, height, NAMES[name], color=light("ink"), size=9.5, ha="right", va="center")
    axes.plot([first, last], [height] * 2, color=light("hairline"), linewidth=5, solid_capstyle="round", zorder=1)
    if finite(low) and finite(high):
        axes.plot(
            [along(low), along(high)],
            [height] * 2,
            color=light("curve"),
            linewidth=10,
            alpha=0.3,
            solid_capstyle="butt",
        )
    known = finite(value) and result.status == "ok"
    if known:
        axes.plot([along(value)], [height], color=light("curve"), marker="o", markersize=8)
    text = percent(value) if known else "undefined"
    axes.text(last + 0.03, height, text, color=light("ink" if known else "muted"), size=9, ha="left", va="center")


def draw_rates(axes: Axes, result: ConfusionMatrix) -> None:
    """Draw the rates at the thresholds, with their names at the last one."""
    at = result.thresholds
    margin = 0.02 * float(at[-1] - at[0])
    axes.set_xlim(float(at[0]) - margin, float(at[-1]) + margin)
    axes.set_ylim(-0.01, 1.01)
    candidates = MaxNLocator(nbins=_MAX_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(float(at[0]), float(at[-1]))
    axes.set_xticks([float(tick) for tick in candidates if at[0] - margin <= tick <= at[-1] + margin])
    shares = np.linspace(0.0, 1.0, 6)
    axes.set_yticks(shares, [f"{100 * share:.0f} %" for share in shares])
    if result.status != "ok":
        figures.draw_undefined(axes, "a class has too few rows")
        return
    ends = {}
    for name in RATES:
        token, dashes = _STYLES[name]
        rate: Numbers = getattr(result, name)
        values = rate.value
        draw_band(axes, at, rate.ends(), colour=token, opacity=0.16)
        axes.plot(at, values, color=light(token), linewidth=1.7, linestyle=dashes, marker="o", markersize=3.5)
        known = values[np.isfinite(values)]
        ends[name] = float(known[-1]) if known.size else 0.5
    for name, height in zip(ends, _apart(np.array(list(ends.values()))), strict=True):
        axes.annotate(
            NAMES[name], (1.0, ends[name]), (1.05, height), xycoords="axes fraction", textcoords="axes fraction",
            color=light("ink"), size=9.5, va="center",
            arrowprops={
                "arrowstyle": "-", "color": light(_STYLES[name][0]), "linewidth": 1.4, "shrinkA": 2, "shrinkB": 0,
            },
        )  # fmt: skip


def _apart(heights: FloatArray) -> FloatArray:
    """Heights near these, in their order, within the axes, and far enough apart for one text each."""
    order = np.argsort(heights, kind="stable")
    steps = _APART * np.arange(heights.size)
    # midway between the nearest rising heights from below and from above
    lifted = heights[order] - steps
    risen = (np.maximum.accumulate(lifted) + np.minimum.accumulate(lifted[::-1])[::-1]) / 2 + steps
    moved = np.clip(risen, steps + 0.02, 0.98 - steps[::-1])
    placed = np.empty_like(heights)
    placed[order] = moved
    return placed
