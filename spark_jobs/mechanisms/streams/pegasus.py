"""PeGaSus: a count released at every step of a stream, smoothed over the steps that are alike.

Specification (Chen, Machanavajjhala, Hay, Miklau, CCS 2017; Chen 2018, algorithm 15). At each step t: perturb,
``y_t = c_t + noise`` of scale ``1 / e_p``; group t with steps before it at ``e_g`` (``grouping``); smooth, by the y of
its group (``smoothing``), and publish.

Neighbours: one row, one event. Under ADD_REMOVE it is there or it is not; under REPLACE_ONE it may be at another step,
and all noise is twice as large. The relation is of events: a person with k of them has loss k epsilon. Two secrets of
the kind "in this state, in that state" at one time are two steps of ADD_REMOVE apart, one of REPLACE_ONE.
Cost: ``e_p + e_g`` for a stream of any length.
Proof. Steps are disjoint: an added row changes one count, and the y together are ``e_p``-DP. The groups together are
``e_g``-DP (``grouping``). They are drawn side by side and compose; smoothing reads nothing else. A replaced row is one
less and one more.

Noise for a step is drawn in full whether it is tested or not. Memory is that of the open group. Keep the new state
before what it goes with is published: steps released twice with fresh noise cost twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours, exact_decimal
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.sparse_vector import optimal_split
from spark_jobs.mechanisms.streams.grouping import PARTS, GroupState, group_steps
from spark_jobs.mechanisms.streams.smoothing import Smoother, smooth

MAX_COUNT = 1 << 40
MAX_GROUP = 1 << 16
MAX_THRESHOLD = 1_000_000
MIN_EPSILON = Decimal("1e-6")


@dataclass(frozen=True, kw_only=True)
class PegasusShape:
    """The public facts of a stream.

    Attributes:
        epsilon: the cost of the whole stream.
        neighbours: the neighbouring relation.
        group_share: the part of epsilon, in (0, 1), that groups steps.
        threshold: the deviation that a group may have, times the epsilon of the groups; the published 5.
        max_group: steps that a group may have, up to 65,536.
        smoother: how a group's noisy counts become one.
        spendings: what the stream costs: groups, then counts; made from the rest.

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
        """The epsilon that groups steps."""
        return self.spendings[0].epsilon

    @property
    def perturbing(self) -> Decimal:
        """The epsilon of the counts."""
        return self.spendings[1].epsilon

    @property
    def scale(self) -> float:
        """Of the noise of a count."""
        return laplace_scale(self.perturbing, rows_changed(self.neighbours))


@dataclass(frozen=True, kw_only=True, repr=False)
class PegasusState:
    """What is kept between two steps; private as a whole, so its ``repr`` has no count.

    Attributes:
        group: exact counts and threshold of the open group.
        noisy: the noisy counts of the open group, in order; these were released.
        weights: of them, where their noise differs (``hierarchy``); else empty.
    """

    group: GroupState = field(default_factory=GroupState)
    noisy: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class PegasusSteps:
    """What was released of a few steps.

    Attributes:
        first: the first of them, counted from 0.
        noisy: noisy counts, shape (n,).
        starts: the first step of each step's group, shape (n,), counted from the stream's first.
        estimates: of the counts, at least 0, as each step was published, shape (n,).
    """

    first: int
    noisy: Int64Array
    starts: Int64Array
    estimates: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PegasusNoise:
    """Everything that steps draw: noisy counts, a noisy threshold and the noise of a test for each; private."""

    noisy: Int64Array
    levels: Int64Array
    tests: Int64Array


def release_steps(
    state: PegasusState, counts: ArrayLike, *, shape: PegasusShape, noise: Noise
) -> tuple[PegasusState, PegasusSteps]:
    """The next steps: their counts go in, noisy estimates come out; all steps of a stream cost ``epsilon`` once.

    Args:
        state: after the step before; ``PegasusState()`` at first.
        counts: rows of each step, whole numbers, shape (n,); private, and clipped to 0 to 2^40.
        shape: the public facts, the same at every step.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        ValueError: counts are not one row of whole numbers.
    """
    exact = _counts(counts)
    return take_steps(state, exact, shape=shape, drawn=draw_noise(exact, shape=shape, noise=noise))


def draw_noise(exact: Int64Array, *, shape: PegasusShape, noise: Noise) -> PegasusNoise:
    """Everything that these steps need of a source of noise, in three calls."""
    rows = rows_changed(shape.neighbours)
    noisy = noise.laplace(exact, epsilon=shape.perturbing, l1_sensitivity=rows)
    levels, tests = draw_tests(
        exact.shape, epsilon=shape.grouping, threshold=shape.threshold, neighbours=shape.neighbours, noise=noise
    )
    return PegasusNoise(noisy=noisy, levels=levels, tests=tests)


def draw_tests(
    steps: tuple[int, ...], *, epsilon: Decimal, threshold: float, neighbours: Neighbours, noise: Noise
) -> tuple[Int64Array, Int64Array]:
    """A noisy threshold and the noise of a test for each step, in parts, for groups that cost ``epsilon``.

    ``threshold`` is the deviation that a group may have, times epsilon.
    """
    rows, none = rows_changed(neighbours), np.zeros(steps, dtype=np.int64)
    first, second = optimal_split(epsilon, cutoff=1, monotone=False)
    level = round(Fraction(threshold) / Fraction(epsilon) * PARTS)
    return (
        noise.laplace(none + level, epsilon=first, l1_sensitivity=2 * PARTS * rows),
        noise.laplace(none, epsilon=second, l1_sensitivity=4 * PARTS * rows),
    )


def take_steps(
    state: PegasusState, exact: Int64Array, *, shape: PegasusShape, drawn: PegasusNoise
) -> tuple[PegasusState, PegasusSteps]:
    """``release_steps`` with its noise: no randomness."""
    after, starts, estimates = advance(
        state,
        exact,
        drawn=drawn,
        max_group=shape.max_group,
        smoother=shape.smoother,
        variance=laplace_variance(shape.scale),
    )
    steps = PegasusSteps(first=state.group.step, noisy=drawn.noisy, starts=starts, estimates=np.maximum(estimates, 0.0))
    return after, steps


def advance(
    state: PegasusState,
    exact: Int64Array,
    *,
    drawn: PegasusNoise,
    max_group: int,
    smoother: Smoother,
    variance: float,
    weights: Int64Array | None = None,
) -> tuple[PegasusState, Int64Array, FloatArray]:
    """The state after these steps, the first step of each one's group, and unbounded estimates.

    Args:
        state: after the step before.
        exact: counts of the next steps, within bounds.
        drawn: their noise.
        max_group: steps a group may have.
        smoother: how a group's noisy counts become one.
        variance: of the noise of a count; of one of weight 1, where there are weights.
        weights: of the noisy counts, where their noise differs (``smoothing.smooth``); at every step or at none.
    """
    group, starts = group_steps(
        state.group, exact.tolist(), levels=drawn.levels.tolist(), tests=drawn.tests.tolist(), max_group=max_group
    )
    first, kept = state.group.step, len(state.noisy)
    # the last group's steps come first, so that a step that joins it finds them; they begin one there
    before = np.full(kept, state.group.start, dtype=np.int64)
    noisy = np.concatenate([np.array(state.noisy, dtype=np.int64), drawn.noisy])
    places = np.concatenate([before, starts]) - (first - kept)
    all_weights = None if weights is None else np.concatenate([np.array(state.weights, dtype=np.int64), weights])
    estimates = smooth(noisy, places, smoother=smoother, variance=variance, weights=all_weights)[kept:]
    left = noisy.size - (group.step - group.start) if group.open else noisy.size
    after = PegasusState(
        group=group,
        noisy=tuple(noisy[left:].tolist()),
        weights=() if all_weights is None else tuple(all_weights[left:].tolist()),
    )
    return after, starts, estimates


def require_number(what: str, given: object, lower: int, upper: int, *, whole: bool = False) -> None:
    """Refuse a public parameter of a stream unless it is a number within its bounds.

    Raises:
        InvalidRequest: it is not.
    """
    number = isinstance(given, Integral if whole else Real) and not isinstance(given, bool)
    fits = number and lower <= float(given) <= upper  # type: ignore[arg-type]
    require(what, given, fits, f"{'a whole number' if whole else 'a number'} from {lower} to {upper}")


def require(what: str, given: object, fits: bool, bound: str, *, remedy: str = "leave it out for the default") -> None:
    """Refuse a public parameter of a stream unless it ``fits``.

    Raises:
        InvalidRequest: it does not.
    """
    if not fits:
        raise InvalidRequest(what, value=given, requirement=f"must be {bound}", remedy=remedy)


def require_epsilon(total: Decimal, smallest: Decimal, which: str) -> None:
    """Refuse an epsilon so small that thresholds, in units of the noise it leaves, are beyond any count.

    Raises:
        InvalidRequest: it is.
    """
    bound = f"such that {which} have {MIN_EPSILON} of it"
    require("epsilon", total, smallest >= MIN_EPSILON, bound, remedy="give what the stream may cost, e.g. '1'")


def _counts(counts: ArrayLike) -> Int64Array:
    values = np.asarray(counts)
    if values.ndim != 1 or not np.can_cast(values.dtype, np.int64):
        raise ValueError(f"counts: got shape {values.shape} of {values.dtype}; must be one row of whole numbers")
    return np.clip(values.astype(np.int64), 0, MAX_COUNT)
