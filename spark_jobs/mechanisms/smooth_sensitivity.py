"""Smooth bounds of the sensitivity of medians, AUC and average precision, computed from counts, and their releases.

Every bound is valid for the stated neighbouring relation, is smooth with the given rate, and is private data, which
must not be released: only a statistic with noise is released (``continuous_noise``). For degenerate data
(no rows, one class) the statistics have defined values and get the same noise; no function returns early.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import PublicGrid, SmoothNoise
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise

UNIT_GRID = PublicGrid(lower=0, upper=1)
AP_ERROR = 1e-12
"""A bound on the numerical error of ``average_precision``; the smooth bound covers twice this error."""
SMALLEST_PART = 1e-9
_EULER = 0.57721566490153286
_LEVELS, _BLOCKS = 512, 64


def lower_median(cells: ArrayLike) -> float:
    """The cell of rank ``ceil(n / 2)``; the middle ``(k - 1) / 2`` of the grid if there are no rows."""
    counts = whole_counts(cells)
    total = int(counts.sum())
    if total == 0:
        return (counts.size - 1) / 2
    return int(np.searchsorted(np.cumsum(counts), (total + 1) // 2))


def median_bound(cells: ArrayLike, *, smoothness: float) -> float:
    """A smooth bound of ``lower_median``, in cells.

    ``S = max over j >= 0 of e^(-j smoothness) max over 0 <= t <= j + 1 of P[m + t] - P[m + t - j - 1]``, with the
    sorted values P, ``m = ceil(n / 2)``, the first cell at ranks below 1 and the last one at ranks above n.

    Neighbours: one row added, removed or replaced; the bound is valid for both relations (Nissim, Raskhodnikova, Smith
    2007, section 3.1, for the lower median; with the two middle values averaged it fails under replacement).
    Algorithm: the relevant windows end at occupied cells, ``u`` at or left of the median and ``v`` at or right of it,
    and the best ``v`` does not move left as ``u`` moves right, so that divide and conquer takes O(V log V) for V
    occupied cells.

    Args:
        cells: counts, shape (k,), k public and at least 1.
        smoothness: the rate, above 0.

    Raises:
        ValueError: the counts are not a one-dimensional array of whole numbers.
    """
    counts = whole_counts(cells)
    occupied = np.flatnonzero(counts)
    last = np.cumsum(counts[occupied])
    first = last - counts[occupied] + 1
    total = int(last[-1]) if last.size else 0
    rank = (total + 1) // 2
    left, right = first <= rank, last >= rank
    # beyond the data: rank 0 at the first cell, rank n + 1 at the last one
    lows = np.concatenate([[0], occupied[left]])
    low_ranks = np.concatenate([[0], np.minimum(last[left], rank)])
    highs = np.concatenate([occupied[right], [counts.size - 1]])
    high_ranks = np.concatenate([np.maximum(first[right], rank), [total + 1]])
    return _best_window(lows, low_ranks, highs, high_ranks, smoothness)


def pairwise_median_bound(values: ArrayLike, *, lower: int, upper: int, changes: int, smoothness: float) -> float:
    """A smooth bound of the lower median of estimates, if one person changes at most ``changes`` of them.

    ``S = max over l >= 0 of e^(-l smoothness) max over 0 <= t <= (l + 1) k of z[m + t] - z[m + t - (l + 1) k]``, k =
    ``changes``. The range of t is *inclusive*: without its last value, the logarithms of the bounds of two neighbours
    may differ by twice the rate, as in the code published with Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022).
    Values may be added, removed or replaced, so that estimates that exist for only one of two neighbours are covered.
    The bound is at least ``SMALLEST_PART`` of the range: this constant floor keeps the bound smooth and ends the scan
    after a public number of steps.

    Args:
        values: integers on a public grid, shape (N,); clipped to its ends, which are the values at ranks below 1 and
            above N.
        lower: the public lower end.
        upper: the public upper end.
        changes: k, at least 1.
        smoothness: the rate, above 0.

    Raises:
        ValueError: ``changes`` is below 1, or ``lower`` is not below ``upper``.
    """
    if changes < 1 or lower >= upper:
        raise ValueError(f"changes, ends: got {changes}, {lower}, {upper}; must be at least 1 and ascend")
    ordered = np.sort(np.clip(np.asarray(values, dtype=np.int64), lower, upper))
    rank, best = (ordered.size + 1) // 2, (upper - lower) * SMALLEST_PART

    def at(ranks: Int64Array) -> Int64Array:
        inside = np.clip(ranks - 1, 0, max(ordered.size - 1, 0))
        inner = ordered[inside] if ordered.size else np.zeros_like(ranks)
        return np.where(ranks < 1, lower, np.where(ranks > ordered.size, upper, inner))

    # a window wider than all values together gives no larger bound than one of all values
    for first in range(0, ordered.size // changes + 1, _LEVELS):
        if math.exp(-first * smoothness) * (upper - lower) <= best:
            break
        steps = np.arange(first, min(first + _LEVELS, ordered.size // changes + 1))
        decay, width = np.exp(-steps * smoothness), (steps + 1) * changes
        # some windows of each width give a lower bound on the best one, and blocks of the others give upper bounds
        knots = width[:, None] * np.arange(_BLOCKS + 1) // _BLOCKS
        high, low = at(rank + knots), at(rank + knots - width[:, None])
        best = max(best, float((decay[:, None] * (high - low)).max()))
        ceilings = decay[:, None] * (high[:, 1:] - low[:, :-1])
        for step, block in np.argwhere(ceilings > best).tolist():
            if ceilings[step, block] > best:
                ends = rank + np.arange(knots[step, block], knots[step, block + 1] + 1)
                best = max(best, float(decay[step]) * float((at(ends) - at(ends - width[step])).max()))
    return best


def auc_fraction(negatives: ArrayLike, positives: ArrayLike) -> Fraction:
    """The exact area under the ROC curve, where ties count half; 1/2 if a class is empty.

    Args:
        negatives: counts per score cell, ascending scores, shape (k,).
        positives: likewise for label 1.
    """
    negative, positive = whole_counts(negatives), whole_counts(positives)
    pairs = int(negative.sum()) * int(positive.sum())
    if pairs == 0:
        return Fraction(1, 2)
    below = 2 * np.cumsum(negative) - negative
    occupied = np.flatnonzero(positive)
    wins = sum(b * p for b, p in zip(below[occupied].tolist(), positive[occupied].tolist(), strict=True))
    return Fraction(wins, 2 * pairs)


def auc_bound(negatives: int, positives: int, *, neighbours: Neighbours, smoothness: float) -> float:
    """A smooth bound of ``auc_fraction`` from the sizes of the classes, in closed form.

    With ``M = min(negatives, positives)`` the local sensitivity is ``1 / M`` (REPLACE_ONE) or ``1 / max(M, 2)``
    (ADD_REMOVE); at M = 0 it is 1/2 for both (Boyd, Lantz, Page, 2015, theorem 3, for any kernel with values in [0,
    1]). Its logarithm is convex in M, so the smooth maximum over the classes a table can reach lies at an end:
    ``max(1 / M, e^(-s (M - 1)))``, or ``max(1 / max(M, 2), e^(-s max(M - 2, 0)) / 2)``.
    """
    smaller = min(negatives, positives)
    if neighbours is Neighbours.ADD_REMOVE:
        return max(1 / max(smaller, 2), 0.5 * math.exp(-smoothness * max(smaller - 2, 0)))
    if smaller == 0:
        return max(0.5, math.exp(-smoothness))
    return max(1 / smaller, math.exp(-smoothness * (smaller - 1)))


def average_precision(negatives: ArrayLike, positives: ArrayLike) -> float:
    """The mean precision over positives, from the highest score down, tied negatives first; 0 without positives.

    The result is within ``AP_ERROR`` of the exact value: the p positives of a cell, after t others and F negatives,
    contribute ``p - F (H(t + p + F) - H(t + F))``, whose harmonic difference is evaluated without cancellation.

    Args:
        negatives: counts per score cell, ascending scores, shape (k,).
        positives: likewise for label 1.
    """
    negative, positive = whole_counts(negatives)[::-1], whole_counts(positives)[::-1]
    total = int(positive.sum())
    if total == 0:
        return 0.0
    occupied = np.flatnonzero(positive)
    gained = positive[occupied].astype(np.float64)
    false = np.cumsum(negative)[occupied].astype(np.float64)
    before = np.cumsum(positive)[occupied] - gained + false
    return math.fsum((gained - false * _harmonic_difference(before, gained)).tolist()) / total


def average_precision_local(positives: ArrayLike, *, neighbours: Neighbours) -> FloatArray:
    """The exact local sensitivity of average precision with n positives, for any number of negatives.

    REPLACE_ONE: ``max((H_n - 1) / (n - 1), (1 + sum_{0 < i < n} 1 / (4 i + 2)) / n)``, 1 for n <= 1. ADD_REMOVE:
    ``(H_{n+1} - 1) / n`` for n >= 3, 1/2 for n = 2, 1 for n <= 1. Equations 10 and 33 of Boyd, Lantz, Page (2015) are
    valid but two to four times larger.
    """
    n = np.asarray(positives, dtype=np.float64)
    safe = np.maximum(n, 2)
    if neighbours is Neighbours.ADD_REMOVE:
        local = np.where(n == 2, 0.5, (_harmonic(safe + 1) - 1) / safe)
    else:
        odd = _harmonic(2 * safe) - _harmonic(safe) / 2 - 1
        local = np.maximum((_harmonic(safe) - 1) / (safe - 1), (1 + odd / 2) / safe)
    return np.asarray(np.where(n <= 1, 1.0, np.minimum(local, 1.0)), dtype=np.float64)


def average_precision_bound(positives: int, *, neighbours: Neighbours, smoothness: float) -> float:
    """A smooth bound: ``max over i <= n of local(i) e^(-smoothness (n - i))``, plus twice ``AP_ERROR``.

    A neighbour has at most one positive more or fewer, and ``local`` falls with n, so that the maximum is never at more
    positives. The scan ends where the factor is below ``local(n)``, as ``local <= 1``.
    """
    own = float(average_precision_local(positives, neighbours=neighbours))
    reach = min(positives, math.ceil(-math.log(own) / smoothness) + 1)
    fewer = np.arange(reach + 1)
    local = average_precision_local(positives - fewer, neighbours=neighbours)
    return float((local * np.exp(-smoothness * fewer)).max()) + 2 * AP_ERROR


def release_auc(
    negatives: ArrayLike,
    positives: ArrayLike,
    *,
    shape: SmoothNoise,
    neighbours: Neighbours,
    noise: Noise,
    meter: BudgetMeter | None = None,
) -> float:
    """A private AUC in [0, 1].

    Formal guarantee: ``(shape.epsilon, shape.delta + RESIDUAL_DELTA)``-DP under ``neighbours``, by ``auc_bound``.

    Args:
        negatives: counts per score cell, ascending scores, shape (k,); ``ScoreCounts.negatives``.
        positives: likewise for label 1.
        shape: ``continuous_noise.polynomial_noise(epsilon)``, or another density of that module.
        neighbours: one row added or removed, or one replaced.
        noise: source of the random bits (``SecureNoise`` in production).
        meter: charged with the cost; None if the caller has already charged it.
    """
    sizes = int(whole_counts(negatives).sum()), int(whole_counts(positives).sum())
    bound = auc_bound(*sizes, neighbours=neighbours, smoothness=shape.smoothness)
    exact = auc_fraction(negatives, positives)
    with localcontext(prec=60):
        value = Decimal(exact.numerator) / exact.denominator
    return float(shape.release(value, bound, grid=UNIT_GRID, noise=noise, meter=meter, label="AUC")[0])


def release_average_precision(
    negatives: ArrayLike,
    positives: ArrayLike,
    *,
    shape: SmoothNoise,
    neighbours: Neighbours,
    noise: Noise,
    meter: BudgetMeter | None = None,
) -> float:
    """A private average precision in [0, 1]; guarantee and parameters as in ``release_auc``."""
    count = int(whole_counts(positives).sum())
    bound = average_precision_bound(count, neighbours=neighbours, smoothness=shape.smoothness)
    value = Decimal(average_precision(negatives, positives))
    released = shape.release(value, bound, grid=UNIT_GRID, noise=noise, meter=meter, label="average precision")
    return float(released[0])


def release_median(cells: ArrayLike, *, shape: SmoothNoise, noise: Noise, meter: BudgetMeter | None = None) -> float:
    """A private lower median in cells, a multiple of 1/16 from 0 to k - 1.

    Formal guarantee: as in ``release_auc``, under either relation, by ``median_bound``.
    """
    counts = whole_counts(cells)
    grid = PublicGrid(lower=0, upper=max(counts.size - 1, 1), steps=16 * max(counts.size - 1, 1))
    bound = median_bound(counts, smoothness=shape.smoothness)
    value = Decimal(lower_median(counts))
    return float(shape.release(value, bound, grid=grid, noise=noise, meter=meter, label="median")[0])


def _best_window(
    lows: Int64Array, low_ranks: Int64Array, highs: Int64Array, high_ranks: Int64Array, smoothness: float
) -> float:
    best = 0.0
    waiting = [(0, lows.size, 0, highs.size)]
    while waiting:
        start, end, first, last = waiting.pop()
        if start >= end:
            continue
        middle = (start + end) // 2
        missing = np.maximum(high_ranks[first:last] - low_ranks[middle] - 1, 0)
        windows = (highs[first:last] - lows[middle]) * np.exp(-smoothness * missing)
        at = int(np.argmax(windows))
        best = max(best, float(windows[at]))
        waiting += [(start, middle, first, first + at + 1), (middle + 1, end, first + at, last)]
    return best


def _harmonic(n: FloatArray) -> FloatArray:
    table = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, 64))])
    large = np.maximum(n, 32.0)
    series = np.log(large) + _EULER + 1 / (2 * large) - 1 / (12 * large**2) + 1 / (120 * large**4)
    values = np.where(n < 64, table[np.minimum(n, 63).astype(np.int64)], series - 1 / (252 * large**6))
    return np.asarray(values, dtype=np.float64)


def _harmonic_difference(start: FloatArray, steps: FloatArray) -> FloatArray:
    """``H(start + steps) - H(start)``, accurate up to a few roundings."""
    low = np.maximum(start, 63.0)
    high = np.maximum(start + steps, 63.0)
    # small arguments are raised to 63 term by term
    table = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, 64))])
    climb = table[np.minimum(start + steps, 63).astype(np.int64)] - table[np.minimum(start, 63).astype(np.int64)]
    span = high - low
    ratio = span / (low * high)
    inverse = 1 / low + 1 / high
    squares = 1 / low**2 + 1 / high**2
    # with d = 1/low - 1/high = ratio: differences of 1/x, 1/x^2 and 1/x^4 factor through it
    tail = -ratio / 2 + ratio * inverse / 12 - ratio * inverse * squares / 120
    sixth = ratio * inverse * (1 / low**4 + 1 / (low * high) ** 2 + 1 / high**4) / 252
    return np.asarray(climb + np.log1p(span / low) + tail + sixth, dtype=np.float64)


def whole_counts(cells: ArrayLike) -> Int64Array:
    """``cells`` as int64.

    Raises:
        ValueError: they are not a one-dimensional, nonempty array of whole numbers.
    """
    counts = np.asarray(cells)
    if counts.ndim != 1 or counts.size == 0 or not np.can_cast(counts.dtype, np.int64):
        raise ValueError(f"cells: got shape {counts.shape} of {counts.dtype}; must be one row of whole numbers")
    return counts.astype(np.int64)
