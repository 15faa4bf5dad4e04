"""Streams of counts over a hierarchy of states: all aggregates at every step, by PeGaSus, with or without pruning.

Specification (Chen 2018, section 5.5). A public tree groups states (sensors into rooms, rooms into buildings); every
node has a stream, the counts of the states below it. *HS-PGS* runs PeGaSus (``pegasus``) on each stream at
``epsilon / h`` for h levels. *PHS-PGS* first decides at every step which nodes are worth refining (``pruning``); if a
node is not refined, the nodes below it are published as 0 and take no part in groups, and their budget is used to
reduce the noise of the node itself. This implementation differs from the source: the pruning is private (the source's
algorithm 18 is not); smoothing weights counts by their noise, which differs between steps; and the aggregates are
adjusted to add up (``consistency``).

Neighbours: all events of one person are added or removed (ADD_REMOVE) or replaced by others (REPLACE_ONE). A person has
up to ``max_rows`` events in the stream, at one step in several states or at several steps.
Cost: ``epsilon`` for a stream of any length. It is split as pruning ``e_r``, groups ``e_g``, counts ``e_p``.

Proof, for one event that is added at step t. It changes the counts at t of the nodes on one path, one node in each
level, by at most 1, and no other counts. *Pruning*: the trees of different steps hold disjoint rows, so all answers
together are ``e_r``-DP (``pruning``). The other parts have independent noise, and for them the set of measured nodes is
a public fact. *Groups*: given this set, the tests of a node are those of one stream, which consists of the node's
measured steps, at ``e_g / h``. *Counts*: the noise of a measured node costs ``e_p / h`` if its children are measured as
well or if it is a state, and ``(l (e_p + e_g) - e_g) / h`` if its children are not measured, where l is the number of
levels from the node to the states. So on a path whose last measured node has l levels to the states, groups and counts
cost ``(e_p + e_g) / h`` at each of the ``h - l`` nodes above and ``l (e_p + e_g) / h`` at the last node: together
``e_p + e_g``, on every path. These costs compose to epsilon. *A replaced event* is one removed and one added, which the
noise of all parts covers. *Several events*: all parts run at ``epsilon / max_rows``, and the argument is applied once
for each event; weighting each of a person's events by one over their number, as the source proposes, is equivalent.
Shares of levels and events are rounded down.

Estimates are post-processing and cost nothing. Noise is drawn only for measured nodes, and it is public which nodes are
measured. The state needs the memory of the open groups. Store the new state before the results of its steps are
published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options.streams import MAX_GROUP, MAX_THRESHOLD
from spark_jobs.contract.privacy import Neighbours, exact_decimal, exact_difference, exact_sum, share
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.consistency import consistent_counts
from spark_jobs.mechanisms.streams.parameters import MAX_COUNT, require, require_epsilon, require_number
from spark_jobs.papers.streams.open_groups import NextSteps, PegasusNoise, PegasusState, take_next
from spark_jobs.papers.streams.pegasus import draw_tests
from spark_jobs.papers.streams.pruning import refined_levels
from spark_jobs.papers.streams.smoothing import Smoother

MAX_STATES = 1 << 16
MAX_ROWS = 1 << 20
MIN_VARIANCE = 1e-6
"""A lower bound on variances, for noise that is practically 0."""
_UNIT = 1024
"""The weight of a count whose noise has the budget of one level."""


@dataclass(frozen=True, kw_only=True)
class HierarchyShape:
    """The public facts of the streams of a hierarchy.

    Attributes:
        hierarchy: the levels over the ordered states: ``Hierarchy.line``, or one with unequal groups.
        epsilon: the cost of all streams together.
        neighbours: the neighbouring relation.
        max_rows: the largest number of events of a person in the stream; see the module.
        prune_share: the share of epsilon for pruning; with 0, every node is measured at every step.
        group_share: the share of epsilon for grouping steps.
        refine_from: the approximate number of rows from which a node is refined, as a multiple of the noise scale of
            one level.
        threshold, max_group, smoother: for every node, as in ``PegasusShape``.
        consistent: whether the estimates are adjusted to add up.
        spendings: the costs of pruning (if any), groups and counts; derived from the other attributes.

    Raises:
        InvalidRequest: a parameter is out of its bounds.
    """

    hierarchy: Hierarchy
    epsilon: Cost
    neighbours: Neighbours
    max_rows: int = 1
    prune_share: Cost = "0.2"
    group_share: Cost = "0.16"
    refine_from: float = 0.5
    threshold: float = 5.0
    max_group: int = 1024
    smoother: Smoother = Smoother.MEDIAN
    consistent: bool = True
    spendings: tuple[Spending, ...] = field(init=False)

    def __post_init__(self) -> None:
        prunes = exact_decimal(self.prune_share, what="prune_share")
        groups = exact_decimal(self.group_share, what="group_share")
        require("prune_share", prunes, 0 <= prunes < 1, "at least 0 and below 1")
        require("group_share", groups, 0 < groups < 1 - prunes, "above 0 and below 1 - prune_share")
        require_number("refine_from", self.refine_from, 0, MAX_THRESHOLD)
        require_number("threshold", self.threshold, 0, MAX_THRESHOLD)
        require_number("max_group", self.max_group, 1, MAX_GROUP, whole=True)
        require_number("max_rows", self.max_rows, 1, MAX_ROWS, whole=True)
        bound = f"groups of neighbouring nodes in each level, over 1 to {MAX_STATES} states, up to one root"
        require("hierarchy", None, _adds_up(self.hierarchy), bound, remedy="create it with Hierarchy.line")
        meter = BudgetMeter(self.epsilon)
        if prunes:
            meter.spend_share(prunes, label="pruning of the hierarchy")
        meter.spend_share(groups, label="groups of steps")
        meter.spend_rest(label="counts of steps")
        object.__setattr__(self, "spendings", meter.spendings)
        smallest = min(self.grouping, self.perturbing(1), self.pruning or self.grouping)
        require_epsilon(meter.granted.epsilon, smallest, "pruning, groups and counts of each level")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes of each level, the root first."""
        return (*(len(children) for children in reversed(self.hierarchy.children)), self.hierarchy.order.size)

    @property
    def cuts(self) -> NDArray[np.intp]:
        """Where each level but the first begins in the array of all nodes."""
        starts: NDArray[np.intp] = np.cumsum(self.sizes)[:-1]
        return starts

    @property
    def pruning(self) -> Decimal:
        """The cost of pruning for one event; 0 without pruning."""
        return share(self.spendings[0].epsilon, self.max_rows) if len(self.spendings) == 3 else Decimal(0)

    @property
    def grouping(self) -> Decimal:
        """The cost of a node's groups for one event."""
        return share(self.spendings[-2].epsilon, self._parts)

    def perturbing(self, levels: int) -> Decimal:
        """The cost for one event of the noisy count of a node that has the budget of ``levels`` levels."""
        level = share(exact_sum(self.spendings[-1].epsilon, self.spendings[-2].epsilon), self._parts)
        return exact_difference(exact_sum(*(level,) * levels), self.grouping)

    @cached_property
    def variances(self) -> FloatArray:
        """The variance of a node's noisy count, by the number of levels whose budget it has; entry 0 equals entry 1."""
        rows = rows_changed(self.neighbours)
        scales = [laplace_scale(self.perturbing(max(levels, 1)), rows) for levels in range(len(self.sizes) + 1)]
        return np.array([max(laplace_variance(scale), MIN_VARIANCE) for scale in scales])

    @cached_property
    def weights(self) -> Int64Array:
        """Whole numbers that are approximately proportional to the inverses of ``variances``."""
        weights: Int64Array = np.maximum(np.rint(_UNIT * self.variances[0] / self.variances), 1).astype(np.int64)
        return weights

    @property
    def refined_at(self) -> int:
        """The count from which a node is refined: a public whole number."""
        return round(self.refine_from * laplace_scale(self.perturbing(1), rows_changed(self.neighbours)))

    @property
    def _parts(self) -> int:
        return len(self.sizes) * int(self.max_rows)


@dataclass(frozen=True, kw_only=True, repr=False)
class HierarchyState:
    """The state between two steps; private, so its ``repr`` shows no counts.

    Attributes:
        step: the number of steps so far.
        nodes: the state of the nodes' streams, which consist of their measured steps; the root first, level by level.
    """

    step: int
    nodes: PegasusState

    @classmethod
    def start(cls, shape: HierarchyShape) -> HierarchyState:
        """The state before the first step."""
        return cls(step=0, nodes=PegasusState.begin(sum(shape.sizes)))


@dataclass(frozen=True, kw_only=True, eq=False)
class HierarchySteps:
    """The released values of some steps. Nodes are ordered by level, the root first.

    Attributes:
        first: the index of the first of these steps in the stream, from 0.
        levels: the number of levels whose budgets were spent on each node's count, shape (n, nodes): 0 if the node is
            pruned, above 1 if the nodes below it are pruned.
        noisy: noisy counts, shape (n, nodes); 0 for pruned nodes.
        starts: the first step of each node's group, counted in the node's measured steps; shape (n, nodes); -1 for
            pruned nodes.
        estimates: estimates of the counts, at least 0, shape (n, nodes); 0 for pruned nodes.
    """

    first: int
    levels: Int64Array
    noisy: Int64Array
    starts: Int64Array
    estimates: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HierarchyNoise:
    """All random values of some steps; private. The arrays of ``counts`` have shape (n, nodes)."""

    levels: Int64Array
    counts: PegasusNoise


def release_hierarchy(
    state: HierarchyState, counts: ArrayLike, *, shape: HierarchyShape, noise: Noise
) -> tuple[HierarchyState, HierarchySteps]:
    """Release the next steps of all streams; all steps together cost ``epsilon`` once.

    Args:
        state: the state after the previous step; ``HierarchyState.start(shape)`` at first.
        counts: the number of rows of each step in each state, shape (n, states); private, see ``aggregate``.
        shape: the public facts; the same for all steps.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        ValueError: counts are not rows of whole numbers, one for each state.
    """
    exact = aggregate(counts, shape.hierarchy)
    return take_hierarchy(state, exact, shape=shape, drawn=draw_hierarchy(state, exact, shape=shape, noise=noise))


def aggregate(counts: ArrayLike, hierarchy: Hierarchy) -> Int64Array:
    """The exact count of every node, shape (n, nodes), from those of the states, shape (n, states); private.

    The counts of states and of aggregates are clipped to [0, 2^40]; an event still changes each by at most 1.

    Raises:
        ValueError: counts are not rows of whole numbers, one for each state.
    """
    values, states = np.asarray(counts), hierarchy.order.size
    if values.ndim != 2 or values.shape[1] != states or not np.can_cast(values.dtype, np.int64):
        raise ValueError(f"counts: got shape {values.shape} of {values.dtype}; must be rows of {states} whole numbers")
    sums: Int64Array = hierarchy.all_sums(np.clip(values.astype(np.int64), 0, MAX_COUNT))
    return np.minimum(sums, MAX_COUNT)


def draw_hierarchy(state: HierarchyState, exact: Int64Array, *, shape: HierarchyShape, noise: Noise) -> HierarchyNoise:
    """Draw all random values of the steps after ``state``, given the exact counts of all nodes."""
    levels = _measured(exact, shape, noise)
    rows, noisy = rows_changed(shape.neighbours), np.zeros_like(exact)
    for levels_paid in range(1, len(shape.sizes) + 1):
        here = levels == levels_paid
        if here.any():
            noisy[here] = noise.laplace(exact[here], epsilon=shape.perturbing(levels_paid), l1_sensitivity=rows)
    thresholds, tests = draw_tests(
        state.nodes.open,
        levels > 0,
        epsilon=shape.grouping,
        threshold=shape.threshold,
        neighbours=shape.neighbours,
        noise=noise,
    )
    return HierarchyNoise(levels=levels, counts=PegasusNoise(noisy=noisy, levels=thresholds, tests=tests))


def take_hierarchy(
    state: HierarchyState, exact: Int64Array, *, shape: HierarchyShape, drawn: HierarchyNoise
) -> tuple[HierarchyState, HierarchySteps]:
    """The deterministic part of ``release_hierarchy``, given its random values."""
    nodes, grouped = take_next(
        state.nodes,
        NextSteps(
            exact=exact,
            drawn=drawn.counts,
            taken=drawn.levels > 0,
            max_group=shape.max_group,
            smoother=shape.smoother,
            variance=float(shape.variances[0]) * _UNIT,
            weights=shape.weights[drawn.levels],
        ),
    )
    estimates = np.maximum(grouped.estimates, 0.0)
    if shape.consistent:
        variances = 1.0 / grouped.weights
        estimates = consistent_counts(
            grouped.estimates,
            variances / variances.min(axis=1, keepdims=True),
            hierarchy=shape.hierarchy,
            # nothing is measured below a node that has the budget of several levels, or that is not measured itself
            ends=drawn.levels != 1,
        )
    steps = HierarchySteps(
        first=state.step, levels=drawn.levels, noisy=drawn.counts.noisy, starts=grouped.starts, estimates=estimates
    )
    return HierarchyState(step=state.step + len(exact), nodes=nodes), steps


def laplace_hierarchy(
    counts: ArrayLike, *, hierarchy: Hierarchy, epsilon: Cost, neighbours: Neighbours, noise: Noise, max_rows: int = 1
) -> Int64Array:
    """Noisy counts of all nodes at every step, shape (n, nodes); ``epsilon``-DP. The baseline HS-LM.

    An event is in one node of each of h levels: it changes the counts by h in 1-norm, and by 2 h if it is replaced.

    Args:
        counts: as in ``release_hierarchy``.
        hierarchy: the levels.
        epsilon: the total cost.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        max_rows: the largest number of events of a person.

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
        ValueError: counts are not rows of whole numbers, one for each state.
    """
    moved = hierarchy.levels * rows_changed(neighbours) * max_rows
    return noise.laplace(aggregate(counts, hierarchy), epsilon=epsilon, l1_sensitivity=moved)


def _measured(exact: Int64Array, shape: HierarchyShape, noise: Noise) -> Int64Array:
    """The number of levels whose budget each node has: 0 for pruned nodes."""
    if not shape.pruning:
        return np.ones_like(exact)
    children = [np.asarray(level) for level in reversed(shape.hierarchy.children)]
    parents = [np.repeat(np.arange(level.size), level) for level in children]
    refined = refined_levels(
        np.split(exact, shape.cuts, axis=1)[:-1],
        parents[:-1],
        threshold=shape.refined_at,
        epsilon=shape.pruning,
        neighbours=shape.neighbours,
        noise=noise,
    )
    measured, kept = [], np.ones((len(exact), 1), dtype=np.bool_)
    for depth, answers in enumerate(refined):
        measured.append(np.where(kept, np.where(answers, 1, len(shape.sizes) - depth), 0))
        kept = answers[:, parents[depth]]
    measured.append(kept.astype(np.int64))
    return np.concatenate(measured, axis=1).astype(np.int64)


def _adds_up(hierarchy: Hierarchy) -> bool:
    """Whether each level's groups are runs of the nodes below, none empty, and the top level is one node."""
    sizes = [hierarchy.order.size, *(len(level) for level in hierarchy.children)]
    return (
        1 <= sizes[0] <= MAX_STATES
        and sizes[-1] == 1
        and np.array_equal(hierarchy.order, np.arange(sizes[0]))
        and all(
            np.min(level) >= 1 and int(np.sum(level)) == below
            for level, below in zip(hierarchy.children, sizes[:-1], strict=True)
        )
    )
