"""How well private residual plots detect lack of fit: ``python -m benchmarks.residual_plot [--quick]``.

The models of Chen 2018, section 4.2.3, x uniform on [0, 50] and y = x + noise: M1 (normal noise of standard deviation
1), M2 (of 1 + alpha x) and M3 (gamma x^2 added); and of its figure 4.3, x uniform on [1, 50]: noise of variance or
standard deviation x, and 0.01 x^2 added. All noise is seeded (the distributions are those of releases); epsilon is 1.

* the smallest alpha and gamma that are distinguished from M1, as in table 4.1: by the paper's distance of plots, if the
  total variation distance of its distributions under both models reaches 0.95 (Kolmogorov's, a lower bound of it, is
  taken), and by the tests of the release, if they reject at 5% in 95 of 100 tables;
* the distance between the distributions of the similarity to an ideal plot, as in figure 4.3;
* how often tests reject a true model, and the coverage of intervals;
* real tables, if the data lie beside the repository: findings in all rows, and in samples of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from benchmarks._residual_models import (
    M1,
    SKEWED,
    Draw,
    Points,
    curved,
    fanned_out,
    least_squares,
    linear,
    shifted,
    uneven,
)
from benchmarks._residual_tables import MISSING, real_tables
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.residual_plot import ResidualDraw, copies, measure, release, summarise
from spark_jobs.diagnostics.residual_plot.columns import in_whole_rows, on_the_simplex
from spark_jobs.diagnostics.residual_plot.lack_of_fit import TESTS, LackOfFit, lack_of_fit_tests
from spark_jobs.diagnostics.residual_plot.summary import scatter
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts

SIGNALS = (1000, 2000, 5000)
PAPER = {1000: (0.02, 0.002), 2000: (0.01, 0.0015), 5000: (0.008, 0.001)}
AIMED = {1000: (0.012, 0.002, 0.0007), 2000: (0.008, 0.0015, 0.0005), 5000: (0.005, 0.001, 0.0003)}
SHIFTS = {1000: 0.25, 2000: 0.2, 5000: 0.15}
"""About where shifts of all residuals are found; nothing was aimed at."""
FOR_THE_EYE: dict[str, Any] = {"bins": 32, "coverage": 0.99}
"""A finer grid than the tests would choose, with a wider box."""
STEPS = np.array([0.3, 0.45, 0.6, 0.75, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0])
"""Of what is aimed at: where distances of plots are measured."""
TESTED = np.array([0.1, 0.2, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5])
"""The same of tests, from above until all power is lost."""
SIDE = 10


def measured(points: Points, seed: int, **options: object) -> ResidualDraw:
    """The draw at epsilon 1."""
    return measure(ResidualCounts.from_arrays(*points), epsilon=1, noise=SeededNoise(seed), **options)


def shown(measurement: ResidualDraw, random: np.random.Generator) -> Points:
    """The released scatter."""
    total = max(round(float(measurement.cells.sum())), 1)
    framed = in_whole_rows(on_the_simplex(measurement.cells, float(total)), total)
    return scatter(framed, measurement, SeededNoise(int(random.integers(2**62))))


def laid_over(points: Points, of: Points) -> FloatArray:
    """The part of ``points`` in each of 100 cells over the plot of ``of``."""
    box = [(float(axis.min()) - 0.1, float(axis.max()) + 0.1) for axis in of]
    cells, _, _ = np.histogram2d(*points, bins=SIDE, range=box)
    return cells / max(points[0].size, 1)


def similarity(released: FloatArray, exact: FloatArray) -> float:
    """The paper's similarity: half of the distances in the cells, and of the points that lie in no cell."""
    return float(np.abs(released - exact).sum() + 1 - released.sum()) / 2


def similarities(draw: Draw, ideal: Draw, *, rows: int, tables: int, seed: int, **options: object) -> list[float]:
    """Of releases of ``draw``'s tables to exact plots of ``ideal``'s; of the same rows where both are one."""
    random, values = np.random.default_rng(seed), []
    for _ in range(tables):
        reference = ideal(rows, random)
        points = reference if draw is ideal else draw(rows, random)
        released = shown(measured(points, int(random.integers(2**62)), **options), random)
        values.append(similarity(laid_over(released, reference), laid_over(reference, reference)))
    return values


def distance(first: list[float], second: list[float]) -> float:
    """Kolmogorov's: a lower bound of the total variation, which needs no bins to estimate."""
    return float(ks_2samp(first, second).statistic)


def lack_of_fit(draw: Draw, *, rows: int, tables: int, seed: int, **options: object) -> list[LackOfFit]:
    """The results of the tests on random tables."""
    random, results = np.random.default_rng(seed), []
    for _ in range(tables):
        measurement = measured(draw(rows, random), int(random.integers(2**62)), **options)
        results.append(lack_of_fit_tests(measurement, SeededNoise(int(random.integers(2**62)))))
    return results


def rejected(results: list[LackOfFit], test: str) -> float:
    """The fraction of tables in which a test rejects at 5%; ``either``: all tests together."""
    return float(np.mean([(one.either if test == "either" else one.p_values[test]) <= 0.05 for one in results]))


def crossing(values: FloatArray, figures: list[float], level: float) -> float:
    """Where an increasing figure reaches ``level`` and stays above it, by linear interpolation."""
    below = [i for i, figure in enumerate(figures) if figure < level]
    if not below:
        return float(values[0])
    if below[-1] + 1 == len(values):
        return float("nan")
    low, high = below[-1], below[-1] + 1
    part = (level - figures[low]) / (figures[high] - figures[low])
    return float(values[low] + part * (values[high] - values[low]))


def smallest_by_plot(rows: int, *, tables: int, fresh: bool = False, **options: object) -> tuple[float, float]:
    """The smallest alpha and gamma that the paper's distance distinguishes from M1.

    Releases of a departure are compared with another table than their own, of M1, and those of M1 with their own: so
    part of the distance is that of two samples. ``fresh`` compares both with another table, which leaves the departure.
    """
    null = uneven(0.0) if fresh else M1
    own = similarities(null, M1, rows=rows, tables=tables, seed=rows, **options)
    alpha, gamma, _ = AIMED[rows]
    detected = []
    for aimed, model in ((alpha, uneven), (gamma, curved)):
        at = STEPS * aimed
        figures = [
            distance(own, similarities(model(float(value)), M1, rows=rows, tables=tables, seed=rows + 1, **options))
            for value in at
        ]
        detected.append(crossing(at, figures, 0.95))
    return detected[0], detected[1]


def smallest_by_test(rows: int, *, tables: int, aimed: float, test: str, model: Callable[[float], Draw]) -> float:
    """The smallest departure from M1 that a test detects in 95 of 100 tables."""
    at, figures = TESTED[::-1] * aimed, []
    for value in at:
        figures.append(rejected(lack_of_fit(model(float(value)), rows=rows, tables=tables, seed=rows + 2), test))
        if figures[-1] < 0.9:
            break
    return crossing(at[: len(figures)][::-1], figures[::-1], 0.95)


def table_4_1(signals: tuple[int, ...], *, tables: int) -> Report:
    """The smallest departures that are detected."""
    rows, targets, figures = [], [], {}
    for n in signals:
        progress(f"table 4.1 at n·epsilon = {n}")
        alpha, gamma = smallest_by_plot(n, tables=tables)
        fresh = smallest_by_plot(n, tables=tables, fresh=True)
        finer = smallest_by_plot(n, tables=tables, **FOR_THE_EYE)
        aimed = AIMED[n]
        of_test = {
            "alpha": smallest_by_test(n, tables=tables, aimed=aimed[0], test="variance", model=uneven),
            "gamma": smallest_by_test(n, tables=tables, aimed=aimed[2], test="either", model=curved),
            "gamma, curvature alone": smallest_by_test(
                n, tables=tables, aimed=aimed[2], test="curvature", model=lambda g: least_squares(curved(g))
            ),
            "shift": smallest_by_test(n, tables=tables, aimed=SHIFTS[n], test="shift", model=shifted),
        }
        figures[str(n)] = {"plot": [alpha, gamma], "fresh tables": fresh, "finer plot": finer, **of_test}
        rows.append(
            [f"{n:,}", *(f"{value:g}" for value in PAPER[n]), f"{alpha:.4f}", f"{gamma:.5f}"]
            + [f"{fresh[0]:.4f}", f"{fresh[1]:.5f}", f"{finer[0]:.4f}", f"{finer[1]:.5f}"]
            + [f"{value:.{digits}f}" for value, digits in zip(of_test.values(), (4, 5, 5, 3), strict=True)]
        )
        for what, detected, goal in (
            (f"alpha by plot distance, n·epsilon = {n:,}", alpha, aimed[0]),
            (f"the same with fresh tables, n·epsilon = {n:,}", fresh[0], aimed[0]),
            (f"the same with 32 bins, coverage 0.99, n·epsilon = {n:,}", finer[0], aimed[0]),
            (f"gamma by plot distance, n·epsilon = {n:,}", gamma, aimed[1]),
            (f"gamma by test, n·epsilon = {n:,}", of_test["gamma"], aimed[2]),
            (f"gamma by test, least squares, n·epsilon = {n:,}", of_test["gamma, curvature alone"], aimed[2]),
        ):
            targets.append(
                Target(what=what, target=f"at most {goal:g}", outcome=f"{detected:.3g}", met=detected <= goal)
            )
    heads = (
        "n·epsilon",
        "paper: alpha",
        "gamma",
        "plot: alpha",
        "gamma",
        "fresh tables: alpha",
        "gamma",
        "32 bins, coverage 0.99: alpha",
        "gamma",
        "test: alpha",
        "gamma",
        "gamma, least squares",
        "shift",
    )
    name = f"residual_plot: smallest departures told from M1, {tables} tables each"
    return Report(name=name, columns=heads, rows=rows, targets=targets, figures=figures)


def figure_4_3(signals: tuple[int, ...], *, tables: int) -> Report:
    """Ideal against Heteroscedastic and Nonlinear."""
    ideal = least_squares(linear(lambda x: 1.0, floor=1.0))
    others = {
        "variance x": least_squares(linear(np.sqrt, floor=1.0)),
        "standard deviation x": least_squares(linear(lambda x: x, floor=1.0)),
        "nonlinear": least_squares(linear(lambda x: 1.0, bend=0.01, floor=1.0)),
    }
    rows, targets, figures = [], [], {}
    for n in signals:
        progress(f"figure 4.3 at n·epsilon = {n}")
        own = similarities(ideal, ideal, rows=n, tables=tables, seed=n)
        distances = {
            name: distance(own, similarities(draw, ideal, rows=n, tables=tables, seed=n + 1))
            for name, draw in others.items()
        }
        figures[str(n)] = distances
        rows.append([f"{n:,}", *(f"{value:.3f}" for value in distances.values())])
        if n == 500:
            worst = min(distances.values())
            what, target = "ideal told from the others, n·epsilon = 500", "at least 0.95 (paper: 0.9)"
            targets.append(Target(what=what, target=target, outcome=f"{worst:.3f}", met=worst >= 0.95))
    name = f"residual_plot: distance between the laws of the similarity, {tables} tables each"
    return Report(name=name, columns=("n·epsilon", *others), rows=rows, targets=targets, figures=figures)


def levels(signals: tuple[int, ...], *, tables: int) -> Report:
    """Rejections of a true model, and the coverage of intervals."""
    laws = {
        "normal": M1,
        **SKEWED,
        "heavy tails": lambda rows, random: (random.uniform(0, 50, rows), random.standard_t(2.5, rows)),
        "uneven x": lambda rows, random: (random.gamma(1.5, 10.0, rows), random.normal(size=rows)),
    }
    rows, figures = [], {}
    for n in signals:
        for name, draw in laws.items():
            progress(f"levels at n·epsilon = {n}, {name}")
            results = lack_of_fit(draw, rows=n, tables=tables, seed=n + 3)
            by_test = [rejected(results, test) for test in (*TESTS, "either")]
            of_spread = rejected(lack_of_fit(fanned_out(draw), rows=n, tables=tables, seed=n + 4), "curvature")
            covered = coverage(draw, rows=n, tables=max(tables // 4, 2))
            figures[f"{n} {name}"] = {"rejected": by_test, "fanned": of_spread, "held": covered}
            rows.append([f"{n:,}", name, *(f"{value:.3f}" for value in (*by_test, of_spread, *covered))])
    heads = (
        "n·epsilon",
        "residuals",
        *TESTS,
        "all",
        "curvature, fanned",
        "trend",
        "spread",
        "Q-Q",
    )
    name = f"residual_plot: rejected at 5% where the model holds, and held by 90% intervals, {tables} tables each"
    return Report(name=name, columns=heads, rows=rows, targets=[], figures=figures)


def coverage(draw: Draw, *, rows: int, tables: int) -> tuple[float, float, float]:
    """The coverage of 90% intervals of trend, spread and quantiles for what the same cells give without noise."""
    random, covered = np.random.default_rng(rows + 5), []
    for _ in range(tables):
        statistic, seed = ResidualCounts.from_arrays(*draw(rows, random)), int(random.integers(2**62))
        measurement = measure(statistic, epsilon=1, noise=SeededNoise(seed), confidence=0.9)
        plot = summarise(measurement, seed=seed)
        exact = exact_figures(measurement, statistic, seed=seed)
        covered.append(
            [
                ((lower <= value + 1e-9) & (value - 1e-9 <= upper)).mean()
                for lower, value, upper in (
                    (plot.trend.lower, exact[0], plot.trend.upper),
                    (plot.spread.lower, exact[1], plot.spread.upper),
                    (plot.qq_residual.lower, exact[2], plot.qq_residual.upper),
                )
            ]
        )
    trend, spread, quantiles = (float(value) for value in np.mean(covered, axis=0))
    return trend, spread, quantiles


def exact_figures(measurement: ResidualDraw, statistic: ResidualCounts, *, seed: int) -> list[NDArray[np.float64]]:
    """Trend, spread and quantiles of the exact sums and counts in the cells and pools of a release."""
    from spark_jobs.diagnostics.residual_plot.columns import means, quantiles, spreads
    from spark_jobs.diagnostics.residual_plot.offsets import in_units, sums_of_offsets
    from spark_jobs.diagnostics.residual_plot.summary import LEVELS, pools_of

    exact = measurement.box.counts(statistic).astype(np.float64)
    starts, of_column = pools_of(measurement)
    columns = np.add.reduceat(exact[1:-1], starts, axis=0)
    edges = measurement.box.residual
    offsets = np.add.reduceat(in_units(sums_of_offsets(statistic, measurement.box), measurement.box), starts)
    return [
        means(columns, edges, offsets)[of_column],
        spreads(columns, edges)[of_column],
        quantiles(exact.sum(axis=0), LEVELS, edges),
    ]


def real(*, quick: bool) -> Report | None:
    """The findings in real tables under least squares."""
    tables = real_tables()
    if not tables:
        print(MISSING)
        return None
    rows, figures = [], {}
    random = np.random.default_rng(8)
    for name, (points, unit) in tables.items():
        sizes = [2000, points[0].size] if points[0].size > 2000 else [points[0].size]
        for size in sizes[:1] if quick else sizes:
            progress(f"{name}, {size:,} rows")
            part = random.permutation(points[0].size)[:size]
            statistic = ResidualCounts.from_arrays(points[0][part], points[1][part], unit=unit)
            for epsilon in (1.0, 0.1):
                plot = release(statistic, epsilon=epsilon, noise=SeededNoise(3))
                shown_rows = float(plot.counts.sum()) / max(plot.rows, 1.0)
                findings = ", ".join(plot.findings) or ("none" if plot.status == "ok" else plot.status)
                figures[f"{name} {size} {epsilon}"] = plot.findings
                bounds = (f"[{plot.fitted_lower:.4g}, {plot.fitted_upper:.4g}]", f"{plot.residual_bound:.4g}")
                rows.append([name, f"{size:,}", f"{epsilon:g}", f"{plot.bins}", f"{shown_rows:.2f}", *bounds, findings])
    heads = ("table", "rows", "epsilon", "bins", "rows in the box", "fitted values", "residuals up to", "found")
    return Report(name="residual_plot: real tables", columns=heads, rows=rows, targets=[], figures=figures)


def settings(*, tables: int) -> Report:
    """The cost of replace-one neighbours, and of other histogram methods: the tests at one setting."""
    rows, n = [], 2000
    choices: dict[str, dict[str, object]] = {
        "auto": {},
        "auto, replace-one": {"neighbours": Neighbours.REPLACE_ONE},
        "32 bins": {"bins": 32},
        "coverage 0.9": {"coverage": 0.9},
        "coverage 0.99": {"coverage": 0.99},
    }
    for name, options in choices.items():
        progress(f"settings: {name}")
        draws = {"M1": M1, "alpha": uneven(0.008), "gamma": least_squares(curved(0.0005))}
        results = {key: lack_of_fit(draw, rows=n, tables=tables, seed=9, **options) for key, draw in draws.items()}
        tests = (("M1", "either"), ("alpha", "variance"), ("gamma", "curvature"))
        rows.append([name, *(f"{rejected(results[key], test):.3f}" for key, test in tests)])
    heads = ("setting", "M1 rejected", "alpha = 0.008 found", "gamma = 0.0005 found, least squares")
    name = f"residual_plot: settings at n·epsilon = 2,000, tests at 5%, {tables} tables each"
    return Report(name=name, columns=heads, rows=rows, targets=[], figures={})


def main(argv: list[str] | None = None) -> int:
    """Run all experiments and print their tables."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    copies.COPIES = 400  # of p-values, which are compared with 5% here
    tables, signals = (6, SIGNALS[:1]) if given.quick else (100, SIGNALS)
    publish(table_4_1(signals, tables=tables), None)
    publish(figure_4_3((500,) if given.quick else (500, *SIGNALS), tables=tables), None)
    publish(settings(tables=tables), None)
    results = real(quick=given.quick)
    if results is not None:
        publish(results, None)
    return publish(levels(signals[:1] if given.quick else (1000, 5000), tables=tables), given.json)


if __name__ == "__main__":
    sys.exit(main())
