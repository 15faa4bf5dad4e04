"""The summary of the draws as two curves and their comparison; deterministic post-processing, at no cost."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

import numpy as np

from spark_jobs.contract.figure import DECIMALS, Ends, Figure
from spark_jobs.contract.figures import OK, UNDEFINED
from spark_jobs.contract.options import PublishedCurve
from spark_jobs.contract.privacy import exact_sum
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.contract.results.curves import INDEPENDENT, SAME, RocComparison, RocCurve
from spark_jobs.diagnostics._populations import privacy_share
from spark_jobs.diagnostics._simulation import rounded
from spark_jobs.diagnostics.roc_comparison.difference import AreaDifference, independent_rows, same_rows
from spark_jobs.diagnostics.roc_comparison.measurement import ComparisonDraw
from spark_jobs.diagnostics.roc_curve.summary import summarise as curve_of
from spark_jobs.diagnostics.sampling import OF_ROWS, Sampling


def summarise(draw: ComparisonDraw, *, seed: int, sampling: Sampling = OF_ROWS) -> RocComparison:
    """The comparison of a draw; the same draw and seed give the same comparison.

    Args:
        draw: the draw.
        seed: public seed of the simulations.
        sampling: what was sampled, rows or units of several rows, with the design effects.
    """
    first, of_pairs = curve_of(draw.first, seed=seed, sampling=sampling), draw.first_of_pairs or draw.first
    earlier, effect = draw.compare_with, sampling.effect("auc_difference").value
    if draw.second is not None and draw.sums is not None:
        second = curve_of(draw.second, seed=seed + 1, sampling=Sampling(max_rows=sampling.max_rows))
        difference = same_rows(of_pairs, draw.second, draw.sums, confidence=first.confidence, seed=seed, effect=effect)
        second = _with_sizes(second, difference)
        first = first if draw.first_is_shared else _with_sizes(first, difference)
    elif earlier is not None:
        second = published(earlier.curve)
        difference = independent_rows(first, second, confidence=first.confidence, effect=effect)
    else:
        raise ValueError("the draw has neither a second curve nor an earlier one")
    return _result(draw, first, second, difference)


def _result(draw: ComparisonDraw, first: RocCurve, second: RocCurve, difference: AreaDifference) -> RocComparison:
    defined = difference.defined and UNDEFINED not in (first.status, second.status)
    value, of_rows, of_population = (
        tuple(round(number, DECIMALS) for number in numbers)
        for numbers in ((difference.value,), difference.of_rows, difference.of_population)
    )
    population = Ends(min(of_rows[0], of_population[0]), max(of_rows[1], of_population[1]))
    share = float(rounded(privacy_share(np.array(of_rows), np.array(population))))
    return RocComparison(
        names=draw.names,
        rows=SAME if draw.compare_with is None else INDEPENDENT,
        first_is_shared=draw.first_is_shared,
        auc_difference=Figure(value=value[0], interval=Ends(*of_rows), population=population, privacy_share=share),
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
    runs = first.fpr + first.tpr.value, second.fpr + second.tpr.value
    at = np.union1d(*runs)
    return float(np.abs(np.interp(at, runs[0], first.tpr.value) - np.interp(at, runs[1], second.tpr.value)).max())


def published(curve: PublishedCurve) -> RocCurve:
    """An earlier release's curve, rebuilt from the fields of a request."""
    fields = {name: getattr(curve, name) for name in PublishedCurve.model_fields}
    for name in ("thresholds", *RocCurve.figure_names()):
        if isinstance(fields[name], tuple) and "interval" not in name:
            fields[name] = np.array(fields[name], dtype=np.float64)
    figures = {name: spec.read(fields) for name, spec in RocCurve.specs().items()}
    public = {one.name: fields[one.name] for one in dataclasses.fields(RocCurve) if one.name in fields}
    thresholds = np.append(math.inf, fields["thresholds"][1:])
    return RocCurve(**{**public, **figures, "fpr": fields["fpr"], "thresholds": thresholds})
