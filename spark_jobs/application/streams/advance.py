"""The next steps of a stream, as a function of its request, its state and the exact counts; no file and no Spark.

Neighbours: one row of a unit is added or removed, which changes one count of one state at one step by one; or it is
replaced under REPLACE_ONE, which changes two counts. Cost: ``request.epsilon_per_row`` for that row and any number of
steps, because steps and states are disjoint (``mechanisms.streams``); a unit, which changes at most ``rows_paid`` rows,
therefore loses at most ``budget.epsilon``.

Every call draws fresh noise. A step must be released once, so the caller stores the state and the release together
before either is used (``contract.store.stream_objects``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spark_jobs.application.streams.state import CountStreamState
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.options.streams import LocalLevelMethod, PegasusMethod
from spark_jobs.contract.release import NOT_PRIVATE
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape, filter_hierarchy, filter_streams
from spark_jobs.mechanisms.streams.parameters import MAX_COUNT
from spark_jobs.papers.streams.hierarchy import HierarchyShape, HierarchyState, release_hierarchy
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape, release_steps
from spark_jobs.papers.streams.smoothing import Smoother
from spark_jobs.statistics.unit_use import UnitUse

Shape = LocalLevelShape | PegasusShape | HierarchyShape
"""The public facts of the mechanism, for one row of a unit."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StepReleases:
    """The released values of some consecutive steps, for every name of the request (``StreamRequest.names``).

    Attributes:
        first: the number of the first of these steps, counted from 0.
        noisy: noisy counts, shape (n, names); unbiased, so that sums over windows use them; 0 where a count was not
            measured.
        estimates: estimates of the counts, at least 0, shape (n, names); each depends only on the counts up to its own
            step.
        lower, upper: ends of the bands for the exact counts, shape (n, names); None for a method without bands.
        measured: whether a count was measured, shape (n, names); False for pruned parts of a hierarchy.
    """

    first: int
    noisy: Int64Array
    estimates: FloatArray
    lower: FloatArray | None
    upper: FloatArray | None
    measured: BoolArray


def start_state(request: StreamRequest) -> CountStreamState:
    """The state before the first step."""
    streams = len(request.names)
    counts: LocalLevelState | PegasusState
    if isinstance(request.method, LocalLevelMethod):
        counts = LocalLevelState.start(streams)
    else:
        counts = PegasusState.begin(streams)
    use = None if request.places is None else UnitUse.none(request.places)
    return CountStreamState(step=0, guarantee="", counts=counts, use=use)


def advance(
    request: StreamRequest, state: CountStreamState, counts: Int64Array, *, noise: Noise
) -> tuple[CountStreamState, StepReleases]:
    """Release the next steps.

    Args:
        request: the stream's request.
        state: the state after the step before; ``start_state`` at first. Private.
        counts: rows of each step in each state of ``request.leaf_names``, shape (n, states); private, and clipped to 0
            to 2^40.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Returns:
        The state after these steps, and their releases.

    Raises:
        ValueError: the counts have another shape, or go beyond the end of the stream.
    """
    exact = np.clip(np.asarray(counts, dtype=np.int64), 0, MAX_COUNT)
    wanted = (len(exact), len(request.leaf_names))
    if exact.shape != wanted or state.step + len(exact) > request.steps:
        raise ValueError(f"counts: got shape {exact.shape}; must be {wanted}, within the {request.steps} steps")
    shape = mechanism(request)
    following: LocalLevelState | PegasusState
    match shape, state.counts:
        case LocalLevelShape(), LocalLevelState():
            following, releases = _filtered(shape, state.counts, exact, noise, hierarchy_of(request))
        case PegasusShape(), PegasusState():
            following, releases = _grouped(shape, state.counts, exact, noise)
        case HierarchyShape(), PegasusState():
            following, releases = _of_hierarchy(shape, state.step, state.counts, exact, noise)
        case _:
            raise ValueError("a state of another method")
    stamp = NOT_PRIVATE if NOT_PRIVATE in (state.guarantee, noise.guarantee) else noise.guarantee
    after = replace(state, step=state.step + len(exact), guarantee=stamp, counts=following)
    return after, replace(releases, first=state.step)


def mechanism(request: StreamRequest) -> Shape:
    """The mechanism of a stream, at the epsilon of one row.

    Raises:
        InvalidRequest: an option is out of its bounds.
    """
    method, epsilon = request.method, request.epsilon_per_row
    if isinstance(method, LocalLevelMethod):
        return LocalLevelShape(
            epsilon=epsilon, neighbours=request.neighbours, season=method.season, confidence=method.confidence
        )
    prunes, groups = method.shares(len(request.levels))
    hierarchy = hierarchy_of(request)
    if hierarchy is None:
        return PegasusShape(
            epsilon=epsilon,
            neighbours=request.neighbours,
            group_share=groups,
            threshold=method.threshold,
            max_group=method.max_group,
            smoother=Smoother(method.smoothing),
        )
    return HierarchyShape(
        hierarchy=hierarchy,
        epsilon=epsilon,
        neighbours=request.neighbours,
        prune_share=prunes,
        group_share=groups,
        threshold=method.threshold,
        max_group=method.max_group,
        smoother=Smoother(method.smoothing),
        **_given(method),
    )


def hierarchy_of(request: StreamRequest) -> Hierarchy | None:
    """The hierarchy of levels above the states of a stream; None if the states have no parents."""
    if request.states is None or request.states.parents is None:
        return None
    children = tuple(np.array(sizes, dtype=np.intp) for sizes in request.states.children)
    return Hierarchy(order=np.arange(len(request.leaf_names), dtype=np.intp), children=children)


def spendings(request: StreamRequest) -> tuple[Spending, ...]:
    """The cost of each part of the mechanism, for one row of a unit and all steps together."""
    return mechanism(request).spendings


def _given(method: PegasusMethod) -> dict[str, Any]:
    options = {"refine_from": method.refine_from, "consistent": method.consistent}
    return {name: value for name, value in options.items() if value is not None}


def _filtered(
    shape: LocalLevelShape, state: LocalLevelState, exact: Int64Array, noise: Noise, hierarchy: Hierarchy | None
) -> tuple[LocalLevelState, StepReleases]:
    drawn = noise.laplace(exact.ravel(), epsilon=shape.counting, l1_sensitivity=rows_changed(shape.neighbours))
    noisy = drawn.reshape(exact.shape)
    if hierarchy is None:
        after, steps = filter_streams(state, noisy, shape=shape)
    else:
        after, steps = filter_hierarchy(state, noisy, shape=shape, hierarchy=hierarchy)
    releases = StepReleases(
        first=0,
        noisy=steps.noisy,
        estimates=steps.estimates,
        lower=steps.lower,
        upper=steps.upper,
        measured=np.ones(steps.noisy.shape, dtype=np.bool_),
    )
    return after, releases


def _grouped(
    shape: PegasusShape, state: PegasusState, exact: Int64Array, noise: Noise
) -> tuple[PegasusState, StepReleases]:
    after, steps = release_steps(state, exact, shape=shape, noise=noise)
    measured = np.ones(exact.shape, dtype=np.bool_)
    releases = StepReleases(
        first=0, noisy=steps.noisy, estimates=steps.estimates, lower=None, upper=None, measured=measured
    )
    return after, releases


def _of_hierarchy(
    shape: HierarchyShape, step: int, state: PegasusState, exact: Int64Array, noise: Noise
) -> tuple[PegasusState, StepReleases]:
    after, steps = release_hierarchy(HierarchyState(step=step, nodes=state), exact, shape=shape, noise=noise)
    releases = StepReleases(
        first=0,
        noisy=steps.noisy,
        estimates=steps.estimates,
        lower=None,
        upper=None,
        measured=steps.levels > 0,
    )
    return after.nodes, releases
