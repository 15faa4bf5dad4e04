"""PeGaSus: a count that is released at every step of a stream, smoothed over groups of similar steps.

Specification (Chen, Machanavajjhala, Hay, Miklau, CCS 2017; Chen 2018, algorithm 15). At each step t: perturb,
``y_t = c_t + noise`` of scale ``1 / e_p``; group t with earlier steps at ``e_g`` (``grouping``); smooth over the y of
its group (``smoothing``), and publish.

Neighbours: one row is one event. Under ADD_REMOVE an event is added or removed; under REPLACE_ONE an event may move to
another step, and all noise is twice as large. The relation is about events: the loss of a person with k events is k
epsilon. Two tables that differ only in the state of one person at one time are two changes apart under ADD_REMOVE, and
one change apart under REPLACE_ONE.
Cost: ``e_p + e_g`` for a stream of any length.
Proof. Steps are disjoint: an added row changes one count, and all y together are ``e_p``-DP. The groups together are
``e_g``-DP (``grouping``). The two have independent noise and compose; smoothing uses nothing else. A replaced row is
one removed and one added.

When the first of the next steps comes, it is known whether a group is open, so that only the noise that will be used
for this step is drawn. This depends on the answers of earlier tests, which are paid for. The state needs the memory of
the open group. Store the new state before the results of its steps are published: steps that are released twice with
fresh noise cost twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.options.streams import MAX_GROUP, MAX_THRESHOLD
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.sparse_vector import optimal_split
from spark_jobs.mechanisms.streams.parameters import MAX_COUNT, require, require_epsilon, require_number
from spark_jobs.papers.streams.grouping import PARTS
from spark_jobs.papers.streams.open_groups import NextSteps, PegasusNoise, PegasusState, take_next
from spark_jobs.papers.streams.smoothing import Smoother


@dataclass(frozen=True, kw_only=True)
class PegasusShape:
    """The public facts of a stream.

    Attributes:
        epsilon: the cost of the whole stream.
        neighbours: the neighbouring relation.
        group_share: the share of epsilon, in (0, 1), for grouping steps.
        threshold: the largest deviation of a group, times the epsilon of the groups; 5 as published.
        max_group: the largest number of steps of a group, up to 65,536.
        smoother: the estimate from a group's noisy counts.
        spendings: the costs of groups and of counts; derived from the other attributes.

    Raises:
        InvalidRequest: a parameter is out of its bounds.
    """

    epsilon: Cost
    neighbours: Neighbours
    group_share: Cost = "0.2"
    threshold: float = 5.0
    max_group: int = 1024
    smoother: Smoother = Smoother.MEDIAN
    spendings: tuple[Spending, ...] = field(init=False)

    def __post_init__(self) -> None:
        total, part = exact_decimal(self.epsilon, what="epsilon"), exact_decimal(self.group_share, what="group_share")
        require("group_share", part, 0 < part < 1, "above 0 and below 1")
        require_epsilon(total, total * min(part, 1 - part), "groups and counts")
        require_number("max_group", self.max_group, 1, MAX_GROUP, whole=True)
        require_number("threshold", self.threshold, 0, MAX_THRESHOLD)
        meter = BudgetMeter(total)
        meter.spend_share(part, label="groups of steps")
        meter.spend_rest(label="counts of steps")
        object.__setattr__(self, "spendings", meter.spendings)

    @property
    def grouping(self) -> Decimal:
        """The epsilon for grouping steps."""
        return self.spendings[0].epsilon

    @property
    def perturbing(self) -> Decimal:
        """The epsilon for noisy counts."""
        return self.spendings[1].epsilon

    @property
    def scale(self) -> float:
        """The scale of the noise of a count."""
        return laplace_scale(self.perturbing, rows_changed(self.neighbours))

    @cached_property
    def variance(self) -> float:
        """The variance of the noise of a count."""
        return laplace_variance(self.scale)


@dataclass(frozen=True, kw_only=True, eq=False)
class PegasusSteps:
    """The released values of some steps; all arrays have the shape of the counts.

    Attributes:
        first: the index of the first of these steps in the stream, from 0.
        noisy: noisy counts.
        starts: the first step of each step's group, as an index in the stream.
        estimates: of the counts, at least 0, as each step was published.
    """

    first: int
    noisy: Int64Array
    starts: Int64Array
    estimates: FloatArray


def release_steps(
    state: PegasusState, counts: ArrayLike, *, shape: PegasusShape, noise: Noise
) -> tuple[PegasusState, PegasusSteps]:
    """Release noisy estimates of the next steps; all steps of a stream together cost ``epsilon`` once.

    Several streams at once must be of disjoint rows; all of them together then cost ``epsilon`` once.

    Args:
        state: the state after the previous step; at first ``PegasusState()`` for one stream, or
            ``PegasusState.begin(streams)``.
        counts: the number of rows of each step, shape (n,), or (n, streams) for several streams; private, clipped to 0
            to 2^40.
        shape: the public facts; the same for all steps and streams.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        ValueError: the counts are not whole numbers of that shape.
    """
    exact = _counts(counts, state.step.size)
    return take_steps(state, exact, shape=shape, drawn=draw_noise(state, exact, shape=shape, noise=noise))


def draw_noise(state: PegasusState, exact: Int64Array, *, shape: PegasusShape, noise: Noise) -> PegasusNoise:
    """Draw all random values of the steps after ``state``, in three calls of the sampler; arrays like ``exact``."""
    rows = rows_changed(shape.neighbours)
    noisy = noise.laplace(exact, epsilon=shape.perturbing, l1_sensitivity=rows)
    levels, tests = draw_tests(
        state.open,
        np.ones((len(exact), state.open.size), dtype=np.bool_),
        epsilon=shape.grouping,
        threshold=shape.threshold,
        neighbours=shape.neighbours,
        noise=noise,
    )
    return PegasusNoise(noisy=noisy, levels=levels.reshape(exact.shape), tests=tests.reshape(exact.shape))


def draw_tests(
    is_open: BoolArray,
    taken: BoolArray,
    *,
    epsilon: Decimal,
    threshold: float,
    neighbours: Neighbours,
    noise: Noise,
) -> tuple[Int64Array, Int64Array]:
    """Noisy thresholds and the noise of tests, in parts, for groups that cost ``epsilon``; both of shape (n, streams).

    Args:
        is_open: whether the group of each stream is open before the first step: if so, the first step is tested and
            needs only noise for the test; otherwise the first step begins a group and needs only a threshold. For later
            steps both are drawn, as it is not yet known which of the two they need.
        taken: whether a step belongs to its stream; nothing is drawn for other steps.
        epsilon: the cost of all groups of a stream.
        threshold: the largest deviation of a group, times epsilon.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise.
    """
    rows, begin, tested = rows_changed(neighbours), taken.copy(), taken.copy()
    begin[:1] &= ~is_open
    tested[:1] &= is_open
    first, second = optimal_split(epsilon, cutoff=1, monotone=False)
    level = round(Fraction(threshold) / Fraction(epsilon) * PARTS)
    levels, tests = np.zeros(taken.shape, dtype=np.int64), np.zeros(taken.shape, dtype=np.int64)
    levels[begin] = noise.laplace(levels[begin] + level, epsilon=first, l1_sensitivity=2 * PARTS * rows)
    tests[tested] = noise.laplace(tests[tested], epsilon=second, l1_sensitivity=4 * PARTS * rows)
    return levels, tests


def take_steps(
    state: PegasusState, exact: Int64Array, *, shape: PegasusShape, drawn: PegasusNoise
) -> tuple[PegasusState, PegasusSteps]:
    """The deterministic part of ``release_steps``, given its random values."""
    # a row of steps is that of one stream
    columns = (len(exact), state.step.size)
    after, grouped = take_next(
        state,
        NextSteps(
            exact=exact.reshape(columns),
            drawn=PegasusNoise(**{name: values.reshape(columns) for name, values in vars(drawn).items()}),
            taken=np.ones(columns, dtype=np.bool_),
            max_group=shape.max_group,
            smoother=shape.smoother,
            variance=shape.variance,
        ),
    )
    return after, PegasusSteps(
        first=int(state.step[0]),
        noisy=drawn.noisy,
        starts=grouped.starts.reshape(exact.shape),
        estimates=np.maximum(grouped.estimates, 0.0).reshape(exact.shape),
    )


def _counts(counts: ArrayLike, streams: int) -> Int64Array:
    values = np.asarray(counts)
    fits = values.shape == (len(values), streams) if values.ndim == 2 else values.ndim == streams == 1
    if not fits or not np.can_cast(values.dtype, np.int64):
        raise ValueError(
            f"counts: got shape {values.shape} of {values.dtype}; must be steps of whole numbers, {streams} in each"
        )
    return np.clip(values.astype(np.int64), 0, MAX_COUNT)
