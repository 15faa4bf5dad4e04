"""A count released at every step of a stream: Laplace noise with all of epsilon, then a causal filter of noisy counts.

Mechanism: ``y_t = c_t + noise``, two-sided geometric noise of scale ``1 / epsilon`` under ADD_REMOVE and ``2 /
epsilon`` under REPLACE_ONE. Neighbours: one row, which is one event, added or removed, or moved to another step or
state. Cost: ``epsilon`` for a stream of any length. Proof: steps and states are disjoint, so an added or removed row
changes one count by one, and a moved row changes two counts by one each. Estimates and bands are functions of the noisy
counts alone: post-processing, free. A person with k events has a loss of k epsilon.

Estimates and their error variances are those of ``level_filter``; bands are normal quantiles for these variances. If an
estimate rests mostly on the noisy count of its own step, the half width of its band is at least the noise's quantile (a
whole number) at the band's level.

Hierarchy: the noisy count of a group is the sum of those of its states, so that a hierarchy costs what its states cost,
however many levels it has. The noisy counts of each node are filtered by themselves, with the variance of the summed
noise of its states: a sum over many states shows changes that are too small to be visible in a single state. Estimates
are the counts nearest to the filtered ones, in the sum of squares over all nodes, that are not negative and add up
(``consistency``; unweighted reconciliation of Hyndman, Ahmed, Athanasopoulos, Shang, Computational Statistics and Data
Analysis 2011). At every step the sum of their squared errors over all nodes is at most that of the filtered counts,
whatever the counts do: counts that add up and are not negative form a convex set, which contains the exact counts, and
projecting onto a convex set brings a point no farther from any point of the set. Bands are those of the filtered
counts, widened where needed to contain the estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options.streams import MAX_SEASON
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.consistency import consistent_counts
from spark_jobs.mechanisms.streams.level_filter import FilteredCounts, LocalLevelState, filtered_counts
from spark_jobs.mechanisms.streams.parameters import MAX_COUNT, require_epsilon, require_number

NEARLY_NORMAL = 20.0
"""Noise with a larger standard deviation has so many likely values that a normal band holds as often as it says."""
LONGEST = 1024
"""Whole numbers over which the law of smaller noise is computed."""


@dataclass(frozen=True, kw_only=True)
class LocalLevelShape:
    """The public facts of a stream.

    Attributes:
        epsilon: the cost of the whole stream.
        neighbours: the relation.
        season: the number of steps of a season, such as 24 for hours of a day; 0 for none.
        confidence: the nominal level of the bands.
        spendings: the cost of the whole stream; derived from the other attributes.

    Raises:
        InvalidRequest: a parameter is out of its bounds.
    """

    epsilon: Cost
    neighbours: Neighbours
    season: int = 0
    confidence: float = 0.9
    spendings: tuple[Spending, ...] = field(init=False)

    def __post_init__(self) -> None:
        total = exact_decimal(self.epsilon, what="epsilon")
        require_epsilon(total, total, "counts")
        require_number("season", self.season, 0, MAX_SEASON, whole=True)
        require_number("confidence", self.confidence, 0.5, 0.999)
        meter = BudgetMeter(total)
        meter.spend_rest(label="counts of steps")
        object.__setattr__(self, "spendings", meter.spendings)

    @property
    def counting(self) -> Decimal:
        """The epsilon of the counts."""
        return self.spendings[0].epsilon

    @property
    def variance(self) -> float:
        """The variance of the noise of a count."""
        return laplace_variance(self._scale)

    def reaches(self, terms: Int64Array | int = 1) -> FloatArray:
        """The smallest whole number that the absolute noise exceeds with a probability of at most ``1 - confidence``.

        The noise is that of a sum of ``terms`` counts; 0 where this is nearly normal, so that normal bands need no
        correction.
        """
        numbers, place = np.unique(np.atleast_1d(terms), return_inverse=True)
        reaches = [_reach(math.exp(-1.0 / self._scale), int(number), self.confidence) for number in numbers]
        return np.array(reaches)[place]

    @property
    def _scale(self) -> float:
        return laplace_scale(self.counting, rows_changed(self.neighbours))


@dataclass(frozen=True, kw_only=True, eq=False)
class LocalLevelSteps:
    """The released values of some steps.

    Attributes:
        first: the index of the first of these steps in the stream, from 0.
        noisy: unbiased noisy counts, shape (n,), or (n, streams) for several streams; sums over windows are sums of
            these.
        estimates: estimates of the counts, at least 0, of the same shape. An estimate that rests mostly on the step's
            own noisy count is a whole number; in a hierarchy, estimates are not rounded, so that they add up.
        lower, upper: ends of the bands for the exact counts, at least 0, of the same shape.
    """

    first: int
    noisy: Int64Array
    estimates: FloatArray
    lower: FloatArray
    upper: FloatArray

    @classmethod
    def of(
        cls,
        first: int,
        noisy: Int64Array,
        filtered: FilteredCounts,
        estimates: FloatArray,
        *,
        shape: LocalLevelShape,
        terms: Int64Array | int = 1,
    ) -> Self:
        """The steps with these estimates, and bands around the filtered counts that contain the estimates."""
        half = float(ndtri((1 + shape.confidence) / 2)) * np.sqrt(filtered.variances)
        whole = _whole(filtered.gains)
        half = np.where(whole, np.maximum(half, shape.reaches(terms)), half)
        centres = np.where(whole, np.rint(filtered.centres), filtered.centres)
        return cls(
            first=first,
            noisy=noisy,
            estimates=estimates,
            lower=np.minimum(np.maximum(centres - half, 0.0), estimates),
            upper=np.maximum(np.maximum(centres, 0.0) + half, estimates),
        )


def _reach(a: float, terms: int, confidence: float) -> float:
    """The reach of a sum of noises with probabilities in proportion to ``a^|k|``.

    The probabilities of the sum are the Fourier coefficients of a power of one noise's characteristic function
    ``(1 - a)^2 / (1 - 2 a cos w + a^2)``.
    """
    stddev = math.sqrt(2.0 * a * terms) / (1.0 - a) if a < 1 else math.inf
    if stddev > NEARLY_NORMAL:
        return 0.0
    angles = 2.0 * np.pi * np.arange(LONGEST) / LONGEST
    law = np.fft.ifft(((1.0 - a) ** 2 / (1.0 - 2.0 * a * np.cos(angles) + a * a)) ** terms).real
    within = law[0] + 2.0 * np.concatenate([[0.0], np.cumsum(law[1 : LONGEST // 2])])
    return float(np.argmax(within >= confidence - 1e-9))


def release_filtered_steps(
    state: LocalLevelState, counts: Int64Array, *, shape: LocalLevelShape, noise: Noise
) -> tuple[LocalLevelState, LocalLevelSteps]:
    """Release estimates with bands of the next steps; all steps of a stream together cost ``epsilon`` once.

    Args:
        state: the state after the previous step; ``LocalLevelState()`` at first.
        counts: the number of rows of each step, whole numbers, shape (n,); private, clipped to [0, 2^40].
        shape: the public facts, the same at every step.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """
    exact = np.clip(counts.astype(np.int64), 0, MAX_COUNT)
    noisy = noise.laplace(exact, epsilon=shape.counting, l1_sensitivity=rows_changed(shape.neighbours))
    return filter_steps(state, noisy, shape=shape)


def filter_steps(
    state: LocalLevelState, noisy: Int64Array, *, shape: LocalLevelShape
) -> tuple[LocalLevelState, LocalLevelSteps]:
    """The part of ``release_filtered_steps`` after its noise: post-processing of noisy counts, shape (n,).

    Dividing a stream into other calls does not change the result.
    """
    after, steps = filter_streams(state, noisy[:, None], shape=shape)
    estimates, lower, upper = (ends[:, 0] for ends in (steps.estimates, steps.lower, steps.upper))
    return after, LocalLevelSteps(first=steps.first, noisy=noisy, estimates=estimates, lower=lower, upper=upper)


def filter_streams(
    state: LocalLevelState, noisy: Int64Array, *, shape: LocalLevelShape
) -> tuple[LocalLevelState, LocalLevelSteps]:
    """``filter_steps`` of several streams in one pass over the steps; all arrays have shape (n, streams).

    Args:
        state: the state of the streams after the previous call.
        noisy: noisy counts, shape (n, streams).
        shape: the public facts of all streams.

    Raises:
        ValueError: there is not one column of the state for each stream.
    """
    after, filtered = filtered_counts(state, noisy, variance=shape.variance, season=int(shape.season))
    estimates = np.maximum(np.where(_whole(filtered.gains), np.rint(filtered.centres), filtered.centres), 0.0)
    return after, LocalLevelSteps.of(state.step, noisy, filtered, estimates, shape=shape)


def _whole(gains: FloatArray) -> NDArray[np.bool_]:
    """Where it shows that a count is a whole number: an estimate rests mostly on the step's own noisy count."""
    return gains > 0.5


def filter_hierarchy(
    state: LocalLevelState, noisy: Int64Array, *, shape: LocalLevelShape, hierarchy: Hierarchy
) -> tuple[LocalLevelState, LocalLevelSteps]:
    """Estimates of all nodes of a hierarchy that add up, from the noisy counts of its states; see the module.

    Args:
        state: the state of all nodes, level by level from the root; ``LocalLevelState.start(nodes)`` at first.
        noisy: noisy counts of the states, shape (n, states).
        shape: the public facts of the states' streams.
        hierarchy: the levels over the states; the columns of ``noisy`` are in its order.

    Raises:
        ValueError: there is not one noisy count for each state, or not one column of the state for each node.
    """
    states = hierarchy.order.size
    if noisy.shape[1:] != (states,) or not np.array_equal(hierarchy.order, np.arange(states)):
        raise ValueError(f"noisy: got shape {noisy.shape}; must have a column for each state, in the hierarchy's order")
    sums, terms = hierarchy.all_sums(noisy), hierarchy.cells_below
    after, filtered = filtered_counts(state, sums, variance=shape.variance, season=int(shape.season), terms=terms)
    estimates = consistent_counts(filtered.centres, np.ones(filtered.centres.shape), hierarchy=hierarchy)
    return after, LocalLevelSteps.of(state.step, sums, filtered, estimates, shape=shape, terms=terms)
