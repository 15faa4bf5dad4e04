"""The sparse vector technique: which queries reach a threshold; queries below their threshold cost nothing.

Statistics and noise are integers. Shifting two-sided geometric noise by an integer costs the same as shifting Laplace
noise by that amount, so the proofs below apply to both; the noise is two-sided geometric throughout.

Variants without a cut-off, with no noise on the queries, or with query noise that ignores the cut-off (Lee and Clifton
2014; Stoddard et al. 2014; Chen et al. 2015; "generalised private threshold testing") are not differentially private
for any epsilon, and cannot be expressed here: the cut-off is finite and every answer has noise of its own.
``docs/explanation/mechanisms/sparse-vector.md`` shows what they disclose.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours, exact_decimal, exact_difference, share_of
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise

MAX_QUERIES = 1 << 22
"""A public limit, at which a search that never passes its threshold ends."""


@dataclass(frozen=True, kw_only=True)
class SparseVectorAnswers:
    """The answers of ``above_threshold``.

    Attributes:
        above: indices of the queries that passed, ascending; at most ``cutoff``. int64.
        answered: the number of answered queries; the last one passed if the cut-off was reached.
        values: noisy values of the queries that passed, int64; None if they were not requested.
    """

    above: Int64Array
    answered: int
    values: Int64Array | None


def above_threshold(
    queries: ArrayLike,
    *,
    thresholds: ArrayLike = 0,
    epsilon: Cost,
    noise: Noise,
    cutoff: int = 1,
    sensitivity: int = 1,
    monotone: bool = False,
    numeric_share: float = 0.0,
    numeric_sensitivity: int | None = None,
    meter: BudgetMeter | None = None,
) -> SparseVectorAnswers:
    """The queries that reach their thresholds, up to the ``cutoff``-th of them.

    With ``d_i = queries_i - thresholds_i``, one ``rho ~ Lap(S / e1)`` and fresh ``nu_i ~ Lap(2 c S / e2)``
    (``c S / e2`` if monotone), the answer is "above" iff ``d_i + nu_i >= rho``. Thresholds may depend on the data.

    Formal guarantee: ``epsilon``-DP, ``epsilon = e1 + e2 (+ e3)``, under the neighbouring relation for which
    ``|d_i(D) - d_i(D')| <= sensitivity`` for all i (the caller's duty; note that it is the sensitivity of the
    *difference*, not of query plus threshold: ``max(t, 1 - t)``, not ``1 + t``, for a count minus a share t of all
    rows). For counts of rows and public thresholds the sensitivity is 1 under both relations; they are monotone if a
    row is added or removed, but not if one is replaced.
    Proof (Lyu, Su, Li, VLDB 2017, theorems 2 and 4). Shift ``rho`` by S: every "below" factor of D' is then at least
    that of D, at a price of e^e1. Each of the at most c "above" factors is matched by shifting its own ``nu`` by 2 S,
    at e^(e2 / c). If all d_i move the same way, a shift of ``nu`` by S is enough: if they fall, ``rho`` stays and
    "above" lacks at most S; if they rise, ``rho`` moves by S and "above" again lacks at most S. The optimal split is
    ``e1 : e2 = 1 : (2c)^(2/3)``, or ``1 : c^(2/3)`` if monotone (ibid., section 4.2). Numeric answers are a separate
    release of at most c values with noise ``c S' / e3``: the ``nu`` are never reused.

    Args:
        queries: integers, shape (k,); private; k is public and at most ``MAX_QUERIES``.
        thresholds: integers, a scalar or shape (k,).
        epsilon: the total cost.
        noise: the source of noise; one call draws for all k queries, so that the running time does not reveal where the
            answers stop.
        cutoff: c, at least 1.
        sensitivity: S, at least 1; a statistic that is not an integer must first be rounded to a public step
            (``to_steps``).
        monotone: whether all d_i move in the same direction for every pair of neighbours.
        numeric_share: the share of epsilon, in [0, 1), for noisy values of the queries that pass.
        numeric_sensitivity: S', the sensitivity of a query itself, at least 1; required if ``numeric_share`` is above
            0, as thresholds that move with the queries can make S smaller than S'.
        meter: charged with the cost; None if the caller has already charged it.

    Raises:
        ValueError: a parameter is outside these bounds.
        TypeError: the queries or thresholds are not integers.
    """
    differences = _difference(_whole(queries, "queries"), _whole(thresholds, "thresholds"))
    if differences.ndim != 1 or differences.size > MAX_QUERIES:
        raise ValueError(f"queries: got shape {differences.shape}; must be one row of at most {MAX_QUERIES}")
    _require_positive(cutoff=cutoff, sensitivity=sensitivity)
    _check_numeric(numeric_share, numeric_sensitivity)
    total = exact_decimal(epsilon, what="epsilon")
    if meter is not None:
        meter.spend(total, label="sparse vector")
    numeric = share_of(total, Decimal(numeric_share)) if numeric_share else Decimal(0)
    first, second = optimal_split(exact_difference(total, numeric), cutoff=cutoff, monotone=monotone)
    factor = cutoff if monotone else 2 * cutoff
    threshold_noise = noise.laplace(np.zeros(1, np.int64), epsilon=first, l1_sensitivity=sensitivity)[0]
    noisy = noise.laplace(differences, epsilon=second, l1_sensitivity=factor * sensitivity)
    passing = np.flatnonzero(noisy >= threshold_noise)
    above = passing[:cutoff].astype(np.int64)
    answered = int(above[-1]) + 1 if above.size == cutoff else differences.size
    values = None
    if numeric_sensitivity is not None and numeric > 0:
        passed = np.broadcast_to(_whole(queries, "queries"), differences.shape)[above]
        values = noise.laplace(passed, epsilon=numeric, l1_sensitivity=cutoff * numeric_sensitivity)
    return SparseVectorAnswers(above=above, answered=answered, values=values)


def first_crossing(
    cells: ArrayLike, *, threshold: float, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> int | None:
    """The first of a sequence of nested counts that reaches a fixed threshold.

    ``cells`` are counts of *disjoint* sets; the queries are their running sums ``c_0 <= c_1 <= ...``, the counts of
    nested sets. The result is the first index i with ``c_i + Lap(1 / e2) >= threshold + Lap(1 / e1)``.

    Neighbours: one row added, removed or replaced. Cost: under ADD_REMOVE ``max(e1, e2)``, not the sum, so that both
    noises use epsilon; under REPLACE_ONE ``e1 + e2``, so that both use epsilon / 2.
    Proof. Let a row enter the counts from index j on. Outcomes that stop before j do not change. For those that stop at
    k >= j: *removing* the row, shift the threshold's noise by 1; earlier "below" factors only gain, those from j on and
    the final "above" match exactly: e^e1. *Adding* it, shift nothing; "below" factors fall and the final "above" costs
    e^e2. *Replacing* it is one removal and one addition: e^(e1 + e2). The argument needs nested sets and a threshold
    that does not depend on the data (any real number); it fails for other queries.

    Args:
        cells: integers, shape (k,), k public; the running sums are taken here, so that the sets are nested by
            construction.
        threshold: finite and independent of the data.
        epsilon: the total cost.
        neighbours: the neighbouring relation of the guarantee.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Returns:
        The index of the first crossing; None if none of the k queries crosses.

    Raises:
        ValueError: the threshold is not finite.
    """
    counts = np.cumsum(_whole(cells, "cells"))
    noisy, level = _nested_noise(counts, threshold, epsilon, neighbours, noise)
    passing = np.flatnonzero(noisy >= level)
    return int(passing[0]) if passing.size else None


def merge_cells(
    cells: ArrayLike, *, threshold: float, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> tuple[int, ...]:
    """Merge neighbouring disjoint cells, left to right, until each group's noisy count reaches a fixed threshold.

    ``first_crossing`` is applied repeatedly to the remaining cells, with fresh noise on threshold and counts. The cells
    that remain at the end join the last group; if no group ever reaches the threshold, there is one group.

    Neighbours and cost: as in ``first_crossing``, for all groups together, however many they are: ``max(e1, e2)`` under
    ADD_REMOVE, ``e1 + e2`` under REPLACE_ONE (Chen 2018, algorithm 14, whose proof does not show this).
    Proof. Given the groups before, each run of ``first_crossing`` reads only the cells after them, so an added or
    removed row affects only the runs of its own group. A replaced row lowers one group, at e^e1 at most, and raises
    one, at e^e2.

    Args:
        cells: integers, shape (k,), k at least 1 and public.
        threshold: finite and independent of the data.
        epsilon: the total cost.
        neighbours: the neighbouring relation of the guarantee.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Returns:
        The ends of the groups: strictly increasing exclusive upper indices, the last one k.

    Raises:
        ValueError: there are no cells, or the threshold is not finite.
    """
    remaining = _whole(cells, "cells")
    if remaining.ndim != 1 or remaining.size == 0:
        raise ValueError(f"cells: got shape {remaining.shape}; must be one row of at least 1")
    ends: list[int] = []
    start = 0
    while start < remaining.size:
        crossing = first_crossing(
            remaining[start:], threshold=threshold, epsilon=epsilon, neighbours=neighbours, noise=noise
        )
        if crossing is None:
            break
        start += crossing + 1
        ends.append(start)
    if not ends or ends[-1] != remaining.size:
        ends[-1:] = [remaining.size]
    return tuple(ends)


def optimal_split(epsilon: Cost, *, cutoff: int, monotone: bool) -> tuple[Decimal, Decimal]:
    """The parts of ``epsilon`` for threshold and queries that minimise the variance of their difference.

    Their ratio is ``1 : (2c)^(2/3)``, or ``1 : c^(2/3)`` if monotone (Lyu, Su, Li, VLDB 2017, section 4.2); they add up
    to epsilon exactly.

    Raises:
        ValueError: the cut-off is below 1.
    """
    _require_positive(cutoff=cutoff)
    total = exact_decimal(epsilon, what="epsilon")
    ratio = float(cutoff if monotone else 2 * cutoff) ** (2 / 3)
    first = share_of(total, Decimal(1 / (1 + ratio)))
    return first, exact_difference(total, first)


def to_steps(values: ArrayLike, *, sensitivity: float, step: float) -> tuple[Int64Array, int]:
    """Real values as multiples of a public step, and the integer sensitivity of the result.

    Rounding moves the value of each of two neighbours by at most half a step, so that a sensitivity S becomes at most
    ``S + step``, that is, ``floor(S / step) + 1`` steps.

    Raises:
        ValueError: step or sensitivity is not a finite number above 0.
    """
    if not (0 < step < math.inf and 0 < sensitivity < math.inf):
        raise ValueError(f"step, sensitivity: got {step}, {sensitivity}; must be finite and above 0")
    scaled = np.rint(np.asarray(values, dtype=np.float64) / step)
    limit = float(1 << 62)
    # the slack covers the rounding of the division, which could move a value over one more boundary
    units = math.floor(sensitivity / step * (1 + 1e-12)) + 1
    return np.clip(scaled, -limit, limit).astype(np.int64), units


def _nested_noise(
    counts: Int64Array, threshold: float, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> tuple[Int64Array, int]:
    if not math.isfinite(threshold):
        raise ValueError(f"threshold: got {threshold}; must be finite")
    # sensitivity 2 under REPLACE_ONE halves the epsilon of each of the two noises
    parts = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    # a whole number reaches the threshold if it reaches the next whole number; a sum of floats could be off by one, and
    # would then shift by 0 or 2 where the proof shifts by 1
    level = math.ceil(threshold) + int(noise.laplace(np.zeros(1, np.int64), epsilon=epsilon, l1_sensitivity=parts)[0])
    clipped = min(max(level, np.iinfo(np.int64).min), np.iinfo(np.int64).max)
    return noise.laplace(counts, epsilon=epsilon, l1_sensitivity=parts), clipped


def _whole(values: ArrayLike, what: str) -> Int64Array:
    array = np.asarray(values)
    if not np.can_cast(array.dtype, np.int64):
        raise TypeError(f"{what}: got {array.dtype}; must be integers; round to a public step with to_steps first")
    return array.astype(np.int64)


def _check_numeric(share: float, sensitivity: int | None) -> None:
    if not 0 <= share < 1:
        raise ValueError(f"numeric_share: got {share}; must be at least 0 and below 1")
    if share > 0:
        if sensitivity is None:
            raise ValueError("numeric_sensitivity: got None; must be given where numeric_share is above 0")
        _require_positive(numeric_sensitivity=sensitivity)


def _difference(queries: Int64Array, thresholds: Int64Array) -> Int64Array:
    # saturates: if a difference overflowed, one row would move it from one end of int64 to the other
    with np.errstate(over="ignore"):
        plain = queries - thresholds
    wrapped = ((queries ^ thresholds) & (queries ^ plain)) < 0
    ends = np.where(queries < 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
    return np.where(wrapped, ends, plain)


def _require_positive(**parameters: int) -> None:
    for name, value in parameters.items():
        if value < 1 or value != int(value):
            raise ValueError(f"{name}: got {value}; must be a whole number of at least 1")
