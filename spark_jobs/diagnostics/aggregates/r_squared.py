"""R-squared of the predictions of an outcome in the cells of a table: ``1 - sum e^2 / sum (y - mean)^2``, by inversion.

Let S be the sum of ``(y - mean)^2``, and U the sum of squared errors. R-squared is the ratio of ``S - U`` to S. Both
terms of the ratio are sums of released numbers whose weights depend on the mean of y, which is released too
(``plugged``). An R-squared below -1 counts as -1, since it makes no difference by how much such a model is wrong. If S
does not exceed ``DEFINED_STDDEVS`` standard deviations of its noise, R-squared is undefined, and its interval is the
whole range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.contract.figure import Ends, Figure, Numbers
from spark_jobs.contract.options import Measured
from spark_jobs.contract.options.measures import Power
from spark_jobs.diagnostics.aggregates.estimates import CellEstimates
from spark_jobs.diagnostics.aggregates.plugged import plugged_intervals
from spark_jobs.diagnostics.aggregates.rounding import published

DEFINED_STDDEVS = 3.0


class MeasureSums(NamedTuple):
    """A measure, and the places of its sums among a design's terms."""

    measure: Measured
    terms: Mapping[Power, int]


def r_squared(of: CellEstimates, errors: MeasureSums, outcome: MeasureSums, level: float) -> Numbers:
    """R-squared of each cell; NaN where it is undefined.

    Args:
        of: the noisy numbers of the cells.
        errors: the measure of the prediction errors, with the sum of their squares.
        outcome: the measure of the outcome, with the sums of its values and of their squares.
        level: nominal level of intervals.
    """
    rows, value, square = of.axis(-1), of.axis(outcome.terms["value"]), of.axis(outcome.terms["square"])
    unit = max(errors.measure.half, outcome.measure.half) ** 2
    error_weight, outcome_weight = errors.measure.half**2 / unit, outcome.measure.half**2 / unit
    squared_errors = error_weight * (rows + of.axis(errors.terms["square"])) / 2

    def spread(means: FloatArray) -> FloatArray:
        """Weights of the sum of ``(y - mean)^2``."""
        at = means[:, None]
        return outcome_weight * ((0.5 + at**2) * rows - 2 * at * value + square / 2)

    means = np.clip(of.centred[outcome.terms["value"]] / np.maximum(of.rows, 1.0), -1.0, 1.0)
    lower, upper = plugged_intervals(
        of.numbers, means, lambda at: spread(at) - squared_errors, spread, of.copies, level
    )
    weights = spread(means)
    spreads = np.einsum("ki,ik->k", weights, of.numbers)
    stddevs = np.sqrt(np.einsum("ki,ij,kj->k", weights, of.copies.covariance, weights))
    defined = spreads >= DEFINED_STDDEVS * stddevs
    positive = np.where(defined, spreads, 1.0)
    values = np.clip(1 - squared_errors @ of.numbers / positive, -1.0, 1.0)
    moved = _moved_by_rounding(errors.measure, outcome.measure, unit * positive / np.maximum(of.rows, 1.0))
    return Figure(
        value=np.where(defined, published(values), np.nan),
        interval=Ends(
            np.where(defined, published(np.maximum(lower - moved, -1.0)), -1.0),
            np.where(defined, published(np.minimum(upper + moved, 1.0)), 1.0),
        ),
    )


def _moved_by_rounding(errors: Measured, outcome: Measured, variances: FloatArray) -> FloatArray:
    """By how much rounding to lattices may move an R-squared of at least -1, by the variances of the outcome."""
    largest = np.sqrt(2 * variances)  # the root of the mean square of errors, at an R-squared of -1
    of_errors, of_outcome = (2 * largest * one.off + one.off**2 + one.square_off for one in (errors, outcome))
    moved: FloatArray = (of_errors + 2 * of_outcome) / variances
    return moved
