"""What automatic choices cost on tables drawn at random: ``python -m benchmarks.choices [--quick]``.

The tables come from a written law (``_choice_law``). The regret of a method on a table is its mean error, divided by
that of the best method on this table. Nobody knows beforehand which method that is.

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
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks._choice_law import DrawnCounts, DrawnPoints, drawn_grid, drawn_line, drawn_points
from benchmarks.harness import Report, arguments, progress, publish
from benchmarks.histograms import prefix_error, range_error
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import ecdf, linear_regression, quantile
from spark_jobs.mechanisms.histograms import METHODS, release_histogram
from spark_jobs.mechanisms.histograms.release import AUTO
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.quantiles import quantile_scores, quantile_target
from spark_jobs.mechanisms.selection import exponential_mechanism
from spark_jobs.statistics import PointCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

AT = np.array([0.25, 0.75])
MANY_ROWS = 5_000
"""From here on, medians over pairs are released twice only, as they take long."""
RELATIONS: Mapping[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "replaced, public sizes": (
        {"neighbours": Neighbours.REPLACE_ONE, "public_sizes": True},
        ("auto", "noisy_intercept", "noisy_moments", "noisy_stats", "dp_exp_theil_sen", "dp_wide_theil_sen"),
    ),
    "added or removed": ({}, ("auto", "noisy_intercept", "noisy_moments", "noisy_stats")),
}
HISTOGRAMS = tuple(name for name in METHODS if name not in ("mwem", "laplace"))
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


def errors_of_lines(table: DrawnPoints, relation: str, *, releases: int) -> Errors:
    """Method -> mean absolute error."""
    options, methods = RELATIONS[relation]
    keys = None if table.groups == 1 else [str(group) for group in range(table.groups)]
    groups = None if keys is None else table.group.astype(str)
    points = PointCounts.from_arrays(table.x, table.y, groups=groups, keys=keys, lower=0, upper=1)
    exact, size = least_squares(table), table.x.size // table.groups
    results = {}
    for method in methods:
        slow = "theil_sen" in method and table.x.size > MANY_ROWS
        terms = {**options, "epsilon": table.epsilon, "size_bound": size, "method": method}
        seeds = range(2 if slow else releases)
        released = [linear_regression.release(points, noise=SeededNoise(seed), **terms) for seed in seeds]
        results[method] = float(np.mean([np.abs(one.predictions - exact).mean() for one in released]))
    return results


def errors_of_cells(table: DrawnCounts, *, releases: int, first: int = 0) -> tuple[Errors, Errors]:
    """Method -> mean scaled error of prefixes (none on a grid) and of ranges; ``first`` is the first seed."""
    rows = max(int(table.counts.sum()), 1)
    prefixes, ranges = {}, {}
    for name in (*HISTOGRAMS, "auto"):
        known = None if name == "auto" else rows
        released = [
            release_histogram(
                table.counts, epsilon=table.epsilon, noise=SeededNoise(seed), method=name, expected_rows=known
            ).cells
            for seed in range(first, first + releases)
        ]
        if table.counts.ndim == 1:
            prefixes[name] = float(np.mean([prefix_error(table.counts, cells) for cells in released]))
        ranges[name] = float(np.mean([range_error(table.counts, cells) for cells in released]))
    for errors in (prefixes, ranges):
        if AUTO in errors:
            errors["auto, rows known"] = errors[AUTO]
    return prefixes, ranges


def summary(results: Sequence[Errors], *, choices: tuple[str, ...] = ("auto",)) -> list[list[str]]:
    """One row a method: mean and geometric mean of its regret, the largest, and the share of tables up to 1.5."""
    best = [min(error for name, error in errors.items() if name.split(",")[0] not in choices) for errors in results]
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
            rows = summary(errors, choices=("auto", HINDSIGHT))
            name = f"choices: lines, {relation}, {what}, {len(errors)} tables of {releases} releases"
            reports.append(Report(name=name, columns=heads, rows=rows, targets=(), figures={"errors": errors}))
    return reports


def half_decade(signal: float) -> int:
    """Rows times epsilon, to half a decade."""
    return round(2 * math.log10(max(signal, 1)))


def with_hindsight(results: Sequence[Errors], facts: Sequence[Hashable]) -> list[Errors]:
    """The errors, and those of the method that is best on average for all tables with the same public facts."""
    names = [name for name in results[0] if not name.startswith("auto")]
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
        rows = summary(with_hindsight(errors, facts), choices=("auto", HINDSIGHT))
        name = f"choices: {what}, {count} tables of {releases} releases"
        reports.append(Report(name=name, columns=heads, rows=rows, targets=(), figures={}))
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
    parser.add_argument("--releases", type=int, help="of each table of points or cells (default: 6 and 10)")
    given = parser.parse_args()
    quick, reports = given.quick, []
    if "lines" in given.parts:
        reports += lines_report(5 if quick else 120, releases=2 if quick else given.releases or 6)
    if "cells" in given.parts:
        reports += cells_report(5 if quick else 120, releases=2 if quick else given.releases or 10)
    if "quantiles" in given.parts:
        reports.append(quantiles_report(5 if quick else 250))
    return max(publish(report, given.json) for report in reports)


if __name__ == "__main__":
    sys.exit(main())
