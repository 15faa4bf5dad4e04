"""One release of raw rows, and the intervals that it shows, beside the exact figures of these rows (``_exact``).

Several of the other laws take the exact figure from the counts that were released, and so cannot see what a grid does
to it. Here rows are as people have them (``_raw_law``), and no exact figure has gone through the product. A threshold
is the one that was asked for; of tiny scores, which the grid tells apart to a 256th of themselves, the one in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from benchmarks import _exact as exact
from benchmarks._raw_law import (
    Points,
    Scored,
    Values,
    drawn_groups,
    drawn_residuals,
    drawn_scores,
    drawn_values,
)
from benchmarks._shown import LEVEL, Ends, Intervals, Kind, Shown, noise_of, shown_at, shown_of, worst_of
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.options import EcdfOptions, QuantileOptions
from spark_jobs.contract.options.linear import CELLS_OF_SUMS
from spark_jobs.contract.results.score_figures import RATES
from spark_jobs.diagnostics import (
    auc,
    average_precision,
    binned_residuals,
    calibration,
    cdf_points,
    confusion_matrix,
    ecdf,
    linear_regression,
    quantile,
    ranking_figures,
    recalibration,
    residual_plot,
    roc_curve,
)
from spark_jobs.statistics import Moments, ResidualCounts, ScoreCounts, ValueCounts

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
CELLS = (1_024, 32_768)
"""Of a grid of values: in the documentation's examples, and by default."""
NEAR = 1e-12
"""Of a value: what decimals lose in doubles."""
FINEST_OF_TINY = 2.0**-8
"""Width of a cell of the grid of scores near 0, over the score."""
CLIP = 1e-3
"""Of scores, for the log loss."""
WIDE, WIDE_OF_ONE = (kind(column="x").statistic.grid for kind in (EcdfOptions, QuantileOptions))
"""The grids of requests without bounds: of a whole function, and of one quantile."""


def of_raw_values(forms: tuple[str, ...], kind: str) -> Kind:
    """Quantiles and distribution functions of columns of these forms, called ``kind`` in the report."""

    def release(random: np.random.Generator, signal: float) -> Intervals:
        epsilon = float(random.choice([0.1, 1.0]))
        column = drawn_values(random, rows=int(signal / epsilon), forms=forms)
        values = exact.within(column.values, column.bounds)
        statistic = counted(column, cells=int(random.choice(CELLS)))
        level, terms = float(random.choice(LEVELS)), {"epsilon": epsilon, "confidence": LEVEL}
        place, at = exact.quantile(values, level), float(random.choice(values))
        one = quantile.release(statistic, level=level, noise=noise_of(random), **terms)
        shown: Intervals = {
            "quantile, raw": in_raw_cells(statistic.grid, one.value, one.interval, place),
            **_of_function(statistic, values, level, at, random, terms),
        }
        points = cdf_points.release(statistic, thresholds=[at], quantiles=[level], noise=noise_of(random), **terms)
        shown |= dict.fromkeys(("cdf_points: a fraction, raw", "cdf_points: a quantile, raw"))
        if points.status == "ok":
            # the threshold in force, which is stated; without a step it is the end that a cell's values stay below
            share = exact.share_below if statistic.grid.step is None else exact.share_up_to
            ends = (points.cdf.value, *points.cdf.ends())
            shown["cdf_points: a fraction, raw"] = shown_at(0, ends, share(values, points.thresholds))
            [sought] = points.quantiles
            shown["cdf_points: a quantile, raw"] = in_raw_cells(
                statistic.grid, sought.value, sought.figure.ends(), place
            )
        return _named(shown, kind)

    return release


def of_raw_values_without_bounds(random: np.random.Generator, signal: float) -> Intervals:
    """Quantiles of columns whose bounds nobody gave."""
    epsilon = float(random.choice([0.1, 1.0]))
    column = drawn_values(random, rows=int(signal / epsilon), forms=WITHOUT_BOUNDS)
    statistic, finer = (ValueCounts.from_arrays(column.values, **grid) for grid in (WIDE, WIDE_OF_ONE))
    level = float(random.choice(LEVELS))
    place = exact.quantile(column.values, level)
    terms: dict[str, Any] = {"epsilon": epsilon, "confidence": LEVEL}
    one = quantile.release(finer, level=level, noise=noise_of(random), **terms)
    whole = ecdf.release(
        statistic, find_bounds=str(random.choice(["linear", "log"])), quantiles=LEVELS, noise=noise_of(random), **terms
    )
    shown: Intervals = {
        "quantile without bounds, raw": in_raw_cells(finer.grid, one.value, one.interval, place),
        "ecdf: a quantile, bounds found, raw": None,
    }
    if whole.status == "ok":
        ends = tuple(float(end) for end in whole.quantile_interval(level))
        shown["ecdf: a quantile, bounds found, raw"] = _in_cells(
            np.append(whole.values, whole.bounds[1]), float(whole.quantile(level)), ends, place
        )
    return shown


WITHOUT_BOUNDS = ("heaped ages", "prices", "zeros and a tail", "times", "identifiers", "smooth and skewed", "an atom")


def counted(column: Values, *, cells: int) -> ValueCounts:
    """The counts of a column within its bounds."""
    lower, upper = column.bounds
    return ValueCounts.from_arrays(column.values, lower=lower, upper=upper, cells=cells, step=column.step)


def in_raw_cells(grid: Any, value: float | None, ends: Sequence[float | None] | None, place: float) -> Shown | None:
    """A figure of a grid of values, whose interval holds or misses a raw value."""
    if value is None or ends is None or ends[0] is None or ends[1] is None:
        return None
    return _in_cells(grid.edges, value, (ends[0], ends[1]), place, ends_inside=grid.step is not None)


def _in_cells(
    edges: FloatArray, value: float, ends: tuple[float, ...], place: float, *, ends_inside: bool = False
) -> Shown:
    """In numbers of cells; the exact figure is outside if the raw value is outside, however near."""
    starts, (low, high) = edges[:-1], ends
    of_last: Literal["left", "right"] = "right" if ends_inside or high == low else "left"
    first, own, true = (float(np.searchsorted(starts, one, side="right") - 1) for one in (low, value, place))
    last = float(np.searchsorted(starts, high, side=of_last) - 1)
    first, last = min(first, own), max(last, own)
    inside = low - NEAR * abs(low) <= place <= high + NEAR * abs(high)
    true = float(np.clip(true, first, last)) if inside else first - 1 if place < low else last + 1
    return Shown(value=own, low=first, high=last, exact=true, cell=1.0)


def _of_function(
    statistic: ValueCounts,
    values: FloatArray,
    level: float,
    at: float,
    random: np.random.Generator,
    terms: dict[str, Any],
) -> Intervals:
    """A distribution function read at values of rows, and as it stands in the data file."""
    whole = ecdf.release(statistic, quantiles=LEVELS, noise=noise_of(random), **terms)
    names = ("ecdf: a fraction, raw", "ecdf: all fractions, raw", "ecdf: a quantile, raw")
    shown: Intervals = dict.fromkeys(names)
    if whole.status != "ok":
        return shown
    of_value = np.array([float(whole.evaluate(at))])
    band = tuple(np.atleast_1d(end) for end in whole.band(at))
    shown[names[0]] = shown_at(0, (of_value, *band), exact.share_up_to(values, [at]))
    every = np.unique(np.concatenate([whole.values[:-1], values[values < whole.bounds[1]]]))
    bands: Ends = (whole.evaluate(every), *whole.band(every, everywhere=True))
    shown[names[1]] = worst_of(bands, exact.share_up_to(values, every))
    ends = tuple(float(end) for end in whole.quantile_interval(level))
    shown[names[2]] = in_raw_cells(statistic.grid, float(whole.quantile(level)), ends, exact.quantile(values, level))
    return shown


def of_raw_scores(forms: tuple[str, ...], kind: str) -> Kind:
    """Areas, rates at a round threshold, groups of scores and figures of a ranking, of scores of these forms."""

    def release(random: np.random.Generator, positives: float) -> Intervals:
        table = drawn_scores(random, positives=int(positives), forms=forms)
        counts = ScoreCounts.from_arrays(table.labels, table.scores)
        terms: dict[str, Any] = {"epsilon": table.epsilon, "confidence": LEVEL}
        figures = (_areas, _rates, _groups, _ranking)
        shown: Intervals = {}
        for of_table in figures:
            shown |= of_table(table, counts, terms, random)
        return _named(shown, kind)

    return release


def _named(shown: Intervals, kind: str) -> Intervals:
    """With the kind of rows in the place of ``raw``."""
    return {f"{name.removesuffix('raw')}{kind}": one for name, one in shown.items()}


def _areas(table: Scored, counts: ScoreCounts, terms: dict[str, Any], random: np.random.Generator) -> Intervals:
    area = exact.area(table.labels, table.scores)
    traced = roc_curve.release(counts, noise=noise_of(random), **terms)
    single = auc.release(counts, noise=noise_of(random), **terms)
    precision = average_precision.release(counts, noise=noise_of(random), **terms)
    return {
        "roc_curve: AUC, raw": shown_of(traced.auc.value, traced.auc.interval, area, coarse=traced.status == "coarse"),
        "auc, raw": shown_of(single.value, single.interval, area, coarse=single.status == "coarse"),
        "average_precision, raw": shown_of(
            precision.value, precision.interval, exact.average_precision(table.labels, table.scores)
        ),
    }


def _rates(table: Scored, counts: ScoreCounts, terms: dict[str, Any], random: np.random.Generator) -> Intervals:
    matrix = confusion_matrix.release(counts, thresholds=[table.threshold], noise=noise_of(random), **terms)
    true = exact.rates(table.labels, table.scores, _threshold(table, float(matrix.thresholds[0])))
    shown: Intervals = {}
    for rate in RATES:
        value, low, high = (float(ends[0]) for ends in (getattr(matrix, rate).value, *getattr(matrix, rate).ends()))
        known = np.isfinite([value, true[rate]]).all()
        shown[f"confusion_matrix: {rate}, raw"] = (
            Shown(value=value, low=low, high=high, exact=true[rate]) if known else None
        )
    return shown


def _threshold(table: Scored, in_force: float) -> float:
    """The threshold whose rates are exact: of tiny scores the one in force, if it is the start of a cell of the asked.

    A threshold that was moved up, or by more than a cell, is wrong.
    """
    near = table.threshold * (1 - FINEST_OF_TINY) <= in_force <= table.threshold
    return in_force if table.form == "tiny" and near else table.threshold


def _groups(table: Scored, counts: ScoreCounts, terms: dict[str, Any], random: np.random.Generator) -> Intervals:
    names = (
        "binned_residuals: a residual, raw", "calibration: an observed share, raw", "calibration: error, raw",
        "calibration: Hosmer-Lemeshow, raw",
    )  # fmt: skip
    shown: Intervals = dict.fromkeys(names)
    bins = binned_residuals.release(counts, noise=noise_of(random), **terms)
    if bins.status == "ok":
        first, (rows, positives, sums, _) = _pools(table, bins)
        one = int(random.choice(np.flatnonzero(rows)))
        ends = (bins.residual.value[first], bins.residual.lower[first], bins.residual.upper[first])
        shown[names[0]] = shown_at(one, ends, (positives - sums) / np.maximum(rows, 1))
    groups = calibration.release(counts, noise=noise_of(random), **terms)
    if groups.status == "ok":
        first, (rows, positives, sums, variances) = _pools(table, groups)
        one = int(random.choice(np.flatnonzero(rows)))
        ends = (groups.observed.value[first], groups.observed.lower[first], groups.observed.upper[first])
        shown[names[1]] = shown_at(one, ends, positives / np.maximum(rows, 1))
        error = float(np.abs(positives - sums).sum() / rows.sum())
        shown[names[2]] = shown_of(groups.ece.value, groups.ece.interval, error)
        if (variances > 0).all():
            chi_squared = float(((positives - sums) ** 2 / variances).sum())
            shown[names[3]] = shown_of(groups.statistic.value, groups.statistic.interval, chi_squared)
    return shown


def _pools(table: Scored, bins: Any) -> tuple[Any, tuple[FloatArray, ...]]:
    """The first bin of each pool, and the exact figures of the rows between its released ends."""
    first = np.flatnonzero(np.diff(bins.pool, prepend=-1))
    starts = np.append(-np.inf, bins.lower[first][1:])
    return first, exact.of_groups(table.labels, table.scores, starts)


def _ranking(table: Scored, counts: ScoreCounts, terms: dict[str, Any], random: np.random.Generator) -> Intervals:
    names = ("ranking_figures: gini, raw", "ranking_figures: ks, raw", "ranking_figures: cost, raw",
             "ranking_figures: a gain, raw")  # fmt: skip
    shown: Intervals = dict.fromkeys(names)
    missed = float((1 - table.labels).sum() / table.labels.sum())
    ranked = ranking_figures.release(counts, noise=noise_of(random), false_negative_cost=missed, **terms)
    if ranked.status != "ok":
        return shown
    threshold = None if ranked.threshold is None or ranked.threshold > 1 else float(ranked.threshold)
    figures = {
        "gini": 2 * exact.area(table.labels, table.scores) - 1,
        "ks": exact.separation(table.labels, table.scores),
        "cost": exact.cost(
            table.labels, table.scores, threshold, false=ranked.false_positive_cost, missed=ranked.false_negative_cost
        ),
    }
    for name, figure in zip(names, figures, strict=False):
        shown[name] = shown_of(getattr(ranked, figure).value, ranked.published()[f"{figure}_interval"], figures[figure])
    place = int(random.integers(ranked.depths.size))
    gain = exact.gain(table.labels, table.scores, float(ranked.depths[place]))
    ends = (float(ranked.gain.lower[place]), float(ranked.gain.upper[place]))
    shown[names[3]] = shown_of(float(ranked.gain.value[place]), ends, gain)
    return shown


def of_raw_recalibrations(forms: tuple[str, ...], kind: str) -> Kind:
    """Losses, and intercept and slope of the map that recalibrates, of scores of these forms, called ``kind``."""

    def release(random: np.random.Generator, positives: float) -> Intervals:
        table = drawn_scores(random, positives=int(positives), forms=forms)
        counts = ScoreCounts.from_arrays(table.labels, table.scores)
        outcome = recalibration.release(
            counts, epsilon=table.epsilon, confidence=LEVEL, clip=CLIP, noise=noise_of(random)
        )
        true = exact.losses(table.labels, table.scores, clip=CLIP)
        return {
            f"recalibration: {name}, {kind}": shown_of(
                getattr(outcome, name).value, outcome.published()[f"{name}_interval"], true[name]
            )
            if np.isfinite(true[name])
            else None
            for name in ("brier", "log_loss", "slope", "intercept")
        }

    return release


def of_raw_points(random: np.random.Generator, signal: float) -> Intervals:
    """A height, slope and intercept of one group, and of one of many."""
    shown: Intervals = {}
    for groups, name in ((1, ""), (20, ", 20 groups")):
        epsilon = float(random.choice([0.5, 1.0, 4.0]))
        points = drawn_groups(random, groups=groups, rows=max(int(signal / epsilon), 10))
        shown |= _line(points, name, epsilon, random)
    return shown


def of_raw_groups(random: np.random.Generator, groups: float) -> Intervals:
    """A height, slope and intercept of one of many groups of 50 to 1,000 rows."""
    rows = int(np.exp(random.uniform(np.log(50), np.log(1_000))))
    points = drawn_groups(random, groups=int(groups), rows=rows)
    return _line(points, ", groups of 50 to 1,000", float(random.choice([0.5, 1.0, 4.0])), random)


def _line(points: Points, name: str, epsilon: float, random: np.random.Generator) -> Intervals:
    keys = None if points.groups == 1 else [str(group) for group in range(points.groups)]
    (x_low, x_high), (y_low, y_high) = points.x_bounds, points.y_bounds
    statistic = Moments.from_arrays(
        points.x, points.y, groups=None if keys is None else points.group.astype(str), keys=keys,
        lower=(x_low, y_low), upper=(x_high, y_high), cells=CELLS_OF_SUMS,
    )  # fmt: skip
    fit = linear_regression.release(
        statistic, epsilon=epsilon, method="noisy_moments", confidence=LEVEL, noise=noise_of(random)
    )
    group, end = int(random.integers(points.groups)), int(random.integers(2))
    own = points.group == group
    slope, intercept = exact.line(points.x[own], points.y[own])
    height, wide = y_high - y_low, x_high - x_low
    shown: Intervals = {}
    for figure, field, at, true, unit in (
        ("a height", "predictions", (group, end), intercept + slope * float(fit.x[end]), height),
        ("a slope", "slope", group, slope, height / wide),
        ("an intercept", "intercept", group, intercept, height),
    ):
        # in units of the box, so that slack means the same everywhere
        value, low, high = (float(fit.published()[f"{field}{part}"][at]) / unit for part in ("", "_lower", "_upper"))
        if figure == "a height":
            true = float(np.clip(true, y_low, y_high))
        whole = float(figure == "a height" and low <= y_low / unit and high >= y_high / unit)
        one = Shown(value=value, low=low, high=high, exact=true / unit, whole=whole)
        shown[f"linear_regression: {figure}{name}, raw"] = one if np.isfinite([value, low, high, true]).all() else None
    return shown


def of_raw_residuals(random: np.random.Generator, signal: float) -> Intervals:
    """Mean, spread and a quantile of the residuals in a column of a residual plot."""
    epsilon = float(random.choice([0.5, 1.0, 2.0]))
    fitted, residuals = drawn_residuals(random, rows=int(signal / epsilon))
    statistic = ResidualCounts.from_arrays(fitted, residuals, unit=1.0)
    plot = residual_plot.release(statistic, epsilon=epsilon, confidence=LEVEL, noise=noise_of(random))
    along = {"residual_plot: a mean, raw": "trend", "residual_plot: a spread, raw": "spread"}
    shown: Intervals = dict.fromkeys((*along, "residual_plot: a quantile, raw"))
    if plot.status != "ok":
        return shown
    # columns of one pool share their figures
    pool = np.cumsum(np.append(0, np.diff(plot.column_rows) != 0))
    own = np.flatnonzero(pool == random.choice(np.unique(pool)))
    ends = float(plot.fitted_edges[own[0]]), float(plot.fitted_edges[own[-1] + 1])
    rows = exact.column(fitted, residuals, ends, plot.residual_bound)
    bound = plot.residual_bound
    if rows.size:
        for (name, field), figure in zip(along.items(), (float(rows.mean()), exact.spread(rows)), strict=True):
            band = tuple(plot.published()[f"{field}{end}"] / bound for end in ("", "_lower", "_upper"))
            shown[name] = shown_at(int(own[0]), band, np.full(plot.bins, figure / bound))
    every, place = np.clip(residuals, -bound, bound), int(random.integers(plot.qq_residual.value.size))
    level = float(exact.stats.norm.cdf(plot.qq_theoretical[place]))
    shown["residual_plot: a quantile, raw"] = shown_at(
        place,
        (plot.qq_residual.value / bound, plot.qq_residual.lower / bound, plot.qq_residual.upper / bound),
        np.full(plot.qq_residual.value.size, exact.quantile(every, level) / bound),
    )
    return shown
