"""Private selection of a candidate, or of a point of an interval, by scores of small sensitivity.

Choices are exact: they use integer weights and random bits and no floating-point variates (``exact_choice``), so that
the guarantees are pure and apply to the program as it runs. "Neighbours" may be any relation under which every score
changes by at most ``l_inf_sensitivity``. The caller must ensure this bound; the relation enters only through it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.exact_choice import (
    MAX_CANDIDATES,
    MAX_POINTS,
    choose,
    choose_point,
    coins,
    exponential_rate,
    integer_weights,
    uniform_below,
)
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, Noise

MAX_STEPS = 1 << 40


def exponential_mechanism(
    scores: ArrayLike,
    *,
    epsilon: Cost,
    l_inf_sensitivity: float,
    noise: Noise,
    monotone: bool = False,
    meter: BudgetMeter | None = None,
) -> int:
    """An index, chosen with probability proportional to ``exp(epsilon * score / (2 l_inf_sensitivity))``.

    Formal guarantee: ``epsilon``-DP if every score changes by at most ``l_inf_sensitivity`` between neighbours. If
    monotone (all scores move in the same direction), the exponent is doubled at the same guarantee.
    Proof (McSherry, Talwar, FOCS 2007, theorem 6). A weight changes by a factor of at most ``e^(epsilon/2)``, and so
    does the sum of all weights, in the other direction; if all weights rise, only one of the two factors raises the
    probability. Rounding: the lemma of ``exact_choice``.

    Args:
        scores: shape (k,), integers or floats; k is public, from 1 to 2^22.
        epsilon: the total cost, at least 1e-20.
        l_inf_sensitivity: above 0.
        noise: source of the random bits (``SecureNoise`` in production).
        monotone: whether all scores move in the same direction for every pair of neighbours.
        meter: charged with the cost; None if the caller has already charged it.

    Raises:
        InvalidRequest: epsilon is too small.
        ValueError: another parameter is outside these bounds.
    """
    rate = exponential_rate(epsilon, l_inf_sensitivity, monotone=monotone)
    levels, weights = integer_weights(scores, rate)
    if meter is not None:
        meter.spend(epsilon, label="exponential mechanism")
    return choose(levels, weights, np.ones(levels.size, dtype=np.int64), noise)[0]


def permute_and_flip(
    scores: ArrayLike,
    *,
    epsilon: Cost,
    l_inf_sensitivity: float,
    noise: Noise,
    monotone: bool = False,
    meter: BudgetMeter | None = None,
) -> int:
    """An index: candidates in random order, each accepted with probability ``exp(-rate (max score - score))``.

    The first accepted candidate is chosen. This is a uniform choice among all candidates whose coins accept them, so
    that all coins are tossed at once. The best candidate is accepted with certainty.

    Formal guarantee, parameters and Raises: as in ``exponential_mechanism``. The expected score of the chosen candidate
    is never lower than there. The mechanism equals report-noisy-max with exponential noise (McKenna, Sheldon, NeurIPS
    2020, theorems 1 and 2; Ding, Kifer et al., 2021).
    Proof of the rounding. With ``p_j`` the acceptance probabilities, ``P(i) = p_i F``,
    ``F = integral over t in [0, 1] of prod_{j != i} (1 - t p_j)``. Both factors of the integrand fall in t, so by
    Chebyshev's inequality ``|d log F / d p_j| <= 2``: replacing every ``p_j`` by a number within 2^-191 of it changes
    ``P(i)`` by a factor of at most ``1 + 2^-150`` through F. Through ``p_i`` the lemma of ``exact_choice`` applies; its
    case ``x_i < x'_i`` needs only ``F / F' <= e^epsilon``, which follows from the ideal guarantee for a table in which
    candidate i also moves up by the sensitivity (or does not move, if all scores fall).
    """
    rate = exponential_rate(epsilon, l_inf_sensitivity, monotone=monotone)
    levels, weights = integer_weights(scores, rate)
    if meter is not None:
        meter.spend(epsilon, label="permute and flip")
    return _first_accepted(levels, weights, noise)


def permute_and_flip_runs(
    scores: ArrayLike, lengths: ArrayLike, *, epsilon: Cost, l_inf_sensitivity: float, noise: Noise
) -> int:
    """``permute_and_flip`` of candidates in runs of equal score: the same choice, from the same random words.

    Args:
        scores: the score of each run, left to right; shape (k,), integers or floats.
        lengths: the number of candidates in each run; at least 1, their sum public and at most 2^22; shape (k,).
        epsilon: the total cost.
        l_inf_sensitivity: the sensitivity of each candidate's score; above 0.
        noise: source of the random bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: epsilon is too small.
        ValueError: another parameter is outside these bounds.
    """
    length = np.asarray(lengths, dtype=np.int64)
    if length.size == 0 or length.min() < 1 or int(length.sum()) > MAX_CANDIDATES:
        raise ValueError(f"lengths: must be whole numbers of at least 1 that sum to {MAX_CANDIDATES} at most")
    levels, weights = integer_weights(scores, exponential_rate(epsilon, l_inf_sensitivity, monotone=False))
    return _first_accepted(np.repeat(levels, length), weights, noise)


def _first_accepted(levels: NDArray[np.intp], weights: list[int], noise: Noise) -> int:
    accepted = np.flatnonzero(coins(levels, weights, noise))
    return int(accepted[uniform_below(accepted.size, noise)])


def report_noisy_max(
    scores: ArrayLike,
    *,
    epsilon: Cost,
    l_inf_sensitivity: int,
    noise: Noise,
    monotone: bool = False,
    meter: BudgetMeter | None = None,
) -> int:
    """The index of the largest of integer scores with two-sided geometric noise; ties go to the lowest index.

    Formal guarantee: ``epsilon``-DP as for ``exponential_mechanism``, with noise of scale
    ``2 l_inf_sensitivity / epsilon``, or half of that if monotone. Only the index may be released.
    Proof (Dwork, Roth 2014, claim 3.9, for integers). Fix the noise of the others. Index i wins iff its noise reaches
    an integer that moves by at most ``2 l_inf_sensitivity`` (by ``l_inf_sensitivity`` if all move in the same
    direction), and a tail probability of two-sided geometric noise changes by at most ``e^(shift / scale)``. Ties enter
    only through that integer.

    Raises:
        TypeError: the scores are not integers.
        ValueError: there are no scores, or the sensitivity is below 1.
    """
    values = np.asarray(scores)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"scores: got shape {values.shape}; must be one row of at least 1")
    if meter is not None:
        meter.spend(epsilon, label="report noisy max")
    shift = l_inf_sensitivity * (1 if monotone else 2)
    return int(np.argmax(noise.laplace(values, epsilon=epsilon, l1_sensitivity=shift)))


def interval_exponential(
    scores: ArrayLike, lengths: ArrayLike, *, epsilon: Cost, l_inf_sensitivity: float, noise: Noise
) -> int:
    """A point of a line that is cut into intervals of constant score, by the exponential mechanism on its points.

    The line has ``sum(lengths)`` points, which is public; the positions of the cuts may be private. Formal guarantee:
    ``epsilon``-DP if the score at every *point* changes by at most ``l_inf_sensitivity`` between neighbours. Proof: it
    is ``exponential_mechanism`` with the points as candidates, where the points of one interval are drawn together.

    Args:
        scores: shape (k,), integers or floats.
        lengths: whole numbers of points, at least 0, shape (k,), their sum from 1 to 2^40.
        epsilon: the total cost.
        l_inf_sensitivity: above 0.
        noise: source of the random bits (``SecureNoise`` in production).

    Raises:
        InvalidRequest: epsilon is too small.
        ValueError: a parameter is outside these bounds.
    """
    length = np.asarray(lengths, dtype=np.int64)
    if length.size == 0 or length.min() < 0 or not 1 <= int(length.sum()) <= MAX_STEPS:
        raise ValueError(f"lengths: must be whole numbers of at least 0 that sum to 1 to {MAX_STEPS}")
    rate = exponential_rate(epsilon, l_inf_sensitivity, monotone=False)
    values, starts = np.asarray(scores), np.cumsum(length) - length
    if int(length.sum()) <= MAX_POINTS and np.can_cast(values.dtype, np.int64):
        at, offset = choose_point(values, length, rate, noise)
        return int(starts[at]) + offset
    kept = length > 0
    levels, weights = integer_weights(values[kept], rate)
    at, offset = choose(levels, weights, length[kept], noise)
    return int(starts[kept][at]) + offset


def median_by_exponential(
    values: ArrayLike,
    *,
    steps: int,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    changes: int = 1,
    widen: int = 0,
) -> int:
    """A point of the public grid ``0..steps-1`` near the median of ``values``.

    The score of a point y is ``-|2 #{values <= y} - N|``. Replacing one value changes this score by at most 2; adding
    or removing one changes it by at most 1. Formal guarantee: ``epsilon``-DP if one person replaces (``REPLACE_ONE``)
    or adds or removes (``ADD_REMOVE``) at most ``changes`` values. If a replaced row can also make a pairwise estimate
    appear or vanish, use ``REPLACE_ONE``, which covers both.

    Widened by ``widen`` steps (Alabi, McMillan, Sarathy, Smith, Vadhan, PoPETs 2022, "DPWide"): each point gets the
    best score within that distance, so that a median in an interval of length 0 can be selected. Values below the
    median move down by ``widen``, those above it move up, and the middle one of an odd number moves in both directions.
    The sensitivities do not change: the score is then the maximum, over the points z within the distance, of minus the
    distance of N from ``[2 #{< z}, 2 #{<= z}]``. A value that is added moves N by 1 and the ends of that range by 0 or
    2, so each distance by at most 1. (Counting intervals from the middle after the duplication would instead give 0, 1,
    2, ... for odd N, and twice the sensitivity.)

    Args:
        values: integers, shape (N,), N private and possibly 0; clipped to the grid.
        steps: the number of grid points; public, 1 to 2^40.
        epsilon: the total cost.
        neighbours: the neighbouring relation, for the values of one person.
        noise: source of the random bits (``SecureNoise`` in production).
        changes: the number of values that one person may change.
        widen: the distance in grid steps; public, at least 0.

    Raises:
        InvalidRequest: epsilon is too small.
        ValueError: a parameter is outside these bounds.
    """
    if not 1 <= steps <= MAX_STEPS or changes < 1 or widen < 0:
        raise ValueError(f"steps, changes, widen: got {steps}, {changes}, {widen}; must be 1 to 2^40, >= 1 and >= 0")
    scores, lengths = median_intervals(values, steps=steps, widen=widen)
    sensitivity = changes * (1 if neighbours is Neighbours.ADD_REMOVE else 2)
    return interval_exponential(scores, lengths, epsilon=epsilon, l_inf_sensitivity=sensitivity, noise=noise)


def median_intervals(values: ArrayLike, *, steps: int, widen: int = 0) -> tuple[Int64Array, Int64Array]:
    """The scores and lengths of the intervals of ``median_by_exponential``, left to right; private."""
    ordered = np.sort(np.clip(np.asarray(values, dtype=np.int64), 0, steps - 1))
    size = ordered.size
    scores = -np.abs(2 * np.arange(size + 1) - size)
    if widen:
        half = (size + 1) // 2
        # y has the score of rank i from the i-th value minus `widen` to the next value plus `widen`
        ordered = np.concatenate([ordered[:half] - widen, ordered[size - half :] + widen])
        if size % 2:
            scores = np.concatenate([scores[:half], [0], scores[half:]])
    cuts = np.concatenate([[0], np.clip(ordered, 0, steps), [steps]])
    return scores.astype(np.int64), np.diff(cuts)
