"""The summary of a draw by group: results of each group, and comparisons of groups; deterministic post-processing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from spark_jobs.contract.figure import DECIMALS, Ends, Figure, Number
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.options import GroupedSettings
from spark_jobs.contract.options.by_group import MEAN_RESIDUAL, POSITIVE_RATE, RATES_BY_GROUP
from spark_jobs.contract.options.score_figures import rate_at
from spark_jobs.contract.results.groups import ByGroup, GroupComparison
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.by_group.equality import P_VALUE_FLOOR, adjusted, largest_difference
from spark_jobs.diagnostics.by_group.estimates import NOTHING, class_rows, mean_residual, rate, rates_at
from spark_jobs.diagnostics.by_group.measurement import ByGroupDraw
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import edges_of

Compared = tuple[str, float | None]
"""The name of a figure, and its threshold if it has one."""


def summarise(draw: ByGroupDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> ByGroup:
    """The results of a draw; a function of the draw and the seed.

    Args:
        draw: the draw.
        seed: public seed of the simulations behind intervals and p-values.
        sampling: what was sampled, rows or units of several rows. A test of equal groups uses the design effect that
            was measured over all groups together; a unit with rows in two groups only makes the figures of the two
            groups more alike. Intervals, of one group or of all rows, allow for the largest possible design effect.
    """
    # what was measured is how far rows are off the figures of their groups, in all groups together
    largest = Sampling(max_rows=sampling.max_rows)
    results = tuple(_results(draw, group, seed, largest) for group in draw.groups)
    sizes = [class_rows((group,)) for group in draw.groups]
    status = tuple(OK if all(size.is_known for size in both) else UNDEFINED for both in sizes)
    shown, tested = (
        [
            {**_estimates(draw, (group,), of), **_areas(draw, of_kinds)} if defined == OK else {}
            for group, of_kinds, defined in zip(draw.groups, results, status, strict=True)
        ]
        for of in (largest, sampling)
    )
    figures, overall = _figures(draw, results), _estimates(draw, draw.groups, largest)
    noise = SeededNoise(seed)
    comparisons = [
        _compared(
            draw,
            figure,
            [one.get(figure, NOTHING) for one in (*shown, overall)],
            [one.get(figure, NOTHING) for one in tested[:-1]],
            noise,
        )
        for figure in figures
    ]
    p_values = adjusted([comparison.p_value for comparison in comparisons])
    return ByGroup(
        keys=draw.keys,
        status=status,
        positives=tuple(round(max(positives.rows, 0.0), DECIMALS) for positives, _ in sizes),
        negatives=tuple(round(max(negatives.rows, 0.0), DECIMALS) for _, negatives in sizes),
        results=results,
        comparisons=tuple(
            replace(comparison, adjusted_p_value=p_value)
            for comparison, p_value in zip(comparisons, p_values, strict=True)
        ),
        p_value_floor=P_VALUE_FLOOR,
        confidence=draw.confidence,
        **draw.stated,
    )


def _results(draw: ByGroupDraw, group: SharedGroups, seed: int, sampling: Sampling) -> Mapping[str, Any]:
    """The result of every kind, of one group."""
    results: dict[str, Any] = {}
    for options in draw.kinds:
        kind = diagnostic(options.kind)
        if kind.read_shared is None:
            raise TypeError(f"{options.kind} cannot be read from the counts of a group")
        results[options.kind] = kind.summarised(kind.read_shared(options, group), seed=seed, sampling=sampling)
    return results


def _figures(draw: ByGroupDraw, results: Sequence[Mapping[str, Any]]) -> tuple[Compared, ...]:
    """The figures that the requested kinds can be compared by, whether or not any group has them."""
    named: list[Compared] = [(POSITIVE_RATE, None)]
    if _area_of(results[0]) is not None:
        named.append(("auc", None))
    if any(isinstance(options, GroupedSettings) for options in draw.kinds):
        named.append((MEAN_RESIDUAL, None))
    rates = ("predicted_positive_rate", "recall", "false_positive_rate", "precision")
    return (*named, *((name, threshold) for threshold in _thresholds(draw).values() for name in rates))


def _thresholds(draw: ByGroupDraw) -> dict[int, float]:
    """The thresholds of confusion matrices: their cells, and where they begin."""
    edges = edges_of(draw.groups[0].groups.grid)
    return {cell: float(edges[cell]) for cell in draw.threshold_cells}


def _estimates(draw: ByGroupDraw, groups: Sequence[SharedGroups], sampling: Sampling) -> dict[Compared, Figure[float]]:
    """The figures of some groups together that are functions of sums of their counts."""
    confidence = draw.confidence
    effect = sampling.effect(POSITIVE_RATE).value
    estimates: dict[Compared, Figure[float]] = {(POSITIVE_RATE, None): rate(*class_rows(groups), confidence, effect)}
    if any(isinstance(options, GroupedSettings) for options in draw.kinds):
        effect = sampling.effect(MEAN_RESIDUAL).value
        estimates[MEAN_RESIDUAL, None] = mean_residual(groups, confidence, effect)
    for cell, threshold in _thresholds(draw).items():
        place = draw.threshold_cells.index(cell)
        effects = {name: sampling.effect(rate_at(name, place)).value for name in RATES_BY_GROUP}
        of_rates = rates_at(groups, cell, confidence, effects)
        estimates |= {(name, threshold): one for name, one in of_rates.items()}
    return estimates


def _areas(draw: ByGroupDraw, results: Mapping[str, Any]) -> dict[Compared, Figure[float]]:
    """The area of a group, if a kind states one; none of all rows, as rows of two groups have no counts in common."""
    area = _area_of(results)
    return {} if area is None else {("auc", None): area_estimate(*area, draw.confidence)}


def _area_of(results: Mapping[str, Any]) -> tuple[Number, float] | None:
    """The area of a group, and the level of its intervals; None if no kind states one."""
    stating = [results[kind] for kind in ("roc_curve", "auc") if kind in results]
    return (stating[0].area, stating[0].confidence) if stating else None


def area_estimate(area: Number, level: float, confidence: float) -> Figure[float]:
    """An area with its interval for the population, rescaled to another level by normal quantiles on either side."""
    if area.value is None or area.population is None:
        return NOTHING
    factor = 1.0 if level == confidence else float(ndtri((1 + confidence) / 2) / ndtri((1 + level) / 2))
    low, high = (area.number + factor * (end - area.number) for end in area.ends("population"))
    return Figure(value=area.number, interval=Ends(max(low, 0.0), min(high, 1.0)))


def _compared(
    draw: ByGroupDraw,
    figure: Compared,
    estimates: Sequence[Figure[float]],
    tested: Sequence[Figure[float]],
    noise: SeededNoise,
) -> GroupComparison:
    """The comparison of a figure; ``other``, the last group, takes no part in the test.

    Args:
        draw: the draw.
        figure: the figure.
        estimates: its value in every group, and the last one that of all rows.
        tested: its value in every group that takes part, with the errors that the test takes.
        noise: source of the simulations.
    """
    name, threshold = figure
    columns = zip(*((_shown(end) for end in (one.value, *one.ends())) for one in estimates), strict=True)
    (*values, overall), (*lower, low), (*upper, high) = columns
    comparison = GroupComparison(
        figure=name,
        threshold=threshold,
        values=Figure(value=tuple(values), interval=Ends(tuple(lower), tuple(upper))),
        overall=Figure(value=overall, interval=None if low is None or high is None else Ends(low, high)),
        highest=None,
        lowest=None,
        difference=Figure(value=None),
        p_value=None,
        adjusted_p_value=None,
    )
    largest = largest_difference(tested, confidence=draw.confidence, noise=noise)
    if largest is None:
        return comparison
    return replace(
        comparison,
        highest=draw.keys[largest.highest],
        lowest=draw.keys[largest.lowest],
        difference=Figure(
            value=round(largest.difference, DECIMALS),
            interval=Ends(*(round(end, DECIMALS) for end in largest.interval)),
        ),
        p_value=round(largest.p_value, DECIMALS),
    )


def _shown(value: float) -> float | None:
    return round(value, DECIMALS) + 0.0 if np.isfinite(value) else None
