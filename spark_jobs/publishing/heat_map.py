"""Counts of cells as a heat map of few shapes, in one hue that follows the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from spark_jobs.publishing.tokens import light

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FloatArray = NDArray[np.float64]
_SHADES = 8
_DARKEST = 0.8
_MOST_CELLS = 64
"""On either axis: finer ones are drawn together."""


def draw_heat_map(
    axes: Axes, counts: NDArray[np.int64], x_edges: FloatArray, y_edges: FloatArray, *, label: str
) -> None:
    """Draw ``counts`` (first axis along x) in shades by the square root of each; empty cells stay as they are."""
    counts, x_edges, y_edges = _coarser(counts, x_edges, y_edges)
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


def shown_part(counts: NDArray[np.int64], edges: FloatArray, *, kept: float) -> tuple[float, float]:
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


def _coarser(
    counts: NDArray[np.int64], x_edges: FloatArray, y_edges: FloatArray
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    for axis in (0, 1):
        while counts.shape[axis] > _MOST_CELLS and counts.shape[axis] % 2 == 0:
            pairs = np.moveaxis(counts, axis, 0)
            counts = np.moveaxis(pairs[0::2] + pairs[1::2], 0, axis)
            x_edges, y_edges = (x_edges[::2], y_edges) if axis == 0 else (x_edges, y_edges[::2])
    return counts, x_edges, y_edges
