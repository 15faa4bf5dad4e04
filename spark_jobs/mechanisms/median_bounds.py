"""Medians of many parts of a line at once, with their smooth bounds: what a recursion needs at each of its levels.

The bound is ``smooth_sensitivity.median_bound`` of every part with one empty cell added at its end, so that its last
boundary is a possible median. Its windows end at occupied cells u, of last rank a <= m, and v, of first rank b >= m, or
at the ends of the part, of ranks 0 and n + 1; a window of u and v is worth ``(v - u) e^(-g (b - a - 1))``, a product of
a factor of u, a factor of v and the distance. A window worth S shows that one whose u lies more than ``log(w / S) / g``
ranks from the median, w the width, is worth less: few candidates are left, and all pairs of them are tried.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spark_jobs.mechanisms.noise import Int64Array
from spark_jobs.mechanisms.smooth_sensitivity import best_window

FloatArray = NDArray[np.float64]
_PAIRS_AT_ONCE = 1 << 17
_PAIRS_AT_MOST = 1 << 20
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

    def __getitem__(self, chosen: NDArray[np.intp]) -> _Parts:
        return _Parts(**{name: values[chosen] for name, values in vars(self).items()})


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
    # how many occupied cells lie within reach on either side, the median's own counted on both
    left = parts.middle - np.maximum(np.searchsorted(line.last, low), np.searchsorted(line.place, parts.start)) + 1
    end = np.searchsorted(line.place, parts.start + parts.width)
    right = np.minimum(np.searchsorted(line.first, high, side="right"), end) - parts.middle
    order = np.argsort(left, kind="stable")
    best = np.empty(worth.size)
    at = 0
    while at < order.size:
        # similar parts together; as many as make a portion of pairs
        sizes = np.maximum.accumulate(left[order[at:]] + 1) * np.maximum.accumulate(right[order[at:]] + 1)
        many = sizes[0] > _PAIRS_AT_MOST
        count = 1 if many else max(1, int(np.searchsorted(sizes * np.arange(1, sizes.size + 1), _PAIRS_AT_ONCE)))
        chosen = order[at : at + count]
        if many:
            best[chosen] = _halving(line, parts[chosen], smoothness)
        else:
            best[chosen] = _all_pairs(line, parts[chosen], left[chosen], right[chosen], smoothness)
        at += count
    return np.maximum(best, worth)


def _halving(line: _Line, part: _Parts, smoothness: float) -> FloatArray:
    """The best window of one part with very many candidates; shape (1,)."""
    start, width, before, rows, rank, middle = (int(values[0]) for values in vars(part).values())
    first, end = np.searchsorted(line.place, [start, start + width])
    down, up = slice(first, middle + 1), slice(middle, end)
    found = best_window(
        np.append(0, line.place[down] - start),
        np.append(0, np.minimum(line.last[down] - before, rank)),
        np.append(line.place[up] - start, width),
        np.append(np.maximum(line.first[up] - before, rank), rows + 1),
        smoothness,
    )
    return np.array([found])


def _all_pairs(line: _Line, parts: _Parts, left: Int64Array, right: Int64Array, smoothness: float) -> FloatArray:
    """The best window of each part, by trying every u and v within reach, and the ends; shape (parts,)."""
    own = parts.rank + parts.before
    steps = np.arange(left.max())
    chosen = np.maximum(parts.middle[:, None] - steps, 0)
    lows = np.where(steps < left[:, None], line.place[chosen] - parts.start[:, None], 0)
    low_ranks = np.minimum(line.last[chosen], own[:, None]) - parts.before[:, None]
    low_ranks = np.where(steps < left[:, None], low_ranks, 0)
    lows, low_ranks = (np.pad(values, ((0, 0), (0, 1))) for values in (lows, low_ranks))
    steps = np.arange(right.max())
    chosen = np.minimum(parts.middle[:, None] + steps, line.place.size - 1)
    inside = steps < right[:, None]
    highs = np.where(inside, line.place[chosen] - parts.start[:, None], parts.width[:, None])
    high_ranks = np.maximum(line.first[chosen], own[:, None]) - parts.before[:, None]
    high_ranks = np.where(inside, high_ranks, parts.rows[:, None] + 1)
    highs = np.column_stack([highs, parts.width])
    high_ranks = np.column_stack([high_ranks, parts.rows + 1])
    weight_low = np.exp(-smoothness * (parts.rank[:, None] - low_ranks))
    weight_high = np.exp(-smoothness * (high_ranks - parts.rank[:, None] - 1))
    windows = highs[:, None, :] - lows[:, :, None].astype(np.float64)
    windows *= weight_low[:, :, None]
    windows *= weight_high[:, None, :]
    found: FloatArray = windows.reshape(windows.shape[0], -1).max(axis=1)
    return found


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
