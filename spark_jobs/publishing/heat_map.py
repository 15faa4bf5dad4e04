"""A heat map of counts with few shapes, in one hue that follows the page's colour scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.publishing.theme import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHADES = 8
_DARKEST = 0.8
_MAX_CELLS = 64
"""Largest number of drawn cells per axis, without the frame; finer cells are merged."""


def draw_heat_map(axes: Axes, counts: Int64Array, x_edges: FloatArray, y_edges: FloatArray, *, label: str) -> None:
    """Draw ``counts`` (first axis along x), shaded by their square roots; empty cells are not drawn."""
    heights = np.sqrt(counts / max(int(counts.max()), 1))
    shade_cells(axes, heights, x_edges, y_edges, hue="curve", darkest=_DARKEST, label=label)


def shade_cells(
    axes: Axes,
    depths: FloatArray,
    x_edges: FloatArray,
    y_edges: FloatArray,
    *,
    hue: str,
    darkest: float,
    label: str = "",
) -> None:
    """Shade each cell by its depth from 0 to 1 (first axis along x); cells of depth 0 or NaN are not drawn."""
    shades = np.ceil(np.nan_to_num(depths) * _SHADES).astype(np.int64)
    for shade in range(1, _SHADES + 1):
        cells = np.argwhere(shades == shade)
        if cells.size:
            # one shape for all cells of a shade, because thousands of shapes would make the page slow
            path = Path.make_compound_path(*(_cell(i, j, x_edges, y_edges) for i, j in cells))
            opacity = darkest * shade / _SHADES
            patch = PathPatch(path, facecolor=light(hue), alpha=opacity, linewidth=0, zorder=1)
            patch.set_label(label if shade == _SHADES else "")
            axes.add_patch(patch)


def shown_part(counts: Int64Array, edges: FloatArray, *, kept: float) -> tuple[float, float]:
    """The edges that leave at most a fraction ``kept`` of the counts beyond either end, with a margin of one cell."""
    total = int(counts.sum())
    if total == 0:
        return float(edges[0]), float(edges[-1])
    below = np.cumsum(counts) / total
    first = max(int(np.searchsorted(below, kept)) - 1, 0)
    last = min(int(np.searchsorted(below, 1 - kept)) + 2, counts.size)
    return float(edges[first]), float(edges[last])


def _cell(i: int, j: int, x_edges: FloatArray, y_edges: FloatArray) -> Path:
    left, right, low, high = x_edges[i], x_edges[i + 1], y_edges[j], y_edges[j + 1]
    return Path([(left, low), (right, low), (right, high), (left, high), (left, low)], closed=True)


def in_few_cells(
    framed: Int64Array, x_edges: FloatArray, y_edges: FloatArray
) -> tuple[Int64Array, FloatArray, FloatArray]:
    """Merge the cells of a framed box until they are few enough to draw.

    Args:
        framed: counts, shape (k + 2, l + 2); the first and last along either axis lie beyond the box.
        x_edges: edges of the box along x, shape (k + 1,).
        y_edges: edges of the box along y, shape (l + 1,).

    Returns:
        Framed counts, and the edges of all their cells along x and y; cells of the frame are as wide as the others.
    """
    edges = [x_edges, y_edges]
    for axis in (0, 1):
        while edges[axis].size - 1 > _MAX_CELLS and edges[axis].size % 2:
            first, within, last = np.split(np.moveaxis(framed, axis, 0), [1, -1])
            framed = np.moveaxis(np.concatenate([first, within[0::2] + within[1::2], last]), 0, axis)
            edges[axis] = edges[axis][::2]
    x, y = (np.concatenate([[2 * inner[0] - inner[1]], inner, [2 * inner[-1] - inner[-2]]]) for inner in edges)
    return framed, x, y
