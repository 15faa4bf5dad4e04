"""What automatic choices cost on tables drawn at random: ``python -m benchmarks.choices [--quick]``.

The tables come from a written law (``_choice_law``). The regret of a method on a table is its mean error, divided by
that of the best method on this table. Nobody knows beforehand which method that is. With few releases it is
overestimated, since the smallest of several noisy means is too small. So each table has 200 releases of every method
that may be the best on it; the others stop as soon as they are clearly worse.

* Lines through points: the mean absolute error of the heights at 1/4 and 3/4 against least squares, both relations. The
  medians over pairs estimate another line where outcomes are discrete or skewed; that counts as an error here.
* Lines and grids of cells: DPBench's scaled error of prefixes and of ranges (``benchmarks.histograms``), with and
  without a known number of rows.
* One quantile: its error in rows times epsilon, with an interval and without one, beside that of the same quantile read
  off a whole function, and that of the exponential mechanism with a sensitivity of 1, which other libraries use;
  coverage and widths of 90% intervals.

Beside the methods stands the best rule in hindsight: for all tables with the same public facts (the number of groups,
or of cells to a power of two; rows times epsilon, to half a decade) the one method with the smallest mean regret on
these very tables. A rule that knows these facts alone cannot have a smaller mean regret on them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks._choice_law import DrawnCounts, DrawnPoints, drawn_grid, drawn_line, drawn_points
from benchmarks.harness import Report, arguments, progress, publish
from benchmarks.histograms import prefix_error, range_error
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import ecdf, linear_regression, quantile
from spark_jobs.mechanisms.histograms import methods, release_histogram
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import quantile_scores, quantile_target
from spark_jobs.mechanisms.selection import exponential_mechanism
from spark_jobs.statistics import PointCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

AT = np.array([0.25, 0.75])
AUTO = "auto"
FIRST_RELEASES = 10
"""After this many releases, and again whenever their number has doubled, methods that are clearly worse stop."""
CLEARLY = 4
"""A method is clearly worse if its mean less so many standard errors is above another's mean plus as many."""
RELATIONS: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "replaced, public sizes": (
        {"neighbours": Neighbours.REPLACE_ONE, "public_sizes": True},
        (AUTO, "noisy_intercept", "noisy_moments", "noisy_stats", "dp_exp_theil_sen", "dp_wide_theil_sen"),
    ),
    "added or removed": ({}, (AUTO, "noisy_intercept", "noisy_moments", "noisy_stats")),
}
HISTOGRAMS = tuple(name for name in methods() if name not in ("mwem", "laplace"))
LEVELS = (0.1, 0.5, 0.9)
HINDSIGHT = "best rule in hindsight"
PARTS = ("lines", "cells", "quantiles")
Errors = dict[str, float]


def least_squares(table: DrawnPoints) -> FloatArray:
    """Heights at 1/4 and 3/4 of each group, within the box; shape (groups, 2)."""
    heights = np.empty((table.groups, 2))
    for group in range(table.groups):
        x, y = (values[table.group == group] for values in (table.x, table.y))
        away = x - x.mean()
        spread = float((away**2).sum()) or np.inf
        heights[group] = np.clip(y.mean() + (away * y).sum() / spread * (AT - x.mean()), 0, 1)
    return heights


def raced(
    errors_of: Callable[[str, int], FloatArray], methods: Sequence[str], *, releases: int, first: int = 0
) -> dict[str, FloatArray]:
    """Mean errors of every method; one that is clearly not the best by any measure has less than all ``releases``.

    Args:
        errors_of: the errors of a method's release with this seed, one for each measure.
        methods: their names; ``auto`` has all releases.
        releases: of a method that may be the best one.
        first: the first seed.
    """
    errors: dict[str, list[FloatArray]] = {name: [] for name in methods}
    running, done = list(methods), 0
    while done < releases:
        upto = min(releases, max(FIRST_RELEASES, 2 * done))
        for name in running:
            errors[name] += [errors_of(name, first + number) for number in range(done, upto)]
        done = upto
        means = {name: np.mean(errors[name], axis=0) for name in running}
        reach = {name: CLEARLY * np.std(errors[name], axis=0) / math.sqrt(done) for name in running}
        bound = np.min([means[name] + reach[name] for name in running if name != AUTO], axis=0)
        running = [name for name in running if name == AUTO or (means[name] - reach[name] <= bound).any()]
    return {name: np.mean(of, axis=0) for name, of in errors.items()}


def errors_of_lines(table: DrawnPoints, relation: str, *, releases: int) -> Errors:
    """Method -> mean absolute error."""
    options, methods = RELATIONS[relation]
    keys = None if table.groups == 1 else [str(group) for group in range(table.groups)]
    groups = None if keys is None else table.group.astype(str)
    points = PointCounts.from_arrays(table.x, table.y, groups=groups, keys=keys, lower=0, upper=1)
    exact, size = least_squares(table), table.x.size // table.groups
    terms: dict[str, Any] = {**options, "epsilon": table.epsilon, "size_bound": size}

    def errors_of(method: str, seed: int) -> FloatArray:
        one = linear_regression.release(points, noise=SeededNoise(seed), **{**terms, "method": method})
        return np.array([np.abs(one.predictions.value - exact).mean()])

    return {method: float(error) for method, (error,) in raced(errors_of, methods, releases=releases).items()}


def errors_of_cells(table: DrawnCounts, *, releases: int, first: int = 0) -> tuple[Errors, Errors]:
    """Method -> mean scaled error of prefixes (none on a grid) and of ranges; ``first`` is the first seed."""
    measures = (prefix_error, range_error) if table.counts.ndim == 1 else (range_error,)
    rows = max(int(table.counts.sum()), 1)

    def errors_of(method: str, seed: int) -> FloatArray:
        known = None if method == AUTO else rows
        cells = release_histogram(
            table.counts, epsilon=table.epsilon, noise=SeededNoise(seed), method=method, expected_rows=known
        ).cells
        return np.array([measure(table.counts, cells) for measure in measures])

    errors = raced(errors_of, (*HISTOGRAMS, AUTO), releases=releases, first=first)
    by_measure = [{name: float(values[place]) for name, values in errors.items()} for place in range(len(measures))]
    return (by_measure[0] if len(measures) > 1 else {}), by_measure[-1]


def summary(results: Sequence[Errors], *, choices: tuple[str, ...] = (AUTO,)) -> list[list[str]]:
    """One row a method: mean and geometric mean of its regret, the largest, and the share of tables up to 1.5."""
    best = [min(error for name, error in errors.items() if name not in choices) for errors in results]
    rows = []
    for name in dict.fromkeys(name for errors in results for name in errors):
        regrets = np.array([e[name] / max(b, 1e-12) for e, b in zip(results, best, strict=True) if name in e])
        geometric = np.exp(np.log(np.maximum(regrets, 1e-9)).mean())
        figures = (regrets.mean(), geometric, np.median(regrets), regrets.max())
        rows.append([f"`{name}`", *(f"{x:,.2f}" if x < 100 else f"{x:,.0f}" for x in figures), share(regrets <= 1.5)])
    return sorted(rows, key=lambda row: float(row[2].replace(",", "")))


def share(hits: Any) -> str:
    """A share in percent."""
    return f"{100 * np.mean(hits):.0f}%"


def lines_report(count: int, *, releases: int) -> list[Report]:
    """The regrets of methods for lines, of each relation, over all tables and without points close to a line."""
    tables = [drawn_points(np.random.default_rng(number)) for number in range(count)]
    heads = ("method", "mean regret", "geometric", "median", "worst", "tables up to 1.5")
    reports = []
    for relation in RELATIONS:
        results = []
        for number, table in enumerate(tables):
            progress(f"{relation}: table {number}")
            results.append(errors_of_lines(table, relation, releases=releases))
        ordinary = [number for number, table in enumerate(tables) if table.outcome != "close to a line"]
        for what, kept in (("all tables", range(count)), ("without points close to a line", ordinary)):
            facts = [(tables[number].groups, half_decade(tables[number].signal)) for number in kept]
            errors = with_hindsight([results[number] for number in kept], facts)
            rows = summary(errors, choices=(AUTO, HINDSIGHT))
            name = f"choices: lines, {relation}, {what}, {len(errors)} tables of {releases} releases"
            reports.append(Report(name=name, columns=heads, rows=rows, targets=(), figures={"errors": errors}))
    return reports


def half_decade(signal: float) -> int:
    """Rows times epsilon, to half a decade."""
    return round(2 * math.log10(max(signal, 1)))


def with_hindsight(results: Sequence[Errors], facts: Sequence[Hashable]) -> list[Errors]:
    """The errors, and those of the method that is best on average for all tables with the same public facts."""
    names = [name for name in results[0] if name != AUTO]
    errors = np.array([[of[name] for name in names] for of in results])
    regrets = errors / np.maximum(errors.min(axis=1, keepdims=True), 1e-12)
    best = {fact: int(regrets[[one == fact for one in facts]].mean(axis=0).argmin()) for fact in set(facts)}
    return [{**of, HINDSIGHT: of[names[best[fact]]]} for of, fact in zip(results, facts, strict=True)]


def cells_report(count: int, *, releases: int) -> list[Report]:
    """The regrets of histogram methods on lines and grids."""
    heads = ("method", "mean regret", "geometric", "median", "worst", "tables up to 1.5")
    lines, grids = (
        [draw(np.random.default_rng(number)) for number in range(count)] for draw in (drawn_line, drawn_grid)
    )
    results: dict[str, list[Errors]] = {"prefixes of lines": [], "ranges of lines": [], "rectangles of grids": []}
    for number, (line, grid) in enumerate(zip(lines, grids, strict=True)):
        progress(f"cells: table {number}")
        # tables of one size would share their noise if they shared seeds
        first = number * releases
        prefixes, ranges = errors_of_cells(line, releases=releases, first=first)
        results["prefixes of lines"].append(prefixes)
        results["ranges of lines"].append(ranges)
        results["rectangles of grids"].append(errors_of_cells(grid, releases=releases, first=first)[1])
    reports = []
    for what, errors in results.items():
        tables = grids if "grids" in what else lines
        facts = [(table.counts.size, half_decade(float(table.counts.sum()) * table.epsilon)) for table in tables]
        compared = with_hindsight(errors, facts)
        rows = summary(compared, choices=(AUTO, HINDSIGHT))
        name = f"choices: {what}, {count} tables of {releases} releases"
        reports.append(Report(name=name, columns=heads, rows=rows, targets=(), figures={"errors": compared}))
    return reports


def quantiles_report(count: int) -> Report:
    """Errors and intervals of one quantile, by level."""
    rows = []
    for level in LEVELS:
        errors: dict[str, list[float]] = {
            "one quantile": [],
            "no interval": [],
            "whole function": [],
            "sensitivity 1": [],
        }
        covered, widths, undefined = [], [], 0
        for number in range(count):
            progress(f"quantile {level}: table {number}")
            table, relation = drawn_line(np.random.default_rng(number)), list(Neighbours)[number % 2]
            statistic = ValueCounts(counts=table.counts, grid=ValueGrid(lower=0, upper=1, cells=table.counts.size))
            terms: dict[str, Any] = {"epsilon": table.epsilon, "neighbours": relation, "noise": SeededNoise(number)}
            one = quantile.release(statistic, level=level, **terms)
            whole = ecdf.release(statistic, quantiles=(level,), **terms).quantiles[0]
            if one.value is None or one.interval is None or whole.value is None:
                undefined += 1
                continue
            target = quantile_target(level)
            scores = quantile_scores(table.counts, target)
            peer = exponential_mechanism(
                scores, epsilon=table.epsilon, l_inf_sensitivity=target.denominator, noise=SeededNoise(number)
            )
            alone = quantile.release(statistic, level=level, interval=False, **terms)
            cells = {
                "one quantile": int(statistic.grid.cell(one.value)),
                "no interval": int(statistic.grid.cell(alone.value or 0.0)),
                "whole function": int(statistic.grid.cell(whole.value)),
                "sensitivity 1": peer,
            }
            for name, cell in cells.items():
                errors[name].append(-int(scores[cell]) / target.denominator * table.epsilon)
            upto, goal = np.cumsum(table.counts), level * table.counts.sum()
            first, last = (int(statistic.grid.cell(end)) for end in one.interval)
            exact = int(np.searchsorted(upto, goal - 1e-9))
            covered.append(first <= exact <= last)
            widths.append(float(upto[last] - (upto[first] - table.counts[first]) - table.counts[exact]) * table.epsilon)
        means = [f"{np.mean(values):.2f}" for values in errors.values()]
        rows.append([f"{level:g}", *means, share(covered), f"{np.median(widths):.0f}", share(undefined / count)])
    heads = ("level", *(f"error, {name}" for name in errors), "intervals held", "median width", "undefined")
    name = f"choices: one quantile, {count} tables, errors and widths in rows times epsilon"
    return Report(name=name, columns=heads, rows=rows, targets=(), figures={})


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default: all)")
    parser.add_argument(
        "--releases", type=int, help="of the best methods on each table of points or cells (default: 200)"
    )
    given = parser.parse_args()
    quick, reports = given.quick, []
    if "lines" in given.parts:
        reports += lines_report(5 if quick else 120, releases=2 if quick else given.releases or 200)
    if "cells" in given.parts:
        reports += cells_report(5 if quick else 120, releases=2 if quick else given.releases or 200)
    if "quantiles" in given.parts:
        reports.append(quantiles_report(5 if quick else 250))
    return max(publish(report, given.json) for report in reports)


if __name__ == "__main__":
    sys.exit(main())
