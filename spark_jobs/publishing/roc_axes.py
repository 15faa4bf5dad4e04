"""The axes of ROC plots: false and true positive rates from 0 to 1, with the diagonal of random scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_jobs.publishing.chart import chart, draw_reference, legend_in, share_ticks
from spark_jobs.publishing.rendering import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARGIN = 0.01


def roc_plot(draw: Callable[[Axes], None], **of_chart: Any) -> Plot:
    """A plot of ROC curves, with the texts and probes of ``chart``; ``draw`` is called before the diagonal is drawn."""

    def paint(axes: Axes) -> None:
        share_ticks(axes, margin=_MARGIN)
        draw(axes)
        draw_reference(axes, [0, 1], [0, 1], label="chance")

    labels = "False positive rate", "True positive rate"
    return chart(paint, labels=labels, legend=legend_in("lower right", size=9), **of_chart)


def fraction_at(rate: float) -> float:
    """The position of a rate on either axis, as a fraction of the axis."""
    return (rate + _MARGIN) / (1 + 2 * _MARGIN)
