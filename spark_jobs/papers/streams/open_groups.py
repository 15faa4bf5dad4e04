"""The open groups of several streams of counts, and how the next steps extend or close them; deterministic.

The state has one array for each field, over all streams. Two functions handle the next steps, and give the same results
and the same state, bit for bit: ``across_streams`` handles all streams at once, one step after the other, and
``along_steps`` handles all steps of one stream, one stream after the other. A group depends on earlier groups, so one
array operation cannot cover both streams and steps. ``across_streams`` takes a few milliseconds for a step of 10,000
streams, but would take minutes for a million steps of a single stream. Both use the same code for the deviation of a
group (``grouping.rounded_deviation``) and for the estimates (``smoothing``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.papers.streams.grouping import GroupState, group_steps, rounded_deviation
from spark_jobs.papers.streams.smoothing import Smoother, smooth, smooth_groups

WIDE = 200
"""From about so many streams on, arrays of all streams are faster than one stream after the other."""


def _zeros() -> Int64Array:
    return np.zeros(1, dtype=np.int64)


def _none() -> Int64Array:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PegasusState:
    """The state of several streams between two steps; private, so its ``repr`` shows no counts.

    The default value is the state of one stream before its first step.

    Attributes:
        step: the number of steps of each stream so far, shape (streams,).
        start: the first step of each stream's last group.
        open: whether this group is open, so that it may grow.
        level: the noisy threshold of each stream's open group, in parts (multiples of ``1 / PARTS`` rows); 0 if no
            group is open.
        counts: the exact counts of the open groups' steps, one stream after the other, in any order within a group.
        noisy: the noisy counts of the same steps, ascending in each group.
        weights: the weights of ``noisy`` if their noise differs (``hierarchy``); else empty.
    """

    step: Int64Array = field(default_factory=_zeros)
    start: Int64Array = field(default_factory=_zeros)
    open: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=np.bool_))
    level: Int64Array = field(default_factory=_zeros)
    counts: Int64Array = field(default_factory=_none)
    noisy: Int64Array = field(default_factory=_none)
    weights: Int64Array = field(default_factory=_none)

    @classmethod
    def begin(cls, streams: int) -> Self:
        """The state of ``streams`` streams before their first step."""
        none = np.zeros(streams, dtype=np.int64)
        return cls(step=none, start=none, open=none > 0, level=none)

    @property
    def sizes(self) -> Int64Array:
        """The number of steps of each stream's open group; 0 if there is none."""
        sizes: Int64Array = np.where(self.open, self.step - self.start, 0)
        return sizes


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PegasusNoise:
    """All random values of some steps: noisy counts, noisy thresholds and the noise of the tests; private."""

    noisy: Int64Array
    levels: Int64Array
    tests: Int64Array


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupedSteps:
    """The groups of some steps and the estimates that follow; all arrays have shape (n, streams).

    Attributes:
        starts: the first step of each step's group, counted in the steps of its stream; -1 for a step that is left out.
        estimates: estimates of the counts, not clipped; 0 for a step that is left out.
        weights: the total weight of each step's group so far; if counts have no weights, the number of steps of the
            group so far; 1 for a step that is left out.
    """

    starts: Int64Array
    estimates: FloatArray
    weights: FloatArray

    @classmethod
    def left_out(cls, shape: tuple[int, ...]) -> Self:
        """Steps that are all marked as left out, as arrays to be filled in."""
        return cls(starts=np.full(shape, -1, dtype=np.int64), estimates=np.zeros(shape), weights=np.ones(shape))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NextSteps:
    """The next steps of several streams and how they are grouped; private. The arrays have shape (n, streams).

    Attributes:
        exact: their counts, from 0 to 2^40.
        drawn: their random values.
        taken: whether a step belongs to its stream; other steps are left out.
        max_group: the largest number of steps of a group.
        smoother: the estimate from a group's noisy counts.
        variance: the variance of the noise in a count; if counts have weights, in a count of weight 1.
        weights: the weights of the noisy counts if their noise differs (``smoothing.smooth``); None if all have the
            same noise.
    """

    exact: Int64Array
    drawn: PegasusNoise
    taken: BoolArray
    max_group: int
    smoother: Smoother
    variance: float
    weights: Int64Array | None = None


def take_next(state: PegasusState, steps: NextSteps) -> tuple[PegasusState, GroupedSteps]:
    """The state after the next steps, and their groups and estimates, in whichever of the two ways is faster."""
    return (across_streams if steps.exact.shape[1] >= WIDE else along_steps)(state, steps)


def across_streams(state: PegasusState, steps: NextSteps) -> tuple[PegasusState, GroupedSteps]:
    """The result of ``take_next``, by handling all streams at once, one step after the other."""
    grouped = GroupedSteps.left_out(steps.exact.shape)
    for at in range(len(steps.exact)):
        state = _take_step(state, steps, at, grouped)
    return state, grouped


def _take_step(state: PegasusState, steps: NextSteps, at: int, grouped: GroupedSteps) -> PegasusState:
    """Take one step of all streams, and write down its groups and estimates."""
    noisy, taken, sizes = steps.drawn.noisy[at], steps.taken[at], state.sizes
    opens, tested = taken & ~state.open, taken & state.open
    joins = tested & _below_level(state, sizes, steps.exact[at], steps.drawn.tests[at])
    grows, closes = opens | joins, tested & ~joins
    kept, stays = np.where(closes, 0, sizes), np.repeat(~closes, sizes)
    # a step comes after those of its group whose noisy counts are not above its own
    before = state.noisy[stays]
    above = np.bincount(np.repeat(np.arange(kept.size), kept)[before > np.repeat(noisy, kept)], minlength=kept.size)
    places = (np.cumsum(kept) - above)[grows]
    counts = np.insert(state.counts[stays], places, steps.exact[at, grows])
    ordered = np.insert(before, places, noisy[grows])
    weights = state.weights
    if steps.weights is not None:
        weights = np.insert(state.weights[stays], places, steps.weights[at, grows])
    sizes = kept + grows
    # groups that this step is not in are estimated as well, and left aside
    some, in_group = sizes > 0, grows[sizes > 0]
    grouped.starts[at, taken] = np.where(joins, state.start, state.step)[taken]
    grouped.estimates[at, closes] = noisy[closes]
    if steps.weights is not None:
        grouped.weights[at, closes] = steps.weights[at, closes]
    if grows.any():
        estimates = smooth_groups(
            ordered,
            sizes[some],
            noisy[some],
            smoother=steps.smoother,
            variance=steps.variance,
            weights=None if steps.weights is None else weights,
        )
        firsts = (np.cumsum(sizes) - sizes)[some]
        of_group = sizes[some] if steps.weights is None else np.add.reduceat(weights, firsts)
        grouped.estimates[at, grows], grouped.weights[at, grows] = estimates[in_group], of_group[in_group]
    is_open = np.where(taken, grows & (sizes < steps.max_group), state.open)
    left = np.repeat(is_open, sizes)
    return PegasusState(
        step=state.step + taken,
        start=np.where(taken & ~joins, state.step, state.start),
        open=is_open,
        level=np.where(is_open, np.where(opens, steps.drawn.levels[at], state.level), 0),
        counts=counts[left],
        noisy=ordered[left],
        weights=weights if steps.weights is None else weights[left],
    )


def _below_level(state: PegasusState, sizes: Int64Array, exact: Int64Array, tests: Int64Array) -> BoolArray:
    """Whether a step with these counts passes the test of the open group, for each stream; False if there is none."""
    passes = np.zeros(sizes.size, dtype=np.bool_)
    if not state.open.any():
        return passes
    some, count = np.flatnonzero(state.open), exact[state.open]
    before = sizes[some]
    firsts = np.cumsum(before) - before
    mean, rest = np.divmod(np.add.reduceat(state.counts, firsts) + count, before + 1)
    low, is_low = state.counts <= np.repeat(mean, before), count <= mean
    inside = np.add.reduceat(low, firsts, dtype=np.int64) + is_low
    below = np.add.reduceat(np.where(low, state.counts, 0), firsts) + np.where(is_low, count, 0)
    passes[some] = rounded_deviation(before + 1, mean, rest, inside, below) + tests[some] < state.level[some]
    return passes


def along_steps(state: PegasusState, steps: NextSteps) -> tuple[PegasusState, GroupedSteps]:
    """The result of ``take_next``, by handling one stream after the other."""
    grouped, ends = GroupedSteps.left_out(steps.exact.shape), np.cumsum(state.sizes).tolist()
    groups, kept = [], []
    for stream, (first, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        at, inside = np.flatnonzero(steps.taken[:, stream]), slice(first, end)
        group = GroupState(
            step=int(state.step[stream]),
            start=int(state.start[stream]),
            open=bool(state.open[stream]),
            level=int(state.level[stream]),
            counts=tuple(sorted(state.counts[inside].tolist())),
        )
        after, starts = group_steps(
            group,
            steps.exact[at, stream].tolist(),
            levels=steps.drawn.levels[at, stream].tolist(),
            tests=steps.drawn.tests[at, stream].tolist(),
            max_group=steps.max_group,
        )
        # the steps of the open group come first, for those that join it; they all begin at its start
        before = end - first
        noisy = np.append(state.noisy[inside], steps.drawn.noisy[at, stream])
        counts = np.append(state.counts[inside], steps.exact[at, stream])
        places = np.append(np.full(before, group.start), starts) - (group.step - before)
        weights = None if steps.weights is None else np.append(state.weights[inside], steps.weights[at, stream])
        smoothed = smooth(noisy, places, smoother=steps.smoother, variance=steps.variance, weights=weights)
        upto = np.arange(noisy.size + 1) if weights is None else np.append(0, np.cumsum(weights))
        grouped.starts[at, stream], grouped.estimates[at, stream] = starts, smoothed[before:]
        grouped.weights[at, stream] = upto[before + 1 :] - upto[places[before:]]
        left = noisy.size - len(after.counts)
        order = left + np.argsort(noisy[left:], kind="stable")
        groups.append(after)
        kept.append([values[order] for values in (counts, noisy, weights) if values is not None])
    counts, noisy, *more = (np.concatenate(column) for column in zip(*kept, strict=True))
    following = PegasusState(
        step=np.array([group.step for group in groups]),
        start=np.array([group.start for group in groups]),
        open=np.array([group.open for group in groups]),
        level=np.array([group.level for group in groups]),
        counts=counts,
        noisy=noisy,
        weights=more[0] if more else state.weights,
    )
    return following, grouped
