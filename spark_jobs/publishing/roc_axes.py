"""The axes of ROC plots: false and true positive rates from 0 to 1, with the diagonal of random scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.publishing import figures
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME = figures.Frame(width=5.6, height=5.3, heading=0.95, small=4.7, box=(0.17, 0.145, 0.785, 0.83))
_MARGIN = 0.01


def roc_figure(draw: Callable[[Axes], None], *, alone: bool, title: str, lines: tuple[str, ...]) -> Figure:
    """A plot of ROC curves.

    Args:
        draw: draws the curves on the axes, before the diagonal.
        alone: whether the plot is a file of its own, with a legend and a heading.
        title: title of the heading.
        lines: lines below the title.
    """
    figure, axes = FRAME.axes(
        alone=alone,
        x_label="False positive rate",
        y_label="True positive rate",
    )
    ticks = np.linspace(0.0, 1.0, 6)
    axes.set_xticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])
    axes.set_yticks(ticks, [f"{100 * tick:.0f} %" for tick in ticks])
    axes.set_xlim(-_MARGIN, 1 + _MARGIN)
    axes.set_ylim(-_MARGIN, 1 + _MARGIN)
    draw(axes)
    axes.plot([0, 1], [0, 1], color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), label="chance")
    if alone:
        axes.legend(loc="lower right", fontsize=9, labelcolor=light("ink"), edgecolor="none", framealpha=0.85)
        figures.heading(figure, left=0.03, title=title, lines=lines)
    return figure


def fraction_at(rate: float) -> float:
    """The position of a rate on either axis, as a fraction of the axis."""
    return (rate + _MARGIN) / (1 + 2 * _MARGIN)
