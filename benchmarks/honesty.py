"""Do intervals hold, and are automatic choices good, on tables drawn at random? ``python -m benchmarks.honesty``.

Tables come from two written laws: of scored tables (``_score_law``) and of lines of cells and points (``_choice_law``).
A cell of the law is a kind of interval at one number of positives, or at one number of rows times epsilon. Every
release is of a table of its own, and shows one interval of each kind, chosen at random if it has several. So coverage
has a binomial law, and its 99% interval is Clopper and Pearson's.

The width is compared with that of a calibrated oracle, who knows by which factor all intervals of a cell have to be
scaled to hold at their level exactly. A ratio of 1.3 is 30% too wide. With few releases the ratio is rough.

Regret is the mean error of ``auto`` on a table, divided by that of the best method on this table (``choices``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._choice_law import drawn_grid, drawn_line, drawn_points
from benchmarks._score_law import POSITIVES, SHAPES, SIGNALS, ScoreTable, drawn_table
from benchmarks.auc_accuracy import exact_figures
from benchmarks.choices import RELATIONS, errors_of_cells, errors_of_lines, summary
from benchmarks.harness import Report, Target, arguments, progress, publish
from benchmarks.rare_classes import CREDIBLE, HIGHEST, LOWEST, credible
from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics import (
    auc,
    average_precision,
    binned_residuals,
    calibration,
    ecdf,
    linear_regression,
    quantile,
    roc_curve,
)
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.statistics import PointCounts, ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

LEVEL, CHOICES = 0.9, "choices"
ROWS = (200, 1_000, 5_000, 20_000)
"""Rows times epsilon of a table, or of a group."""
MANY_GROUPS = 20
QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
WIDE: Mapping[str, Any] = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20, "cells": 2**18}
SLACK = 1e-6
WIDEST, MIN_RELEASES = 1.3, 100
"""Largest ratio of widths, and number of releases in a cell from which targets are judged."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A released figure with its interval, and the exact figure.

    Attributes:
        value, low, high: released.
        exact: what the interval is for.
    """

    value: float
    low: float
    high: float
    exact: float

    @property
    def holds(self) -> bool:
        """Whether the interval holds the exact figure."""
        return self.low - SLACK <= self.exact <= self.high + SLACK

    @property
    def factor(self) -> float:
        """The smallest factor by which the interval can be scaled about the figure and still hold."""
        off = self.exact - self.value
        reach = self.high - self.value if off > 0 else self.value - self.low
        return 0.0 if abs(off) <= SLACK else abs(off) / max(reach, 1e-12)


Intervals = dict[str, Shown | None]
"""Kind of interval -> what a release shows of it; None if undefined."""
Kind = Callable[[np.random.Generator, int], Intervals]


def of_values(random: np.random.Generator, signal: int) -> Intervals:
    """A distribution function on public bounds, and one quantile."""
    table = drawn_line(random, signal=signal)
    statistic = ValueCounts(counts=table.counts, grid=ValueGrid(lower=0, upper=1, cells=table.counts.size))
    terms: dict[str, Any] = {"epsilon": table.epsilon, "confidence": LEVEL}
    whole = ecdf.release(statistic, quantiles=QUANTILES, noise=_noise(random), **terms)
    exact = np.cumsum(table.counts) / table.counts.sum()
    level = float(random.choice(QUANTILES))
    place = float(statistic.grid.edges[np.searchsorted(exact, level - 1e-12)])
    cell = int(random.integers(exact.size - 1))
    shown: Intervals = dict.fromkeys(("ecdf: a fraction", "ecdf: all fractions", "ecdf: a quantile", "quantile"))
    if whole.status == "ok":
        ends = whole.cdf, whole.lower, whole.upper
        everywhere = whole.cdf, whole.lower_everywhere, whole.upper_everywhere
        shown["ecdf: a fraction"] = _at(cell, ends, exact)
        shown["ecdf: all fractions"] = max(
            (_at(one, everywhere, exact) for one in range(exact.size - 1)), key=lambda one: (not one.holds, one.factor)
        )
        shown["ecdf: a quantile"] = _quantile(whole, level, place)
    one = quantile.release(statistic, level=level, noise=_noise(random), **terms)
    if one.value is not None and one.interval is not None:
        shown["quantile"] = Shown(value=one.value, low=one.interval[0], high=one.interval[1], exact=place)
    return shown


def of_values_without_bounds(random: np.random.Generator, signal: int) -> Intervals:
    """A quantile of a distribution function whose bounds are found privately."""
    epsilon = float(random.choice([0.1, 1.0]))
    points = drawn_points(random, groups=1, signal=signal)
    values = random.choice(points.y, int(signal / epsilon)) * 10 ** random.uniform(-2, 6) + random.normal(0, 100)
    statistic = ValueCounts.from_arrays(values, **WIDE)
    spacing = str(random.choice(["linear", "log"]))
    noise = _noise(random)
    whole = ecdf.release(
        statistic, epsilon=epsilon, find_bounds=spacing, quantiles=QUANTILES, confidence=LEVEL, noise=noise
    )
    if whole.status != "ok":
        return {"ecdf: a quantile, bounds found": None}
    level = float(random.choice(QUANTILES))
    exact = np.cumsum(statistic.counts) / statistic.total
    place = float(statistic.grid.edges[np.searchsorted(exact, level - 1e-12)])
    if whole.bounds[0] <= place < whole.bounds[1]:  # values are rounded down to the cells between the bounds
        place = float(whole.values[np.searchsorted(whole.values, place, side="right") - 1])
    return {"ecdf: a quantile, bounds found": _quantile(whole, level, place)}


def of_points(random: np.random.Generator, signal: int) -> Intervals:
    """A height of the line through one group, and through one of many."""
    shown: Intervals = {}
    for groups in (1, MANY_GROUPS):
        name = f"linear_regression: a height, {groups} groups" if groups > 1 else "linear_regression: a height"
        table = drawn_points(random, groups=groups, signal=signal)
        keys = None if groups == 1 else [str(group) for group in range(groups)]
        labels = None if groups == 1 else table.group.astype(str)
        points = PointCounts.from_arrays(table.x, table.y, groups=labels, keys=keys, lower=0, upper=1)
        noise = _noise(random)
        fit = linear_regression.release(
            points, epsilon=table.epsilon, method="noisy_moments", confidence=LEVEL, noise=noise
        )
        at = int(random.integers(groups)), int(random.integers(2))
        ends = (fit.predictions, fit.predictions_lower, fit.predictions_upper)
        value, low, high = (float(one[at]) for one in ends)
        exact = linear_regression.release(points, epsilon=1e11, method="noisy_moments", noise=noise).predictions
        shown[name] = Shown(value=value, low=low, high=high, exact=float(exact[at]))
    return shown


def of_scores(random: np.random.Generator, positives: int) -> Intervals:
    """Areas, and figures of groups of scores."""
    shape, signal = str(random.choice(SHAPES)), float(random.choice(SIGNALS))
    table = drawn_table(random, positives=positives, auc=signal, shape=shape)
    terms: dict[str, Any] = {"epsilon": table.epsilon, "confidence": LEVEL}
    return _areas(table, random, terms) | _groups(table.counts, random, terms)


def _areas(table: ScoreTable, random: np.random.Generator, terms: dict[str, Any]) -> Intervals:
    statistic = table.counts
    curve = roc_curve.release(statistic, noise=_noise(random), **terms)
    single = auc.release(statistic, noise=_noise(random), **terms)
    precision = average_precision.release(statistic, noise=_noise(random), **terms)
    exact = float(auc_fraction(statistic.negatives, statistic.positives))
    return {
        "roc_curve: AUC": _of(curve.auc, curve.auc_interval, exact),
        "roc_curve: AUC of the population": _of(curve.auc, curve.auc_population_interval, table.population_auc),
        "auc": _of(single.value, single.interval, exact),
        "average_precision": _of(precision.value, precision.interval, float(exact_figures(statistic)[1])),
    }


def _groups(statistic: ScoreCounts, random: np.random.Generator, terms: dict[str, Any]) -> Intervals:
    names = ("binned_residuals: a residual", "calibration: an observed share", "calibration: error")
    shown: Intervals = dict.fromkeys(names)
    bins = binned_residuals.release(statistic, noise=_noise(random), **terms)
    if bins.status == "ok":
        first, rows, positives, scores = _exact_pools(statistic, bins.pool, bins.lower)
        one = int(random.choice(np.flatnonzero(rows)))
        ends = (bins.residual[first], bins.residual_lower[first], bins.residual_upper[first])
        shown[names[0]] = _at(one, ends, (positives - scores) / np.maximum(rows, 1))
    groups = calibration.release(statistic, noise=_noise(random), **terms)
    if groups.status == "ok":
        first, rows, positives, scores = _exact_pools(statistic, groups.pool, groups.lower)
        one = int(random.choice(np.flatnonzero(rows)))
        ends = (groups.observed[first], groups.observed_lower[first], groups.observed_upper[first])
        shown[names[1]] = _at(one, ends, positives / np.maximum(rows, 1))
        shown[names[2]] = _of(groups.ece, groups.ece_interval, float(np.abs(positives - scores).sum() / rows.sum()))
    return shown


def _exact_pools(
    statistic: ScoreCounts, pool: Any, lower: FloatArray
) -> tuple[Any, FloatArray, FloatArray, FloatArray]:
    """The first bin of each pool, and its exact rows, positives and sum of scores."""
    first = np.flatnonzero(np.diff(pool, prepend=-1))
    starts = np.rint(lower[first] * statistic.cells).astype(np.int64)
    every = statistic.negatives + statistic.positives
    middles = (np.arange(statistic.cells) + 0.5) / statistic.cells
    rows, positives, scores = (
        np.add.reduceat(one, starts).astype(np.float64) for one in (every, statistic.positives, every * middles)
    )
    return first, rows, positives, scores


def _at(place: int, ends: tuple[FloatArray, FloatArray, FloatArray], exact: FloatArray) -> Shown:
    value, low, high = (float(one[place]) for one in ends)
    return Shown(value=value, low=low, high=high, exact=float(exact[place]))


def _of(value: float | None, interval: tuple[float, float] | None, exact: float) -> Shown | None:
    if value is None or interval is None:
        return None
    return Shown(value=value, low=interval[0], high=interval[1], exact=exact)


def _quantile(whole: ecdf.Ecdf, level: float, exact: float) -> Shown:
    low, high = (float(end) for end in whole.quantile_interval(level))
    return Shown(value=float(whole.quantile(level)), low=low, high=high, exact=exact)


def _noise(random: np.random.Generator) -> SeededNoise:
    return SeededNoise(int(random.integers(2**62)))


KINDS: Mapping[str, tuple[Kind, tuple[int, ...], str]] = {
    "values": (of_values, ROWS, "rows x epsilon"),
    "found-bounds": (of_values_without_bounds, ROWS, "rows x epsilon"),
    "points": (of_points, ROWS, "rows x epsilon"),
    "scores": (of_scores, POSITIVES, "positives"),
}


def coverage(name: str, cell: str, shown: list[Shown | None]) -> tuple[list[str], Target]:
    """A row of the table of coverage, and whether it meets its target."""
    defined = [one for one in shown if one is not None]
    low, high = credible(np.array([one.holds for one in defined], dtype=float)) if defined else (0.0, 1.0)
    needed = float(np.quantile([one.factor for one in defined], LEVEL)) if defined else 0.0
    ratio = f"{1 / needed:.2f}" if needed > 1e-3 else "any"
    share = f"{np.mean([one.holds for one in defined]):.3f}" if defined else ""
    undefined = f"{1 - len(defined) / len(shown):.0%}"
    row = [name, cell, share, f"{low:.3f}-{high:.3f}", undefined, ratio]
    target = Target(
        what=f"{name}, {cell}",
        target=f"{CREDIBLE:.0%} interval meets {LOWEST:.2f}-{HIGHEST:.2f}; at most {WIDEST} times the oracle's width",
        outcome=f"{low:.3f}-{high:.3f}; {ratio}",
        met=low <= HIGHEST and high >= LOWEST and (needed <= 1e-3 or 1 / needed <= WIDEST),
    )
    return row, target


def coverage_report(kinds: Sequence[str], releases: int, seed: int) -> Report:
    """Coverage in every cell of the law, of these kinds of tables."""
    rows, targets = [], []
    for kind in kinds:
        release, cells, unit = KINDS[kind]
        for cell in cells:
            progress(f"{kind}, {cell:,} {unit}")
            random = np.random.default_rng([seed, cell])
            drawn = [release(random, cell) for _ in range(releases)]
            for name in drawn[0]:
                row, target = coverage(name, f"{cell:,} {unit}", [one[name] for one in drawn])
                rows.append(row)
                targets.append(target)
    columns = ("interval", "cell of the law", "held", "99% interval", "undefined", "width / oracle's")
    name = f"honesty: coverage of {LEVEL:.0%} intervals, {releases} releases a cell"
    kept = targets if releases >= MIN_RELEASES else []
    return Report(name=name, columns=columns, rows=rows, targets=kept, figures={})


def regret_report(tables: int) -> Report:
    """The regret of every automatic choice."""
    results: dict[str, list[dict[str, float]]] = {}
    for number in range(tables):
        progress(f"automatic choices: table {number}")
        random = np.random.default_rng(number)
        points = drawn_points(random)
        for relation in RELATIONS:
            results.setdefault(f"lines, {relation}", []).append(errors_of_lines(points, relation, releases=4))
        prefixes, ranges = errors_of_cells(drawn_line(random), releases=4)
        results.setdefault("histograms: prefixes of a line", []).append(prefixes)
        results.setdefault("histograms: ranges of a line", []).append(ranges)
        results.setdefault("histograms: rectangles of a grid", []).append(
            errors_of_cells(drawn_grid(random), releases=4)[1]
        )
    rows = [[name, *row[1:]] for name, errors in results.items() for row in summary(errors) if row[0] == "`auto`"]
    heads = ("automatic choice", "mean regret", "geometric", "median", "worst", "tables up to 1.5")
    return Report(name=f"honesty: regret, {tables} tables", columns=heads, rows=rows, targets=(), figures={})


def main(argv: list[str] | None = None) -> int:
    """Draw tables, release them, and print coverage and regret."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=500, help="releases in each cell of the law (default: 500)")
    parser.add_argument("--only", nargs="+", choices=(*KINDS, CHOICES), default=(*KINDS, CHOICES), help="parts to run")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    releases = 2 if given.quick else given.releases
    kinds = [kind for kind in KINDS if kind in given.only]
    if kinds:
        publish(coverage_report(kinds, releases, given.seed), given.json)
    if CHOICES in given.only:
        publish(regret_report(max(1, releases // 5)), None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
