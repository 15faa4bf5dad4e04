"""Medians of many parts of a line, with smooth bounds of their sensitivity, computed at once for ``recursive_medians``.

The bound is ``smooth_sensitivity.median_bound`` of every part with one empty cell added at its end, so that its last
boundary is a possible median. With m the rank of the median, a window runs from an occupied cell u, of last rank a <=
m, to an occupied cell v, of first rank b >= m; the ends of the part, of ranks 0 and n + 1, may take the place of u and
v. The value of a window of u and v is ``(v - u) e^(-g (b - a - 1))``, the product of the distance, a factor that
depends on u, and a factor that depends on v. Let w be the width of the part. If some window has value S, every window
whose u lies more than ``log(w / S) / g`` ranks from the median has a smaller value. This leaves few candidates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array

_TRIED = (0.0, 0.25, 0.5, 1.0, 2.0)
"""The distances in rank, times the smoothness, of the windows that give a lower bound on the best value."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PartMedians:
    """The medians of the parts; private. Arrays have shape (parts,).

    Attributes:
        doubled: twice the lower median, in cells from the start of the part; the width of an empty part.
        bounds: smooth bounds of the median, in cells.
    """

    doubled: Int64Array
    bounds: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """The rows of a line of cells, in the form that all levels use; private.

    Attributes:
        upto: the number of rows before each boundary, shape (k + 1,).
        place: the occupied cells, ascending, shape (v,).
        first, last: the ranks of the first and last row of each occupied cell, shape (v,).
    """

    upto: Int64Array
    place: Int64Array
    first: Int64Array
    last: Int64Array

    @classmethod
    def of(cls, cells: Int64Array) -> Line:
        """The line with these counts, each at least 0, shape (k,)."""
        upto = np.concatenate([[0], np.cumsum(cells)])
        place = np.flatnonzero(cells)
        return cls(upto=upto, place=place, first=upto[place] + 1, last=upto[place + 1])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Parts:
    """Parts with rows: start, width, rows before, rows, rank of the median, and its index among occupied cells."""

    start: Int64Array
    width: Int64Array
    before: Int64Array
    rows: Int64Array
    rank: Int64Array
    middle: Int64Array


def part_medians(line: Line, edges: Int64Array, *, smoothness: float) -> PartMedians:
    """The lower medians of the parts ``[edges[i], edges[i + 1])`` of a line, with a ``median_bound`` of each.

    Neighbours: one row added, removed or replaced, in any of the parts.

    Args:
        line: the rows; private.
        edges: ascending, from 0 to the number of cells, shape (parts + 1,).
        smoothness: the rate of the bounds, above 0.
    """
    width, before = np.diff(edges), line.upto[edges[:-1]]
    rows = line.upto[edges[1:]] - before
    doubled, bounds = width.copy(), width.astype(np.float64)
    filled = np.flatnonzero(rows)
    if filled.size:
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


def _best_windows(line: Line, parts: _Parts, smoothness: float) -> FloatArray:
    worth = _tried_windows(line, parts, smoothness)
    with np.errstate(divide="ignore"):
        far = np.minimum(np.log(parts.width / worth) / smoothness + 1, 2.0**62).astype(np.int64)
    low, high = parts.before + parts.rank - far, parts.before + parts.rank + far
    # occupied cells within this distance; the median's own cell belongs to both sides
    first = np.maximum(np.searchsorted(line.last, low), np.searchsorted(line.place, parts.start))
    end = np.searchsorted(line.place, parts.start + parts.width)
    end = np.minimum(np.searchsorted(line.first, high, side="right"), end)
    return np.maximum(_best_pairs(line, parts, first, end, smoothness), worth)


def _best_pairs(line: Line, parts: _Parts, first: Int64Array, end: Int64Array, smoothness: float) -> FloatArray:
    """The value of the best window of each part, between the occupied cells from ``first`` up to ``end`` or its ends.

    Since ``(v - u)(v' - u') > (v' - u)(v - u')`` for u < u', v < v', the best v does not move left as u moves right. So
    for every other u only the v between the best ones of its neighbours are tried, in halving strides, for all parts at
    once.
    """
    lefts, rights = parts.middle - first + 2, end - parts.middle + 1
    left_start, right_start = (np.cumsum(sizes) - sizes for sizes in (lefts, rights))
    part, local, low, low_weight = _left_ends(line, parts, first, lefts, smoothness)
    high, high_weight = _right_ends(line, parts, rights, smoothness)
    lowest, highest = right_start[part], (right_start + rights - 1)[part]
    later = local + 1 - lefts[part]

    best_at, worth = np.zeros(low.size, dtype=np.int64), np.zeros(low.size)
    stride = 1 << int(lefts.max()).bit_length()
    rows = left_start
    while stride:
        start = np.where(local[rows] >= stride, best_at[np.maximum(rows - stride, 0)], lowest[rows])
        known = later[rows] + stride <= 0
        sizes = np.where(known, best_at[np.minimum(rows + stride, low.size - 1)], highest[rows]) - start + 1
        begin = np.cumsum(sizes) - sizes
        at = np.repeat(start - begin, sizes) + np.arange(int(sizes.sum()))
        values = (high[at] - np.repeat(low[rows], sizes)) * high_weight[at]
        window_best = np.maximum.reduceat(values, begin)
        worth[rows] = window_best * low_weight[rows]
        stride //= 2
        if stride:
            hits = np.flatnonzero(values == np.repeat(window_best, sizes))
            best_at[rows] = at[hits[np.searchsorted(hits, begin)]]
            rows = np.flatnonzero(local & (2 * stride - 1) == stride)
    best: FloatArray = np.maximum.reduceat(worth, left_start)
    return best


def _left_ends(
    line: Line, parts: _Parts, first: Int64Array, sizes: Int64Array, smoothness: float
) -> tuple[Int64Array, Int64Array, FloatArray, FloatArray]:
    """Part, index in it, cell and factor of all left ends, far to near: the part's start, then occupied cells."""
    part, local = _ragged(sizes)
    cell = np.maximum(np.repeat(first - 1, sizes) + local, 0)
    own = parts.rank + parts.before
    low, rank = line.place[cell] - parts.start[part], np.minimum(line.last[cell], own[part])
    edge = np.cumsum(sizes) - sizes
    low[edge], rank[edge] = 0, parts.before
    return part, local, low.astype(np.float64), np.exp(-smoothness * (own[part] - rank))


def _right_ends(line: Line, parts: _Parts, sizes: Int64Array, smoothness: float) -> tuple[FloatArray, FloatArray]:
    """Cell and factor of all right ends, near to far: the median's cell, occupied cells after it, the part's end."""
    part, local = _ragged(sizes)
    cell = np.minimum(parts.middle[part] + local, line.place.size - 1)
    own = parts.rank + parts.before
    high, rank = line.place[cell] - parts.start[part], np.maximum(line.first[cell], own[part])
    edge = np.cumsum(sizes) - 1
    high[edge], rank[edge] = parts.width, parts.before + parts.rows + 1
    return high.astype(np.float64), np.exp(-smoothness * (rank - own[part] - 1))


def _ragged(sizes: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The row, and the index in it, of every entry of concatenated rows of these sizes, each above 0."""
    row = np.repeat(np.arange(sizes.size), sizes)
    return row, np.arange(row.size) - (np.cumsum(sizes) - sizes)[row]


def _tried_windows(line: Line, parts: _Parts, smoothness: float) -> FloatArray:
    """The largest of a few windows around the median: a lower bound of the maximum over all, to skip most of them."""
    apart = np.unique(np.maximum(np.array(_TRIED) / smoothness, [0, 1, 1, 1, 1]).astype(np.int64))
    low, high = (parts.rank[:, None] + sign * apart for sign in (-1, 1))
    ends = [np.where(low >= 1, _cells_at(line, parts, low), 0)]
    ends.append(np.where(high <= parts.rows[:, None], _cells_at(line, parts, high), parts.width[:, None]))
    weights = np.exp(-smoothness * np.maximum(apart[:, None] + apart - 1, 0))
    spans = (ends[1][:, None, :] - ends[0][:, :, None]) * weights
    best: FloatArray = spans.max(axis=(1, 2))
    return best


def _cells_at(line: Line, parts: _Parts, ranks: Int64Array) -> Int64Array:
    at = np.searchsorted(line.last, parts.before[:, None] + ranks)
    return line.place[np.minimum(at, line.place.size - 1)] - parts.start[:, None]
