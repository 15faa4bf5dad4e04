"""Without noise, every released interval holds the exact figure of the raw rows.

With noise, a figure that a grid has moved by half a cell hides in its interval until there are many rows; 300 releases
are needed to see it. Without noise nothing hides it. So every kind is released here with noise of 0, and read by
simulations whose noise is 0 as well; its intervals must hold the exact figures by NumPy, SciPy, scikit-learn and
statsmodels. What an interval then allows for is rounding alone. Rows lie on random lattices, and thresholds on them,
between their values, and one unit in the last place beside. Of values with a declared step, intervals allow for nothing
but the other values of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import statsmodels.api as sm

from benchmarks import _exact as exact
from spark_jobs.contract.options.fits import Bounded, CrossProductCells, LabelledRowCells
from spark_jobs.contract.options.linear import CELLS_OF_SUMS
from spark_jobs.diagnostics import (
    aggregates,
    auc,
    average_precision,
    binned_residuals,
    by_group,
    calibration,
    cdf_points,
    confusion_matrix,
    ecdf,
    linear_fit,
    linear_regression,
    logistic_fit,
    quantile,
    ranking_figures,
    recalibration,
    residual_plot,
    roc_comparison,
    roc_curve,
)
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import (
    AggregateSums,
    CrossProducts,
    GroupedScoreCounts,
    LabelledRows,
    Moments,
    PairedScoreCounts,
    ResidualCounts,
    ScoreCounts,
    ValueCounts,
)

EPSILON, CONFIDENCE = 5, 0.999
"""The level matters where an interval allows for what cells hide of a curve, which is simulated."""
TABLES = 6
SLACK = 2e-6
"""Of published figures, which are rounded, relative to what they may be."""
Held = Iterator[tuple[str, float, float, float]]
"""Name, lower end, upper end and exact figure."""


class Quiet(SeededNoise):
    """Noise of 0, and true words for choices and for what is simulated."""

    joint = False

    def _geometric(self, scale, shape):
        return np.zeros(shape)

    def _discrete_gaussian(self, stddev, shape):
        return np.zeros(shape)

    def boxed(self, shape, *, scale):
        return np.zeros(shape, dtype=np.int64)

    def k_norm(self, values, *, epsilon, body):
        return np.asarray(values, dtype=np.int64)


@pytest.fixture(autouse=True)
def without_simulated_noise(monkeypatch):
    """Intervals are read off simulated noise, which is 0 as well."""
    for name in ("_geometric", "_discrete_gaussian", "boxed"):
        monkeypatch.setattr(SeededNoise, name, getattr(Quiet, name))


def released(kind, statistic, seed, **options):
    return kind.release(statistic, epsilon=EPSILON, confidence=CONFIDENCE, noise=Quiet(seed), **options)


def lattice_of(random):
    """A public box, and values on a lattice in it whose offset and step are no multiples of the box's cells."""
    step = float(random.choice([1.0, 0.5, 0.1, 0.01, 0.05, 60.0, 1 / 3, random.uniform(0.01, 2)]))
    steps = int(random.integers(1, 400))
    low = float(random.choice([0.0, -step * 7, 1e3, random.normal(0, 10)]))
    values = low + step * np.round(random.beta(*random.uniform(0.4, 3, 2), int(random.integers(30, 600))) * steps)
    bounds = (low - step * int(random.integers(0, 3)), low + step * (steps + int(random.integers(0, 3))))
    return values, (float(bounds[0]), float(bounds[1]))


def beside(value, random):
    """A value, one between it and another, or one unit in the last place beside it."""
    return float(
        random.choice([value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf), value + random.normal(0, 0.3)])
    )


def counted(values, bounds, random, step=None):
    cells = int(random.choice([256, 1024, 32768]))
    return ValueCounts.from_arrays(values, lower=bounds[0], upper=bounds[1], cells=cells, step=step)


def stepped(random):
    """Values on a declared lattice, whose cells are these values or a whole number of them; with that number."""
    step = float(random.choice([1.0, 0.5, 0.1, 0.01, 0.05, 60.0, 0.001]))
    steps = int(random.choice([random.integers(1, 200), random.integers(200, 20_000)]))
    first = int(random.choice([0, -7, 1000, random.integers(-(10**6), 10**6)]))
    places = np.round(random.beta(*random.uniform(0.4, 3, 2), int(random.integers(30, 600))) * steps)
    # as decimals are read, and as they are computed
    values = np.round((first + places) * step, 3) if random.random() < 0.5 else first * step + places * step
    lower = first - int(random.integers(0, 3))
    upper = first + steps + int(random.integers(0, 3))
    counts = ValueCounts.from_arrays(
        values, lower=lower * step, upper=upper * step, cells=int(random.choice([64, 256, 32768])), step=step
    )
    return values, counts, step, counts.grid.values_in_cell


def scored(random):
    """Labels, scores of few decimals or of a lattice of their own or smooth, and a threshold on or beside them."""
    rows = int(random.integers(60, 900))
    labels = (random.random(rows) < random.uniform(0.2, 0.6)).astype(float)
    labels[:2] = 0, 1
    scores = 1 / (1 + np.exp(-random.normal(random.normal(0, 0.5) + labels, 1.2)))
    form = random.integers(6)
    if form < 3:
        scores = np.round(scores, form + 1)
    elif form == 3:
        step = random.uniform(0.002, 0.2)
        scores = np.clip(np.round(scores / step) * step, 0, 1)
    elif form == 4:
        scores = np.where(scores > 0.5, 0.7, 0.3)
    threshold = random.choice([0.3, 0.5, 0.7, float(random.choice(scores))])
    return labels, scores, float(np.clip(beside(threshold, random), 1e-6, 1))


def of_quantile(random, seed) -> Held:
    values, bounds = lattice_of(random)
    level = float(random.choice([0.1, 0.25, 0.5, 0.75, 0.9]))
    one = released(quantile, counted(values, bounds, random), seed, level=level)
    yield f"quantile {level}", *one.interval, exact.quantile(values, level)


def of_quantile_without_bounds(random, seed) -> Held:
    values, _ = lattice_of(random)
    wide = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**20}
    one = released(quantile, ValueCounts.from_arrays(values, **wide), seed, level=0.5)
    yield "median", *one.interval, exact.quantile(values, 0.5)


def of_ecdf(random, seed) -> Held:
    values, bounds = lattice_of(random)
    whole = released(ecdf, counted(values, bounds, random), seed)
    inside = values[(values >= bounds[0]) & (values < bounds[1])]
    places = [beside(float(one), random) for one in random.choice(inside, 30)]
    places = np.clip([*places, *random.choice(whole.values[:-1], 30)], bounds[0], np.nextafter(bounds[1], -np.inf))
    for everywhere in (False, True):
        band = whole.band(places, everywhere=everywhere)
        for place, low, high, true in zip(places, *band, exact.share_up_to(values, places), strict=True):
            yield f"share up to {place!r}", low, high, true
    rows = exact.share_up_to(values, whole.values[:-1])
    for place, low, high, true in zip(whole.values, *(end[:-1] for end in whole.function.ends()), rows, strict=False):
        yield f"share up to the start of the cell at {place!r}", low, high, true
    for one in whole.quantiles:
        yield f"quantile {one.level}", *one.interval, exact.quantile(values, one.level)


def of_quantile_with_a_step(random, seed) -> Held:
    values, counts, _, _ = stepped(random)
    level = float(random.choice([0.1, 0.25, 0.5, 0.75, 0.9]))
    yield f"quantile {level}", *released(quantile, counts, seed, level=level).interval, exact.quantile(values, level)


def of_ecdf_with_a_step(random, seed) -> Held:
    values, counts, step, together = stepped(random)
    whole = released(ecdf, counts, seed)
    for one in whole.quantiles:
        true = exact.quantile(values, one.level)
        yield f"quantile {one.level}", *one.interval, true
        low, high = one.interval
        yield f"steps of the interval of quantile {one.level}", 0, together - 1, round((high - low) / step, 6)
    # on a value, between two of them, and one unit in the last place beside, which counts as the value
    lattice = random.choice(values, 30)
    beside = np.nextafter(lattice, random.choice([-np.inf, np.inf], 30))
    between = lattice + step * random.uniform(0.1, 0.9, 30)
    places = np.concatenate([lattice, beside, between])
    counted_to = np.concatenate([lattice, lattice, between]) + 1e-6 * step
    inside = (places >= counts.grid.lower) & (places < counts.grid.upper)
    places, counted_to = places[inside], counted_to[inside]
    for everywhere in (False, True):
        band = whole.band(places, everywhere=everywhere)
        for place, low, high, true in zip(places, *band, exact.share_up_to(values, counted_to), strict=True):
            yield f"share up to {place!r}", low, high, true
            if together == 1:
                yield f"slack of the share up to {place!r}", 0, 0, high - low


def of_cdf_points_with_a_step(random, seed) -> Held:
    values, counts, step, together = stepped(random)
    wanted = float(random.choice(values)) + step * float(random.choice([0.0, 0.4, 0.6]))
    wanted = float(np.clip(wanted, counts.grid.lower, counts.grid.upper))
    points = released(cdf_points, counts, seed, thresholds=[wanted], quantiles=[0.5])
    in_force = float(points.thresholds[0])
    yield "steps from the threshold in force", -together, together, (wanted - in_force) / step
    share = float(exact.share_up_to(values, [in_force + 1e-6 * step])[0])
    yield f"share up to {in_force!r}", points.cdf.lower[0], points.cdf.upper[0], share
    [one] = points.quantiles
    yield "median", *one.interval, exact.quantile(values, 0.5)


def of_ecdf_without_bounds(random, seed) -> Held:
    values, _ = lattice_of(random)
    wide = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**20}
    scale = str(random.choice(["linear", "log"]))
    for one in released(ecdf, ValueCounts.from_arrays(values, **wide), seed, find_bounds=scale).quantiles:
        yield f"quantile {one.level}", *one.interval, exact.quantile(values, one.level)


def of_cdf_points(random, seed) -> Held:
    values, bounds = lattice_of(random)
    statistic = counted(values, bounds, random)
    wanted = float(np.clip(beside(float(random.choice(values)), random), *bounds))
    points = released(cdf_points, statistic, seed, thresholds=[wanted], quantiles=[0.5])
    in_force = float(points.thresholds[0])
    width = (bounds[1] - bounds[0]) / statistic.grid.size
    yield "a threshold in force is at most a cell above the one that was asked for", 0, width, in_force - wanted
    yield (
        f"share below {in_force!r}",
        points.cdf.lower[0],
        points.cdf.upper[0],
        float(exact.share_below(values, [in_force])[0]),
    )
    [one] = points.quantiles
    yield "median", *one.interval, exact.quantile(values, 0.5)


def of_areas(random, seed) -> Held:
    labels, scores, _ = scored(random)
    counts = ScoreCounts.from_arrays(labels, scores)
    area = exact.area(labels, scores)
    yield "AUC of the curve", *released(roc_curve, counts, seed).auc.interval, area
    yield "AUC", *released(auc, counts, seed, method="counts").interval, area
    yield (
        "average precision",
        *released(average_precision, counts, seed).interval,
        exact.average_precision(labels, scores),
    )


def of_confusion_matrix(random, seed) -> Held:
    labels, scores, threshold = scored(random)
    matrix = released(confusion_matrix, ScoreCounts.from_arrays(labels, scores), seed, thresholds=[threshold])
    in_force = float(matrix.thresholds[0])
    yield "a threshold in force is at most a cell below the one that was asked for", 0, 1 / 256, threshold - in_force
    for rate, true in exact.rates(labels, scores, in_force).items():
        if np.isfinite(true):
            yield f"{rate} from {in_force!r} on", *getattr(matrix, rate).at(0).interval, true


def of_ranking_figures(random, seed) -> Held:
    labels, scores, _ = scored(random)
    missed = float(random.uniform(0.2, 5))
    ranked = released(ranking_figures, ScoreCounts.from_arrays(labels, scores), seed, false_negative_cost=missed)
    yield "gini", *ranked.gini.interval, 2 * exact.area(labels, scores) - 1
    yield "ks", *ranked.ks.interval, exact.separation(labels, scores)
    threshold = None if ranked.threshold > 1 else ranked.threshold
    yield "cost", *ranked.cost.interval, exact.cost(labels, scores, threshold, false=1.0, missed=missed)
    for depth, low, high in zip(ranked.depths, ranked.gain.lower, ranked.gain.upper, strict=True):
        yield f"gain at {depth}", low, high, exact.gain(labels, scores, float(depth))


def pools_of(bins, labels, scores):
    first = np.flatnonzero(np.diff(bins.pool, prepend=-1))
    return first, *exact.of_groups(labels, scores, np.append(-np.inf, bins.lower[first][1:]))


def of_calibration(random, seed) -> Held:
    labels, scores, _ = scored(random)
    bins = released(calibration, ScoreCounts.from_arrays(labels, scores), seed)
    first, rows, positives, sums, variances = pools_of(bins, labels, scores)
    for place, of_pool in zip(first, positives / np.maximum(rows, 1), strict=True):
        yield "observed share", bins.observed.lower[place], bins.observed.upper[place], of_pool
    yield "error", *bins.ece.interval, float(np.abs(positives - sums).sum() / rows.sum())
    if bins.statistic.value is not None and (variances > 0).all():
        yield "Hosmer-Lemeshow", *bins.statistic.interval, float(((positives - sums) ** 2 / variances).sum())


def of_binned_residuals(random, seed) -> Held:
    labels, scores, _ = scored(random)
    bins = released(binned_residuals, ScoreCounts.from_arrays(labels, scores), seed)
    first, rows, positives, sums, _ = pools_of(bins, labels, scores)
    for place, of_pool in zip(first, (positives - sums) / np.maximum(rows, 1), strict=True):
        yield "residual", bins.residual.lower[place], bins.residual.upper[place], of_pool
    yield "mean distance", *bins.mean_distance.interval, float(np.abs(positives - sums).sum() / rows.sum())


def of_recalibration(random, seed) -> Held:
    labels, scores, _ = scored(random)
    outcome = released(recalibration, ScoreCounts.from_arrays(labels, scores), seed, clip=1e-3)
    for name, true in exact.losses(labels, scores, clip=1e-3).items():
        yield name, *getattr(outcome, name).interval, true


def of_by_group(random, seed) -> Held:
    tables = [scored(random) for _ in range(2)]
    labels, scores = (np.concatenate([table[part] for table in tables]) for part in (0, 1))
    groups = np.repeat(np.array(["a", "b"], dtype=object), [table[0].size for table in tables])
    counts = GroupedScoreCounts.from_arrays(labels, scores, groups, keys=["a", "b"])
    threshold = tables[0][2]
    kinds = [{"kind": "auc", "method": "counts"}, {"kind": "confusion_matrix", "thresholds": [threshold]}]
    outcome = released(by_group, counts, seed, kinds=kinds)
    for (of_labels, of_scores, _), results in zip(tables, outcome.results, strict=False):
        yield "AUC of a group", *results["auc"].interval, exact.area(of_labels, of_scores)
        matrix = results["confusion_matrix"]
        in_force = float(matrix.thresholds[0])
        yield "a threshold in force is at most a cell below", 0, 1 / 256, threshold - in_force
        true = exact.rates(of_labels, of_scores, in_force)["recall"]
        yield "recall of a group", *matrix.recall.at(0).interval, true


def of_roc_comparison(random, seed) -> Held:
    labels, scores, _ = scored(random)
    other = np.clip(np.round(scores + random.normal(0, 0.2, scores.size), 2), 0, 1)
    outcome = released(roc_comparison, PairedScoreCounts.from_arrays(labels, scores, other), seed)
    yield "difference", *outcome.auc_difference.interval, exact.area(labels, scores) - exact.area(labels, other)


def of_residual_plot(random, seed) -> Held:
    rows, size = int(random.integers(200, 2000)), float(10 ** random.uniform(0.3, 2.5))
    step = float(random.choice([1.0, 0.5, size / 7, 0.01]))
    fitted = np.round(random.uniform(0.2, 1, rows) * size / step) * step
    residuals = np.round(random.normal(0, size / 5, rows) / step) * step
    plot = released(residual_plot, ResidualCounts.from_arrays(fitted, residuals), seed)
    pool = np.cumsum(np.append(0, np.diff(plot.column_rows) != 0))
    bound = plot.residual_bound
    for number in np.unique(pool):
        own = np.flatnonzero(pool == number)
        ends = float(plot.fitted_edges[own[0]]), float(plot.fitted_edges[own[-1] + 1])
        inside = exact.column(fitted, residuals, ends, bound)
        if inside.size == round(float(plot.column_rows[own[0]])):
            low, high = plot.trend.lower[own[0]] / bound, plot.trend.upper[own[0]] / bound
            yield "mean", low, high, float(inside.mean()) / bound
            low, high = plot.spread.lower[own[0]] / bound, plot.spread.upper[own[0]] / bound
            yield "spread", low, high, exact.spread(inside) / bound
    for place, score in enumerate(plot.qq_theoretical):
        level = float(exact.stats.norm.cdf(score))
        true = exact.quantile(np.clip(residuals, -bound, bound), level) / bound
        yield f"quantile {level}", plot.qq_residual.lower[place] / bound, plot.qq_residual.upper[place] / bound, true


def of_linear_regression(random, seed) -> Held:
    x, x_bounds = lattice_of(random)
    wide = x_bounds[1] - x_bounds[0]
    steps = int(random.choice([1, 5, 100]))
    place = 0.5 + 0.3 * (x - x.mean()) / wide + random.normal(0, 0.1, x.size)
    y = np.round(np.clip(place, 0, 1) * steps)
    counts = Moments.from_arrays(x, y, lower=(x_bounds[0], 0), upper=(x_bounds[1], steps), cells=CELLS_OF_SUMS)
    fit = released(linear_regression, counts, seed, method="noisy_moments")
    slope, intercept = exact.line(x, y)
    if np.isnan(slope) or np.var(x) < 1e-4 * wide**2:
        return
    yield "slope", float(fit.slope.lower[0]) * wide, float(fit.slope.upper[0]) * wide, slope * wide
    for at, low, high in zip(fit.x, fit.predictions.lower[0], fit.predictions.upper[0], strict=True):
        yield f"height at {at}", low / steps, high / steps, float(np.clip(intercept + slope * at, 0, steps)) / steps


def of_aggregates(random, seed) -> Held:
    values, bounds = lattice_of(random)
    other, group = random.normal(size=values.size), random.choice(np.array(["a", "b", None], dtype=object), values.size)
    measures = [{"of": "value", "bounds": bounds}, {"of": "other", "bounds": (-1.0, 1.0)}][: int(random.integers(1, 3))]
    columns = {"group": group, "value": values, "other": other}
    sums = AggregateSums.from_arrays(columns, by=[{"column": "group", "values": ["a", "b"]}], measures=measures)
    table = released(aggregates, sums, seed)
    for place, key in enumerate(["a", "b", None]):
        own = np.clip(values[[one == key for one in group]], *bounds)
        yield "rows", *table.count.at(place).interval, own.size
        scale = max(abs(bound) for bound in bounds)
        for name, true in (("mean", own.mean()), ("sum", own.sum())):
            interval = table.of(name, "value").values.at(place).interval
            yield name, *(end / scale / max(own.size, 1) for end in interval), true / scale / max(own.size, 1)


def of_linear_fit(random, seed) -> Held:
    rows = int(random.integers(300, 2000))
    a = np.round(random.random(rows) * 7) / 7
    b = random.random(rows)
    y = np.round(np.clip(2 + 3 * a - b + random.normal(0, 1, rows), 0, 10))
    design = CrossProductCells(
        features=(Bounded(name="a", lower=0, upper=1), Bounded(name="b", lower=0, upper=1)),
        outcome=Bounded(name="y", lower=0, upper=10),
    )
    fit = released(linear_fit, CrossProducts.from_arrays({"a": a, "b": b}, y, design=design), seed)
    true = sm.OLS(y, sm.add_constant(np.stack([a, b], axis=1))).fit()
    for name, low, high, one in zip(fit.terms, *fit.coefficients.ends(), true.params, strict=True):
        yield name, low, high, float(one)
    yield "R2", *fit.r_squared.interval, float(true.rsquared)


def of_logistic_fit(random, seed) -> Held:
    rows = int(random.integers(500, 2000))
    a = np.round(random.random(rows) * 7) / 7
    b = random.random(rows)
    y = (random.random(rows) < 1 / (1 + np.exp(-(a - 2 * b)))).astype(float)
    design = LabelledRowCells(features=(Bounded(name="a", lower=0, upper=1), Bounded(name="b", lower=0, upper=1)))
    fit = released(logistic_fit, LabelledRows.from_arrays({"a": a, "b": b}, y, design=design), seed)
    true = sm.Logit(y, sm.add_constant(np.stack([a, b], axis=1))).fit(disp=0)
    if fit.status == "ok":
        for name, low, high, one in zip(fit.terms, *fit.coefficients.ends(), true.params, strict=True):
            yield name, low, high, float(one)


def of_count_stream(random, seed) -> Held:
    counts = random.poisson(random.uniform(0, 50), 100)
    steps = CountStream(epsilon=EPSILON, noise=Quiet(seed)).release(counts)
    for low, high, true in zip(steps.lower, steps.upper, counts, strict=True):
        yield "count", low, high, float(true)


KINDS: dict[str, Callable[..., Held]] = {
    name.removeprefix("of_"): one for name, one in list(globals().items()) if name.startswith("of_")
}


def outside(kind, table):
    """The figures of a table that their intervals do not hold."""
    found = []
    for name, low, high, true in KINDS[kind](np.random.default_rng([table, 42]), table):
        slack = SLACK * max(1.0, abs(true))
        if not low - slack <= true <= high + slack:
            found.append(f"table {table}: {name}: {true!r} is not from {low!r} to {high!r}")
    return found


@pytest.mark.parametrize("table", [pytest.param(n, marks=[pytest.mark.verify] if n else []) for n in range(TABLES)])
@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_every_interval_holds_the_exact_figure_of_the_raw_rows(kind, table):
    assert outside(kind, table) == []


OF_AREAS = {"auc", "average_precision", "roc_curve"}
"""The kinds that ``areas`` releases."""
OF_A_MODEL = {"binormal_roc"}
"""The kinds whose curve is that of a model, which raw rows do not have; its area is that of ``auc``."""
OF_CHOICES = {"rows_per_unit"}
"""The kinds that choose one of a few bounds, and have no interval."""


def test_every_kind_is_here():
    import spark_jobs.diagnostics as diagnostics

    kinds = {name for name in diagnostics.__all__ if hasattr(getattr(diagnostics, name), "DIAGNOSTIC")}
    assert {name for name in kinds if not any(name in kind for kind in KINDS)} <= OF_AREAS | OF_A_MODEL | OF_CHOICES
