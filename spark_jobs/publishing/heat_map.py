"""Counts of cells as a heat map of few shapes, in one hue that follows the page."""

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
"""On either axis, without the frame: finer ones are drawn together."""


def draw_heat_map(axes: Axes, counts: Int64Array, x_edges: FloatArray, y_edges: FloatArray, *, label: str) -> None:
    """Draw ``counts`` (first axis along x) in shades by the square root of each; empty cells stay as they are."""
    heights = np.sqrt(counts / max(int(counts.max()), 1))
    shades = np.ceil(heights * _SHADES).astype(np.int64)
    for shade in range(1, _SHADES + 1):
        cells = np.argwhere(shades == shade)
        if cells.size:
            # one shape for all cells of a shade: thousands of single ones would make a slow page
            path = Path.make_compound_path(*(_cell(i, j, x_edges, y_edges) for i, j in cells))
            opacity = _DARKEST * shade / _SHADES
            patch = PathPatch(path, facecolor=light("curve"), alpha=opacity, linewidth=0, zorder=1)
            patch.set_label(label if shade == _SHADES else "")
            axes.add_patch(patch)


def shown_part(counts: Int64Array, edges: FloatArray, *, kept: float) -> tuple[float, float]:
    """The edges between which all but the share ``kept`` of the counts lie, at either end, with a cell's room."""
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
    """A box of cells with a frame around it, few enough to be drawn; a cell of the frame is as wide as any other.

    Args:
        framed: counts, the first and last of either axis beyond the box; shape (k + 2, l + 2).
        x_edges: of the box, shape (k + 1,).
        y_edges: the same along y, shape (l + 1,).

    Returns:
        Counts framed in the same way, and edges of all their cells.
    """
    edges = [x_edges, y_edges]
    for axis in (0, 1):
        while edges[axis].size - 1 > _MAX_CELLS and edges[axis].size % 2:
            first, within, last = np.split(np.moveaxis(framed, axis, 0), [1, -1])
            framed = np.moveaxis(np.concatenate([first, within[0::2] + within[1::2], last]), 0, axis)
            edges[axis] = edges[axis][::2]
    x, y = (np.concatenate([[2 * inner[0] - inner[1]], inner, [2 * inner[-1] - inner[-2]]]) for inner in edges)
    return framed, x, y
