"""From the draws to two curves and their comparison: deterministic, and free of charge."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.options import PublishedCurve
from spark_jobs.contract.privacy import exact_sum
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.diagnostics._simulation import DECIMALS, rounded
from spark_jobs.diagnostics.roc_comparison.difference import AreaDifference, independent_rows, same_rows
from spark_jobs.diagnostics.roc_comparison.measurement import ComparisonDraw
from spark_jobs.diagnostics.roc_comparison.result import INDEPENDENT, SAME, RocComparison
from spark_jobs.diagnostics.roc_curve import RocCurve
from spark_jobs.diagnostics.roc_curve.summary import summarise as curve_of
from spark_jobs.diagnostics.undefined import publishable


def summarise(draw: ComparisonDraw, *, seed: int) -> RocComparison:
    """The comparison that a draw makes; the same draw and seed give the same one.

    Args:
        draw: the draw.
        seed: of the simulations; public.
    """
    first, of_pairs = curve_of(draw.first, seed=seed), draw.first_of_pairs or draw.first
    earlier = draw.compare_with
    if draw.second is not None and draw.sums is not None:
        second = curve_of(draw.second, seed=seed + 1)
        difference = same_rows(of_pairs, draw.second, draw.sums, confidence=first.confidence, seed=seed)
        second = _with_sizes(second, difference)
        first = first if draw.first_is_shared else _with_sizes(first, difference)
    elif earlier is not None:
        second = published(earlier.curve)
        difference = independent_rows(first, second, confidence=first.confidence)
    else:
        raise ValueError("the draw has neither a second curve nor an earlier one")
    return publishable("roc_comparison", _result(draw, first, second, difference))


def _result(draw: ComparisonDraw, first: RocCurve, second: RocCurve, difference: AreaDifference) -> RocComparison:
    defined = difference.defined and first.status == second.status == OK
    value, of_rows, of_population = (
        tuple(round(number, DECIMALS) for number in numbers)
        for numbers in ((difference.value,), difference.of_rows, difference.of_population)
    )
    population = (min(of_rows[0], of_population[0]), max(of_rows[1], of_population[1]))
    share = float(rounded(privacy_share(np.array(of_rows), np.array(population))))
    return RocComparison(
        names=draw.names,
        rows=SAME if draw.compare_with is None else INDEPENDENT,
        first_is_shared=draw.first_is_shared,
        auc_difference=value[0],
        auc_interval=(of_rows[0], of_rows[1]),
        auc_interval_population=population,
        auc_privacy_share=share,
        auc_p_value=round(difference.p_value, DECIMALS),
        p_value_floor=round(difference.p_value_floor, DECIMALS),
        largest_difference=round(_largest_gap(first, second), DECIMALS) if defined else None,
        positives=round(max(difference.sizes[1], 0.0), DECIMALS),
        negatives=round(max(difference.sizes[0], 0.0), DECIMALS),
        first=first,
        second=second,
        released_by=None if draw.compare_with is None else draw.compare_with.released_by,
        status=OK if defined else UNDEFINED,
        confidence=first.confidence,
        epsilon=exact_sum(draw.epsilon, draw.first.epsilon) if draw.first_is_shared else draw.epsilon,
        neighbours=draw.neighbours,
        guarantee=PRIVATE if draw.guarantee == second.guarantee == PRIVATE else NOT_PRIVATE,
    )


def _with_sizes(curve: RocCurve, difference: AreaDifference) -> RocCurve:
    """The curve with the class sizes of the sums, so that a release has one number of positives."""
    negatives, positives = (round(max(size, 0.0), DECIMALS) for size in difference.sizes)
    return replace(curve, negatives=negatives, positives=positives)


def _largest_gap(first: RocCurve, second: RocCurve) -> float:
    runs = first.fpr + first.tpr, second.fpr + second.tpr
    at = np.union1d(*runs)
    return float(np.abs(np.interp(at, runs[0], first.tpr) - np.interp(at, runs[1], second.tpr)).max())


def published(curve: PublishedCurve) -> RocCurve:
    """An earlier release's curve, rebuilt from the fields of a request."""
    fields = {name: getattr(curve, name) for name in PublishedCurve.model_fields}
    lists = (name for name, value in fields.items() if isinstance(value, tuple) and "interval" not in name)
    arrays = {name: np.array(fields[name], dtype=np.float64) for name in lists}
    return RocCurve(**{**fields, **arrays, "thresholds": np.append(math.inf, arrays["thresholds"][1:])})
