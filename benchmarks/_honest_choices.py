"""The errors of every method of a kind on one table of its law: curves, groups of scores, residuals, fits, streams.

Lines, histograms and areas are elsewhere (``choices``, ``_honest_scores``). What is measured:

* ROC curves: the area between the released curve and the exact one. A curve that is undefined is the diagonal.
* Binned residuals and calibration: the bins of methods differ, so both are read as steps over the scores. The error is
  the mean distance, over exact groups of equal size, as many as the default has bins, of a group's mean step from its
  exact figure. Wide bins are wrong where the figure changes, narrow ones are noisy.
* Residual plots: DPBench's scaled error of rectangles of cells. The grid is the same for all methods.
* Fits: the mean distance of the rows' fitted values from those of the best fit; of an undefined fit, the mean's.
* Streams: the mean absolute error of a count. There is no ``auto``; the default stands for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks._honest_numbers import FITTED_ROWS, ROWS
from benchmarks._honest_scores import scored_table
from benchmarks._honest_streams import EVENTS, drawn_stream
from benchmarks._residual_models import UNIT, drawn_model
from benchmarks._score_law import POSITIVES
from benchmarks.choices import AUTO, HISTOGRAMS, Errors, raced
from benchmarks.histograms import range_error
from benchmarks.logistic_law import Table, drawn_linear, drawn_table
from benchmarks.roc_accuracy import METHODS as CURVES
from benchmarks.roc_accuracy import Exact
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options import BinnedResidualsSettings, CalibrationSettings
from spark_jobs.diagnostics import (
    binned_residuals,
    calibration,
    linear_fit,
    logistic_fit,
    residual_plot,
    roc_curve,
)
from spark_jobs.diagnostics._score_groups.pools import pools
from spark_jobs.diagnostics.calibration.summary import EXPECTED
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import edges_of, middles_of
from spark_jobs.statistics import ResidualCounts, ScoreCounts

CURVE_METHODS = ("fixed 16", "fixed 64", "fixed 1024", "equal depth 16", "tree", "medians 16")
"""Names of ``roc_accuracy``'s."""
GROUP_METHODS = (AUTO, "recursive_medians", "fixed_bins")
GROUPED = (
    ("binned_residuals", binned_residuals, BinnedResidualsSettings.default_bins["auto"], 0.0),
    ("calibration", calibration, CalibrationSettings.default_bins["auto"], EXPECTED),
)
DELTA = "1e-9"
STREAMS: dict[str, dict[str, Any]] = {
    AUTO: {},
    **{f"pegasus, {name}": {"method": "pegasus", "smoothing": name} for name in ("median", "mean", "james_stein")},
}


def score_choices(random: np.random.Generator, *, releases: int) -> dict[str, Errors]:
    """Of ROC curves, binned residuals and calibrations of one table."""
    table, _ = scored_table(random, float(random.choice(POSITIVES)))
    first, exact = int(random.integers(1 << 32)), Exact.of(table.counts)

    def of_curve(method: str, seed: int) -> FloatArray:
        options: dict[str, Any] = dict(CURVES["default" if method == AUTO else method])
        curve = trace(roc_curve.measure(table.counts, epsilon=table.epsilon, noise=SeededNoise(seed), **options))
        return np.array([exact.distance(curve.fpr, curve.tpr)])

    errors = {"roc_curve": _means(of_curve, (AUTO, *CURVE_METHODS), releases, first)}
    for name, kind, groups, expected in GROUPED:

        def of_groups(
            method: str, seed: int, kind: Any = kind, groups: int = groups, expected: float = expected
        ) -> FloatArray:
            drawn = kind.measure(table.counts, epsilon=table.epsilon, method=method, noise=SeededNoise(seed))
            pooled = pools(drawn, seed=seed, expected=expected, copies=100).released
            steps = pooled.residual if kind is binned_residuals else pooled.observed
            return np.array([step_error(table.counts, pooled.lower, steps, groups, share=kind is calibration)])

        errors[name] = _means(of_groups, GROUP_METHODS, releases, first)
    return errors


def step_error(statistic: ScoreCounts, lower: FloatArray, steps: FloatArray, groups: int, *, share: bool) -> float:
    """The mean distance of steps over the scores from the exact figures of as many groups of equal size.

    Args:
        statistic: the exact counts.
        lower: where each step begins.
        steps: the released figures.
        groups: how many.
        share: whether figures are shares of positives; otherwise, mean labels less mean scores.
    """
    rows, places = statistic.negatives + statistic.positives, edges_of(statistic.cells)[:-1]
    sums = statistic.positives - (0.0 if share else rows * middles_of(statistic.cells))
    released = rows * steps[np.searchsorted(lower, places, side="right") - 1]
    group = ((np.cumsum(rows) - rows / 2) / rows.sum() * groups).astype(np.int64)
    return float(np.abs(np.bincount(group, released - sums)).sum() / rows.sum())


def residual_choices(random: np.random.Generator, *, releases: int) -> dict[str, Errors]:
    """Of the cells of a residual plot."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    rows = int(float(random.choice(ROWS)) / epsilon)
    statistic = ResidualCounts.from_arrays(*drawn_model(random)(rows, random), unit=UNIT)

    def of_cells(method: Any, seed: int) -> FloatArray:
        drawn = residual_plot.measure(statistic, epsilon=epsilon, method=method, noise=SeededNoise(seed))
        return np.array([range_error(drawn.box.counts(statistic), drawn.cells)])

    return {"residual_plot": _means(of_cells, (AUTO, *HISTOGRAMS), releases, int(random.integers(1 << 32)))}


def fit_choices(random: np.random.Generator, *, releases: int) -> dict[str, Errors]:
    """Of the noise of a linear and of a logistic fit that may spend delta."""
    kinds: tuple[tuple[str, Any, Table, Any], ...] = (
        ("linear_fit, with delta", linear_fit, drawn_linear(random), np.asarray),
        ("logistic_fit, with delta", logistic_fit, drawn_table(int(random.integers(1 << 31))), expit),
    )
    errors = {}
    for name, kind, table, response in kinds:
        epsilon = float(random.choice(FITTED_ROWS)) / table.labels.size
        fitted = response(table.matrix @ table.likeliest)

        def of_fit(
            method: str,
            seed: int,
            kind: Any = kind,
            table: Table = table,
            response: Any = response,
            epsilon: float = epsilon,
            fitted: FloatArray = fitted,
        ) -> FloatArray:
            delta = "0" if method == "laplace" else DELTA
            fit = kind.release(table.rows, epsilon=epsilon, delta=delta, method=method, noise=SeededNoise(seed))
            away = response(table.matrix @ fit.coefficients.value) - fitted
            return np.array([np.abs(away if np.isfinite(away).all() else fitted - fitted.mean()).mean()])

        methods = (AUTO, "k_norm", "laplace", "gaussian")
        errors[name] = _means(of_fit, methods, releases, int(random.integers(1 << 32)))
    return errors


def stream_choices(random: np.random.Generator, *, releases: int) -> dict[str, Errors]:
    """Of the counts of a stream."""
    epsilon = float(random.choice([0.1, 1.0]))
    counts = drawn_stream(random, float(random.choice(EVENTS)) / epsilon)

    def of_steps(method: str, seed: int) -> FloatArray:
        stream = CountStream(epsilon=epsilon, noise=SeededNoise(seed), **STREAMS[method])
        return np.array([np.abs(stream.steps(counts) - counts).mean()])

    return {"count_stream, the default": _means(of_steps, tuple(STREAMS), releases, int(random.integers(1 << 32)))}


def _means(errors_of: Any, methods: tuple[str, ...], releases: int, first: int) -> Errors:
    means = raced(errors_of, methods, releases=releases, first=first)
    return {method: float(mean) for method, (mean,) in means.items()}
