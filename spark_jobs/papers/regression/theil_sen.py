"""Lines from medians over pairs of points: DP Theil-Sen of Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022).

Rows are paired by k matchings of a random order, each pair defines the line through its points, and the height of these
lines at a public x is estimated by a private median. The estimate is robust: one row is in at most k pairs.

Sensitivity. ``REPLACE_ONE``, n public: given the same order, the estimates of neighbours differ in at most
``min(k, n - 1)`` values, as a row is in at most one pair of a matching and each pair is in one matching. The order is
secret, drawn afresh for each release, and uniform whatever the rows are. By this coupling, a median that is private for
a change of ``min(k, n - 1)`` values is as private for a change of one row (Alabi et al., appendix D, lemma 1). For the
same reason the order in which rows are passed in, or counted cells are expanded, does not matter. A fixed or published
order of sorted rows is not private: a change of one row shifts all rows after it.

A pair of points with the same x gives no estimate, and neither does a pair with a row that lacks a value. So a changed
row may also make estimates appear or vanish. All three private medians allow for this: the score ``-|2 #{<= y} - N|``
changes by at most 1 for a value that is added or removed and by 2 for one that is replaced, and the smooth bound covers
all three cases. Without any pair the exponential mechanism is uniform, and the noisy median is the middle plus noise.

Under ``ADD_REMOVE`` an additional row changes the matching itself; the mechanism is not defined.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal, share
from spark_jobs.mechanisms.continuous_noise import Density, SmoothNoise, student_t_noise
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.pure_release import MAX_EPSILON, pure_noise, release_pure
from spark_jobs.mechanisms.selection import median_by_exponential
from spark_jobs.mechanisms.smooth_sensitivity import pairwise_median_bound
from spark_jobs.papers.regression.matchings import matched, random_order, rounds_of

STEPS = 1 << 20
"""The number of points of the public grid of released heights."""
AT = (0.25, 0.75)
LOWER, UPPER = -0.5, 1.5
WIDEN = 0.01


class Median(StrEnum):
    """The method by which the private median of the estimates is released.

    ``EXPONENTIAL``: the exponential mechanism (DPExpTheilSen). ``WIDE``: the same with the best score within a public
    distance (DPWideTheilSen), for estimates that nearly agree. ``SMOOTH``: noise that is scaled by a smooth bound
    (DPSSTheilSen).
    """

    EXPONENTIAL = "exp"
    WIDE = "wide"
    SMOOTH = "smooth"


def theil_sen(
    x: ArrayLike,
    y: ArrayLike,
    *,
    steps: int,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    method: Median | str = Median.EXPONENTIAL,
    usable: ArrayLike | None = None,
    at: tuple[float, ...] = AT,
    matchings: int | None = 10,
    lower: float = LOWER,
    upper: float = UPPER,
    widen: float = WIDEN,
    density: Density = Density.POLYNOMIAL,
) -> FloatArray:
    """The heights of a line through the rows at the public x in ``at``; ``epsilon``-DP under ``REPLACE_ONE``.

    Each height costs ``e = epsilon / len(at)``. With k the number of values that a row may change, ``EXPONENTIAL`` and
    ``WIDE`` have weights ``exp(-(e / 4 k) |2 #{<= y} - N|)`` over a public grid, by
    ``selection.median_by_exponential``. ``SMOOTH`` adds noise to the lower median, scaled by
    ``smooth_sensitivity.pairwise_median_bound``. It uses the whole of e, as that bound accounts for k, but spends at
    most 10 per height: the privacy of the density is proven for an epsilon up to 10. The guarantee is pure, except that
    ``Density.STUDENT_T`` costs ``continuous_noise.RESIDUAL_DELTA`` per height in addition.

    Args:
        x: whole numbers from 0 to ``steps``, which represent ``x / steps`` in [0, 1]; shape (n,), n public.
        y: likewise.
        steps: the number of grid steps from 0 to 1; public.
        epsilon: the cost of the release.
        neighbours: ``REPLACE_ONE``.
        noise: source of the random bits, including those of the order of rows (``SecureNoise`` in production).
        method: the private median.
        usable: whether each row has both values, shape (n,), None if all have; others keep their place in the pairs.
        at: the x at which heights are estimated, in [0, 1]; public.
        matchings: k, at most the number of matchings; None stands for all pairs.
        lower: the public lower end of released heights, where the box is [0, 1]; estimates are clipped to it.
        upper: the public upper end.
        widen: for ``WIDE``, the distance within which a point gets the best score of any point, in units in which the
            box is [0, 1].
        density: for ``SMOOTH``, the density of the noise.

    Returns:
        Points of a public grid from ``lower`` to ``upper`` of ``2^20`` points (``SMOOTH``: 2^30); shape (len(at),).

    Raises:
        InvalidRequest: the relation is ``ADD_REMOVE``, the budget is too small, ``matchings`` is below 1, ``lower`` is
            not below ``upper``, ``widen`` is below 0, an x is outside [0, 1], or the method is unknown.
        ValueError: the rows are not whole numbers, or the arrays differ in length.
    """
    _check(neighbours, at, matchings, lower, upper, widen)
    how = _median(method)
    u, v = _rows(x, steps), _rows(y, steps)
    kept = np.ones(u.size, dtype=bool) if usable is None else np.asarray(usable, dtype=bool)
    if not u.shape == v.shape == kept.shape:
        raise ValueError(f"rows: got shapes {u.shape}, {v.shape}, {kept.shape}; must be equal")
    height_epsilon = share(exact_decimal(epsilon, what="epsilon"), len(at))
    shape = _density(min(height_epsilon, MAX_EPSILON), density) if how is Median.SMOOTH else None
    rounds, order = rounds_of(u.size, matchings), random_order(u.size, noise)
    points = pair_estimates(
        u[order], v[order], kept[order], steps=steps, at=at, rounds=rounds, lower=lower, upper=upper
    )
    changes = max(min(rounds, u.size - 1), 1)
    reach = round(widen / (upper - lower) * (STEPS - 1)) if how is Median.WIDE else 0
    released = [
        _noisy(estimates, changes, noise, shape=shape, epsilon=height_epsilon, neighbours=neighbours, widen=reach)
        for estimates in points
    ]
    return lower + (upper - lower) * np.array(released)


def pair_estimates(
    x: Int64Array,
    y: Int64Array,
    usable: BoolArray,
    *,
    steps: int,
    at: tuple[float, ...],
    rounds: int,
    lower: float,
    upper: float,
) -> list[NDArray[np.int32]]:
    """The estimates of the pairs for the height at each x of ``at``, as points of the public grid; private.

    Each estimate is a function of only the two rows of its pair. The number of estimates is private too.

    Args:
        x: the x of the rows, which are in random order; shape (n,).
        y: the y of the same rows.
        usable: whether each row has both values.
        steps: the number of steps of the grid of x and y from 0 to 1.
        at: the x in [0, 1].
        rounds: the number of matchings.
        lower: the lower end of the grid of heights.
        upper: the upper end of the grid of heights.

    Returns:
        For each x, one array of points from 0 to ``STEPS - 1``.
    """
    places = x.astype(np.float64), y.astype(np.float64)
    per_unit = (STEPS - 1) / (upper - lower)
    heights: list[list[NDArray[np.int32]]] = [[] for _ in at]
    everything = bool(usable.all())
    for left, right in matched(x.size, rounds):
        start, rise = places[0][left], places[1][left]
        run = places[0][right] - start
        sloped = run != 0 if everything else (run != 0) & usable[left] & usable[right]
        if not sloped.all():
            left, right, start, rise, run = left[sloped], right[sloped], start[sloped], rise[sloped], run[sloped]
        slope = (places[1][right] - rise) / run
        for place, points in zip(at, heights, strict=True):
            height = (slope * (place * steps - start) + rise) / steps
            point = np.clip((height - lower) * per_unit, 0, STEPS - 1)
            points.append(np.rint(point).astype(np.int32))
    return [np.concatenate(points) if points else np.zeros(0, dtype=np.int32) for points in heights]


def _noisy(
    estimates: NDArray[np.int32],
    changes: int,
    noise: Noise,
    *,
    shape: SmoothNoise | None,
    epsilon: Decimal,
    neighbours: Neighbours,
    widen: int,
) -> float:
    """A private median, as a position on the grid from 0 to 1."""
    if shape is None:
        point = median_by_exponential(
            estimates,
            steps=STEPS,
            epsilon=epsilon,
            neighbours=neighbours,
            noise=noise,
            changes=changes,
            widen=widen,
        )
        return point / (STEPS - 1)
    bound = pairwise_median_bound(estimates, lower=0, upper=STEPS - 1, changes=changes, smoothness=shape.smoothness)
    rank = (estimates.size + 1) // 2
    doubled = 2 * int(np.partition(estimates, rank - 1)[rank - 1]) if rank else STEPS - 1
    return release_pure(Decimal(doubled) / (2 * (STEPS - 1)), bound / (STEPS - 1), shape=shape, noise=noise)


def _density(epsilon: Decimal, density: Density) -> SmoothNoise:
    return student_t_noise(epsilon) if density is Density.STUDENT_T else pure_noise(epsilon, density)


def _rows(values: ArrayLike, steps: int) -> Int64Array:
    rows = np.asarray(values)
    if rows.ndim != 1 or not (np.can_cast(rows.dtype, np.int64) or rows.size == 0):
        raise ValueError(f"rows: got shape {rows.shape} of {rows.dtype}; must be one row of whole numbers")
    return np.clip(rows.astype(np.int64), 0, steps)


def _median(method: Median | str) -> Median:
    try:
        return Median(method)
    except ValueError:
        known = ", ".join(Median)
        raise InvalidRequest("method", method, f"must be one of {known}", "choose one") from None


def _check(
    neighbours: Neighbours, at: tuple[float, ...], matchings: int | None, lower: float, upper: float, widen: float
) -> None:
    if neighbours is not Neighbours.REPLACE_ONE:
        raise InvalidRequest(
            "neighbours", neighbours,
            f"must be {Neighbours.REPLACE_ONE} for Theil-Sen: adding or removing a row changes which rows "
            "are paired",
            f"declare the size of every group public and use {Neighbours.REPLACE_ONE}, or use noisy_stats",
        )  # fmt: skip
    if not at or not all(0 <= place <= 1 for place in at):
        raise InvalidRequest("at", at, "must be from 0 to 1", "give e.g. [0.25, 0.75]")
    if matchings is not None and matchings < 1:
        raise InvalidRequest("matchings", matchings, "must be at least 1", "give e.g. 10")
    if not -1e6 <= lower < upper <= 1e6:
        raise InvalidRequest(
            "lower, upper", f"{lower} to {upper}", "must be finite, lower below upper",
            "give public ends of the heights, e.g. -0.5 and 1.5",
        )  # fmt: skip
    if not 0 <= widen < upper - lower:
        raise InvalidRequest("widen", widen, "must be at least 0 and below the range", "give e.g. 0.01")
