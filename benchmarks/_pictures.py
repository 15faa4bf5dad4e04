"""Tools for the benchmarks' pictures: panels, lines with their intervals, and saving them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from spark_jobs.arrays import FloatArray
from spark_jobs.publishing import figures
from spark_jobs.publishing.theme import light

IMAGES = Path(__file__).parents[1] / "docs" / "images"
Style = tuple[str, str, str]
"""Colour (a design token), marker and dashes."""
Styles = dict[str, Style]


def panels(count: int, *, rows: int = 1, scales: Sequence[str] = ()) -> tuple[Figure, list[Axes]]:
    """Panels in rows of ``count``, with logarithmic axes; with ``scales``, each has a vertical axis of its own."""
    size = (3.1 * count if count > 1 else 5.5, 3.9 if rows == 1 else 2.6 * rows + 0.8)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    shown = list(figure.subplots(rows, count, squeeze=False, sharey=count > 1 and not scales).ravel())
    for axes, scale in zip(shown, scales or ("log",) * count * rows, strict=True):
        axes.set_xscale("log")
        axes.set_yscale(scale)
        for axis in (axes.xaxis, axes.yaxis):
            # a logarithmic axis would write its powers of ten in mathematics, which these pictures leave alone
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axis.set_minor_locator(NullLocator())
        axes.grid(color=light("hairline"), linewidth=0.8)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    return figure, shown


def line(axes: Axes, style: Style, label: str, at: FloatArray, errors: Sequence[FloatArray]) -> None:
    """Means of the values at each place, with 95% intervals where there is more than one."""
    colour, marker, dashes = style
    means = np.array([values.mean() for values in errors])
    widths = np.array([1.96 * values.std() / np.sqrt(values.size) for values in errors])
    axes.plot(
        at,
        means,
        color=light(colour),
        marker=marker or None,
        linestyle=dashes,
        label=label,
        linewidth=1.6,
        markersize=4,
    )
    if not dashes:
        axes.errorbar(at, means, widths, fmt="none", ecolor=light(colour), linewidth=1)
    elif (widths > 0.02 * np.abs(means)).any():  # narrower ones cannot be seen
        axes.fill_between(
            at, np.maximum(means - widths, means / 10), means + widths, color=light(colour), alpha=0.15, linewidth=0
        )


def points(axes: Axes, style: Style, label: str, at: Sequence[float], values: Sequence[float]) -> None:
    """A line through single values, without intervals."""
    line(axes, style, label, np.array(at, dtype=float), [np.array([value], dtype=float) for value in values])


def finish(figure: Figure, labelled: Sequence[Axes], path: Path) -> None:
    """Write the picture, with one legend for the lines of these panels."""
    legend = {}
    for axes in labelled:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            legend.setdefault(label, handle)
    figure.legend(list(legend.values()), list(legend), loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = figures.svg_bytes(figure, title=path.stem, description=path.stem.replace("-", " "))
    # a hundredth of a point cannot be seen, and the digits behind it are half of the file; labels keep theirs
    path.write_bytes(re.sub(rb"<[^>]*>", lambda tag: re.sub(rb"(\d\.\d\d)\d+", rb"\1", tag[0]), drawn))
