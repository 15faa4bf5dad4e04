"""Medians of many parts of a line at once, with their smooth bounds: what a recursion needs at each of its levels.

The bound is ``smooth_sensitivity.median_bound`` of every part with one empty cell added at its end, so that its last
boundary is a possible median. Its windows end at occupied cells u, of last rank a <= m, and v, of first rank b >= m, or
at the ends of the part, of ranks 0 and n + 1; a window of u and v is worth ``(v - u) e^(-g (b - a - 1))``, a product of
a factor of u, a factor of v and the distance. A window worth S shows that one whose u lies more than ``log(w / S) / g``
ranks from the median, w the width, is worth less, which leaves few candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.mechanisms.noise import Int64Array

FloatArray = NDArray[np.float64]
_TRIED = (0.0, 0.25, 0.5, 1.0, 2.0)
"""Distances in rank, times the smoothness, of the windows that say what the best one is at least worth."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PartMedians:
    """Private; of each part, shape (parts,).

    Attributes:
        doubled: twice its lower median, in cells from its start; its width where it is empty.
        bounds: smooth bounds of the median, in cells.
    """

    doubled: Int64Array
    bounds: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class _Line:
    """The occupied cells of the whole line: their places, and the ranks of their first and last rows."""

    place: Int64Array
    first: Int64Array
    last: Int64Array


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    """Parts with rows: start, width, rows before them, rows, rank of the median, and its place among occupied cells."""

    start: Int64Array
    width: Int64Array
    before: Int64Array
    rows: Int64Array
    rank: Int64Array
    middle: Int64Array


def part_medians(cells: Int64Array, edges: Int64Array, *, smoothness: float) -> PartMedians:
    """The lower medians of the parts ``[edges[i], edges[i + 1])`` of a line, with a ``median_bound`` of each.

    Neighbours: one row added, removed or replaced, whichever parts it lies in.

    Args:
        cells: counts of at least 0, shape (k,).
        edges: ascending, from 0 to k, shape (parts + 1,).
        smoothness: above 0.
    """
    upto = np.concatenate([[0], np.cumsum(cells)])
    width, before = np.diff(edges), upto[edges[:-1]]
    rows = upto[edges[1:]] - before
    doubled, bounds = width.copy(), width.astype(np.float64)
    filled = np.flatnonzero(rows)
    if filled.size:
        place = np.flatnonzero(cells)
        line = _Line(place=place, first=upto[place] + 1, last=upto[place + 1])
        rank = (rows + 1) // 2
        middle = np.searchsorted(line.last, (before + rank)[filled])
        parts = _Parts(
            start=edges[:-1][filled],
            width=width[filled],
            before=before[filled],
            rows=rows[filled],
            rank=rank[filled],
            middle=middle,
        )
        doubled[filled] = 2 * (line.place[middle] - parts.start)
        bounds[filled] = _best_windows(line, parts, smoothness)
    return PartMedians(doubled=doubled, bounds=bounds)


def _best_windows(line: _Line, parts: _Parts, smoothness: float) -> FloatArray:
    worth = _tried_windows(line, parts, smoothness)
    with np.errstate(divide="ignore"):
        far = np.minimum(np.log(parts.width / worth) / smoothness + 1, 2.0**62).astype(np.int64)
    low, high = parts.before + parts.rank - far, parts.before + parts.rank + far
    # occupied cells within reach, the median's own on both sides
    first = np.maximum(np.searchsorted(line.last, low), np.searchsorted(line.place, parts.start))
    end = np.searchsorted(line.place, parts.start + parts.width)
    end = np.minimum(np.searchsorted(line.first, high, side="right"), end)
    return np.maximum(_best_pairs(line, parts, first, end, smoothness), worth)


def _best_pairs(line: _Line, parts: _Parts, first: Int64Array, end: Int64Array, smoothness: float) -> FloatArray:
    """The best window of each part between occupied cells from ``first`` up to ``end``, or its ends.

    ``(v - u)(v' - u') > (v' - u)(v - u')`` for u < u', v < v': the best v does not move left as u moves right. So every
    other u is tried between the best v of its neighbours, in halving strides, all parts at once.
    """
    lefts, rights = parts.middle - first + 2, end - parts.middle + 1
    left_start, right_start = (np.cumsum(sizes) - sizes for sizes in (lefts, rights))
    own = parts.rank + parts.before
    # far to near: the part's left end, then its occupied cells up to the median's
    part, local = _ragged(lefts)
    cell = np.maximum(first[part] + local - 1, 0)
    edge = local == 0
    low = np.where(edge, 0, line.place[cell] - parts.start[part]).astype(np.float64)
    missing = own[part] - np.where(edge, parts.before[part], np.minimum(line.last[cell], own[part]))
    low_weight = np.exp(-smoothness * missing)
    # near to far: the median's cell, the occupied ones after it, the part's right end
    other, place = _ragged(rights)
    cell = np.minimum(parts.middle[other] + place, line.place.size - 1)
    edge = place == rights[other] - 1
    high = np.where(edge, parts.width[other], line.place[cell] - parts.start[other]).astype(np.float64)
    missing = np.where(edge, parts.before[other] + parts.rows[other] + 1, np.maximum(line.first[cell], own[other]))
    high_weight = np.exp(-smoothness * (missing - own[other] - 1))

    best_at, worth = np.zeros(low.size, dtype=np.int64), np.zeros(low.size)
    stride = 1 << int(lefts.max()).bit_length()
    rows = left_start
    while stride:
        before = np.where(local[rows] >= stride, best_at[np.maximum(rows - stride, 0)], 0)
        known = local[rows] + stride < lefts[part[rows]]
        after = np.where(known, best_at[np.minimum(rows + stride, low.size - 1)], rights[part[rows]] - 1)
        row, column = _ragged(after - before + 1)
        column = column + before[row]
        at = column + right_start[part[rows]][row]
        values = (high[at] - low[rows][row]) * high_weight[at]
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        found = np.maximum.reduceat(values, starts)
        worth[rows] = found * low_weight[rows]
        best_at[rows] = np.minimum.reduceat(np.where(values == found[row], column, rights.max()), starts)
        stride //= 2
        rows = np.flatnonzero(local % max(2 * stride, 1) == stride) if stride else rows
    best: FloatArray = np.maximum.reduceat(worth, left_start)
    return best


def _ragged(sizes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The number of the row, and the place in it, of every entry of rows of these sizes, each above 0."""
    row = np.repeat(np.arange(sizes.size), sizes)
    return row, np.arange(row.size) - (np.cumsum(sizes) - sizes)[row]


def _tried_windows(line: _Line, parts: _Parts, smoothness: float) -> FloatArray:
    """What some windows around the median are worth: a lower bound on the best."""
    apart = np.unique(np.maximum(np.array(_TRIED) / smoothness, [0, 1, 1, 1, 1]).astype(np.int64))
    low, high = (parts.rank[:, None] + sign * apart for sign in (-1, 1))
    ends = [np.where(low >= 1, _cells_at(line, parts, low), 0)]
    ends.append(np.where(high <= parts.rows[:, None], _cells_at(line, parts, high), parts.width[:, None]))
    best = np.zeros(parts.rank.size)
    for i, down in enumerate(apart.tolist()):
        for j, up in enumerate(apart.tolist()):
            span = (ends[1][:, j] - ends[0][:, i]) * np.exp(-smoothness * max(down + up - 1, 0))
            best = np.maximum(best, span)
    return best


def _cells_at(line: _Line, parts: _Parts, ranks: Int64Array) -> Int64Array:
    at = np.searchsorted(line.last, parts.before[:, None] + ranks)
    return line.place[np.minimum(at, line.place.size - 1)] - parts.start[:, None]
