"""Plots of one set of axes, from a specification: frame, texts, a painting function, and a legend for the file.

The shared elements have one style: bands, curves, reference lines, and the word "undefined".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends
from spark_jobs.publishing import figures
from spark_jobs.publishing.formats import level
from spark_jobs.publishing.rendering import Legend, Plot, Probe
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SQUARE = figures.Frame(width=5.6, height=5.3, heading=0.95, small=4.7, box=(0.17, 0.145, 0.785, 0.83))
"""The frame of a curve whose axes have the same scale."""
_OPACITIES = (0.13, 0.22)
"""The opacities of an outer band, and of an inner one on top of it."""


def chart(
    paint: Callable[[Axes], None],
    *,
    name: str,
    title: str,
    description: str,
    lines: tuple[str, ...],
    frame: figures.Frame = SQUARE,
    labels: tuple[str, str] = ("", ""),
    heading: str = "",
    legend: Callable[[Axes], None] | None = None,
    probes: tuple[Probe, ...] = (),
    keys: Legend | None = None,
) -> Plot:
    """A plot of one set of axes; as a file of its own it also has a heading and a legend.

    Args:
        paint: draws on the axes.
        name: file name without its suffix.
        title: a few words, without text of a user.
        description: text alternative for readers who cannot see the plot.
        lines: lines below the heading.
        frame: sizes of the picture.
        labels: the labels of the horizontal and the vertical axis.
        heading: the heading, if it is not the title.
        legend: adds the legend, if anything on the axes has a label.
        probes: points with values to show.
        keys: the plot's own entries of the page's legend.
    """

    def draw(alone: bool) -> Figure:
        figure, axes = frame.axes(alone=alone, x_label=labels[0], y_label=labels[1])
        paint(axes)
        if alone:
            if legend is not None and axes.get_legend_handles_labels()[0]:
                legend(axes)
            figures.heading(figure, left=0.03, title=heading or title, lines=lines)
        return figure

    return Plot(name=name, title=title, description=description, draw=draw, axes=frame.box, probes=probes, legend=keys)


def legend_in(corner: str = "best", *, size: float = figures.LEGEND_SIZE) -> Callable[[Axes], None]:
    """A legend within the axes."""
    return partial(_legend, loc=corner, fontsize=size)


def _legend(axes: Axes, **placed: Any) -> None:
    axes.legend(labelcolor=light("ink"), edgecolor="none", framealpha=0.85, **placed)


def share_ticks(axes: Axes, *, margin: float) -> None:
    """Set both axes to run from 0 to 100 %, with a margin."""
    ticks = np.linspace(0.0, 1.0, 6)
    texts = [f"{100 * tick:.0f} %" for tick in ticks]
    axes.set_xticks(ticks, texts)
    axes.set_yticks(ticks, texts)
    axes.set_xlim(-margin, 1 + margin)
    axes.set_ylim(-margin, 1 + margin)


def draw_band(
    axes: Axes, x: ArrayLike, ends: Ends[FloatArray], *, colour: str = "curve", opacity: float = 0.22, **style: Any
) -> None:
    """Draw the region between the lower and the upper ends of a band."""
    axes.fill_between(x, *ends, color=light(colour), alpha=opacity, linewidth=0, **style)


def draw_bands(
    axes: Axes, x: ArrayLike, bands: Mapping[str, Ends[FloatArray]], confidence: float, **style: Any
) -> None:
    """Draw one or two confidence bands, the outer one first, labelled by what each is a band for."""
    for (what, ends), opacity in zip(bands.items(), _OPACITIES[-len(bands) :], strict=True):
        draw_band(axes, x, ends, opacity=opacity, label=f"{level(confidence)} band {what}", **style)


def draw_curve(axes: Axes, x: ArrayLike, y: ArrayLike, *, label: str, **style: Any) -> None:
    """Draw a released curve."""
    axes.plot(x, y, color=light("curve"), linewidth=1.8, label=label, **style)


def draw_reference(axes: Axes, x: ArrayLike, y: ArrayLike, *, label: str) -> None:
    """Draw the dashed reference line that a release is compared with."""
    axes.plot(x, y, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), label=label)


def draw_zero(axes: Axes, **style: Any) -> None:
    """Draw the dashed line of zero."""
    axes.axhline(0.0, color=light("chance"), linewidth=1.3, linestyle=(0, (4, 3)), **style)


def draw_undefined_aside(axes: Axes, why: str) -> None:
    """Write "undefined", and why, above the diagonal of an empty plot whose axes run from 0 to 1."""
    axes.text(0.33, 0.82, "undefined", color=light("muted"), size=20, ha="center", va="center")
    axes.text(0.33, 0.74, why, color=light("muted"), size=10, ha="center", va="center")


def along(value: float, ends: tuple[float, float]) -> float:
    """The position of a value between both ends of an axis, from 0 to 1; values beyond an end are moved to it."""
    return float(np.clip((value - ends[0]) / (ends[1] - ends[0]), 0.0, 1.0))
