"""How well private lines through small groups do: ``python -m benchmarks.linear_regression [--quick]``.

On real points (``_point_tables``), in units of the public box; all noise is seeded (its distributions are those of
releases).

* Figure 6 of Alabi and others (2022): for each cell of the incomes, the size that the error at x = 1/4 stays below in
  68% of releases, against the standard error of least squares there; epsilon 16, which the figure's agency took. Beside
  the paper's methods are ours, and a yardstick that is NOT PRIVATE: the maximum observed sensitivity heuristic of
  Chetty and Friedman (2019), noise scaled by the largest change that any group shows.
* The rule that chooses a method by public facts, against one method for all groups: mean absolute error of the heights
  at 1/4 and 3/4 against least squares, and its ratio to the best method's of each row; also on data that were not
  used to design the rule.
* The coverage of 90% intervals for what their method gives without noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import theilslopes

from benchmarks._point_tables import MISSING, PointTable, held_out_tables, point_tables
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import BoolArray, FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import linear_regression as lines
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.regression.theil_sen import theil_sen
from spark_jobs.statistics import PointCounts

Release = Callable[[int], FloatArray]
"""Predictions of one release with this seed, in units of the box; shape (groups, 2)."""
AT = np.array([0.25, 0.75])
REPLACED = {"neighbours": Neighbours.REPLACE_ONE, "public_sizes": True}
ADDED = {"neighbours": Neighbours.ADD_REMOVE}
DELTA = 2.0**-30
"""Of the paper's approximate methods."""
FIGURE_EPSILON = 16
PAPERS = {
    "NoisyStats": {"method": "noisy_stats"},
    "NoisyIntercept": {"method": "noisy_intercept"},
    "DPExpTheilSen": {"method": "dp_exp_theil_sen"},
    "DPSSTheilSen": {"method": "dp_ss_theil_sen"},
    "DPGradDescent": {"method": "dp_grad_descent"},
    "DPGradDescent, delta 2^-30": {"method": "dp_grad_descent_zcdp", "delta": DELTA},
}
OURS = {
    "noisy moments": {"method": "noisy_moments"},
    "Theil-Sen, half a cell wide": {"method": "dp_wide_theil_sen"},
    "auto": {"method": "auto"},
    "auto, added or removed": {"method": "auto", "size_bound": 90, **ADDED},
}
ALWAYS = {
    "replaced, public sizes": (REPLACED, ("noisy_intercept", "noisy_moments", "noisy_stats", "dp_exp_theil_sen",
                                          "dp_wide_theil_sen", "dp_ss_theil_sen", "dp_grad_descent")),
    "added or removed": (ADDED, ("noisy_intercept", "noisy_moments", "noisy_stats", "dp_grad_descent")),
}  # fmt: skip


def least_squares(table: PointTable) -> tuple[FloatArray, FloatArray]:
    """Heights at 1/4 and 3/4, kept within the box, and their standard errors; shape (groups, 2)."""
    heights, errors = np.empty((2, table.groups, 2))
    for group in range(table.groups):
        x, y = table.unit_rows(group)
        away = x - x.mean()
        spread = float((away**2).sum()) or np.inf  # of points with one x: the mean of y
        slope = (away * y).sum() / spread
        left = y - y.mean() - slope * away
        heights[group] = np.clip(y.mean() + slope * (AT - x.mean()), 0, 1)
        variance = (left**2).sum() / max(x.size - 2, 1)
        errors[group] = np.sqrt(variance * (1 / x.size + (AT - x.mean()) ** 2 / spread))
    return heights, errors


def medians_of_pairs(table: PointTable) -> FloatArray:
    """The heights by Theil-Sen, without privacy."""
    fits = [theilslopes(*table.unit_rows(group)[::-1]) for group in range(table.groups)]
    return np.clip([fit.intercept + fit.slope * AT for fit in fits], 0, 1)


def released(table: PointTable, points: PointCounts, **options: Any) -> Release:
    """Releases by the diagnostic."""
    settings = {**REPLACED, "epsilon": 1, **options}
    low, high = table.lower[1], table.upper[1]

    def run(seed: int) -> FloatArray:
        measurement = lines.measure(points, noise=SeededNoise(seed), **settings)
        predictions: FloatArray = (lines.summarise(measurement, seed=seed).predictions.value - low) / (high - low)
        return predictions

    return run


def widened(points: PointCounts, *, epsilon: float, widen: float) -> Release:
    """DPWideTheilSen as the paper ran it."""

    def run(seed: int) -> FloatArray:
        noise = SeededNoise(seed)
        options: dict[str, Any] = {"steps": 2 * points.cells, "epsilon": epsilon, "noise": noise, "method": "wide"}
        groups = range(points.grid.groups)
        return np.clip(
            [
                theil_sen(*points.points(g), matchings=None, widen=widen, neighbours=Neighbours.REPLACE_ONE, **options)
                for g in groups
            ],
            0,
            1,
        )

    return run


def observed_sensitivity(table: PointTable, *, epsilon: float) -> Release:
    """NOT PRIVATE, a yardstick: noise by the largest change that one more point makes in any group, times its size."""
    heights, _ = least_squares(table)
    corners = [(x, y) for x in np.linspace(0, 1, 11) for y in (0.0, 1.0)]
    sizes = np.bincount(table.group)
    largest = np.zeros(2)
    for group in range(table.groups):
        x, y = table.unit_rows(group)
        for corner in corners:
            u, v = np.append(x, corner[0]), np.append(y, corner[1])
            away = u - u.mean()
            slope = (away * v).sum() / (away**2).sum()
            changed = np.clip(v.mean() + slope * (AT - u.mean()), 0, 1)
            largest = np.maximum(largest, np.abs(changed - heights[group]) * sizes[group])
    scale = largest / (sizes[:, None] * epsilon / 2)

    def run(seed: int) -> FloatArray:
        return np.clip(heights + np.random.default_rng(seed).laplace(0, scale), 0, 1)

    return run


def figure_6(table: PointTable, *, releases: int) -> tuple[list[list[str]], dict[str, FloatArray], dict[str, float]]:
    """Rows of the table, the error bound of each cell by method, and the share of cells below the standard error."""
    points, (exact, errors) = table.counted(), least_squares(table)
    runs = {
        name: released(table, points, epsilon=FIGURE_EPSILON, **options) for name, options in (PAPERS | OURS).items()
    }
    runs["DPWideTheilSen, 0.01"] = widened(points, epsilon=FIGURE_EPSILON, widen=0.01)
    runs["maximum observed sensitivity (NOT PRIVATE)"] = observed_sensitivity(table, epsilon=FIGURE_EPSILON)
    rows, bounds, shares = [], {}, {}
    for name, run in runs.items():
        progress(f"figure 6: {name}")
        predictions = np.stack([run(seed)[:, 0] for seed in range(releases)])
        bounds[name] = np.quantile(np.abs(predictions - exact[:, 0]), 0.68, axis=0)
        ratio = bounds[name] / errors[:, 0]
        shares[name] = float((ratio < 1).mean())
        low, middle, high = np.quantile(ratio, [0.25, 0.5, 0.75])
        rows.append(
            [name, f"{np.median(bounds[name]):.4f}", f"{middle:.2f} ({low:.2f}-{high:.2f})", proportion(ratio < 1)]
        )
    medians = np.abs(medians_of_pairs(table)[:, 0] - exact[:, 0])
    rows.append(["Theil-Sen (NOT PRIVATE)", f"{np.median(medians):.4f}", f"{np.median(medians / errors[:, 0]):.2f}",
                 proportion(medians < errors[:, 0])])  # fmt: skip
    return sorted(rows, key=lambda row: float(row[1])), bounds, shares


def regret(table: PointTable, relation: str, epsilon: float, *, releases: int) -> tuple[dict[str, FloatArray], str]:
    """Mean absolute error of every single method and of ``auto``, and the methods that ``auto`` chose."""
    points, (exact, _) = table.counted(), least_squares(table)
    options, methods = ALWAYS[relation]
    bound = int(np.median(np.bincount(table.group)))
    errors = {}
    for method in (*methods, "auto"):
        run = released(table, points, epsilon=epsilon, method=method, size_bound=bound, **options)
        errors[method] = np.array([np.abs(run(seed) - exact).mean() for seed in range(releases)])
    measurement = lines.measure(points, epsilon=epsilon, size_bound=bound, noise=SeededNoise(0), **options)
    part_methods = ", ".join(f"{part.method} {part.groups.size}" for part in measurement.parts)
    return errors, part_methods


def covered(table: PointTable, method: str, relation: dict[str, Any], epsilon: float, *, releases: int) -> list[str]:
    """The coverage of 90% intervals of heights for what the method gives without noise, and their widths."""
    points = table.counted()
    options = {"method": method, "delta": DELTA if method.endswith("_zcdp") else 0, **relation}
    exact = lines.release(points, epsilon=1e11, noise=SeededNoise(1), **options).predictions.value
    hits, widths = [], []
    for seed in range(releases):
        fit = lines.release(points, epsilon=epsilon, noise=SeededNoise(seed), **options)
        slack = 1e-6 * (table.upper[1] - table.lower[1])
        hits.append((fit.predictions.lower - slack <= exact) & (exact <= fit.predictions.upper + slack))
        widths.append((fit.predictions.upper - fit.predictions.lower) / (table.upper[1] - table.lower[1]))
    whole = np.array(widths) > 0.999
    return [f"{np.mean(hits):.3f} of {np.size(hits):,}", f"{np.median(widths):.3f}", f"{whole.mean():.0%}"]


def proportion(hits: BoolArray) -> str:
    """A share with its 95% error over groups."""
    return f"{hits.mean():.2f} ± {1.96 * hits.std() / np.sqrt(hits.size):.2f}"


def draw(bounds: dict[str, FloatArray], errors: FloatArray, path: Path) -> None:
    """The picture of figure 6: for each method the share of cells with an error bound below each size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "linear-regression"
    figure, axes = plt.subplots(figsize=(8, 4.8))
    share = np.arange(1, errors.size + 1) / errors.size
    for name, values in sorted(bounds.items(), key=lambda item: float(np.median(item[1]))):
        axes.step(np.sort(values), share, where="post", label=name, linestyle="--" if "NOT PRIVATE" in name else "-")
    axes.step(np.sort(errors), share, where="post", color="black", linestyle=":", label="standard error")
    axes.set(xscale="log", xlim=(5e-4, 1), xlabel="error at x = 1/4, in units of y", ylabel="share of cells")
    axes.legend(fontsize=7, loc="upper left")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main(argv: list[str] | None = None) -> int:
    """Run all experiments and print their tables."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw figure 6 there, as SVG")
    given = parser.parse_args(argv)
    tables = point_tables()
    if not tables:
        progress(MISSING)
        return 0
    incomes, *_ = tables
    rows, bounds, shares = figure_6(incomes, releases=6 if given.quick else 40)
    if given.picture is not None:
        draw(bounds, least_squares(incomes)[1][:, 0], given.picture)
    below = shares["DPExpTheilSen"]
    target = Target(
        what="DPExpTheilSen's error below the standard error", target="most cells", outcome=f"{below:.0%} of cells",
        met=below > 0.5,
    )  # fmt: skip
    heads = ("method", "error, median cell", "error / standard error (quartiles)", "cells below the standard error")
    name = f"linear_regression: figure 6 at epsilon {FIGURE_EPSILON}, {incomes.groups} cells of incomes"
    publish(Report(name=name, columns=heads, rows=rows, targets=[target], figures={"below": shares}), None)
    compare_rules("the rule against every method used always", tables, quick=given.quick)
    compare_rules("the same, on data that the rule was not made from", held_out_tables(), quick=given.quick)
    rows = []
    for table in tables[: 1 if given.quick else 4]:
        for method in ("noisy_moments", "noisy_moments_zcdp", "noisy_stats", "noisy_intercept"):
            for epsilon in (1, 8):
                progress(f"intervals: {table.name}, {method}, epsilon {epsilon}")
                result = covered(table, method, ADDED, epsilon, releases=5 if given.quick else _often(table))
                rows.append([table.name, method, str(epsilon), *result])
    heads = ("points", "method", "epsilon", "90% intervals hold", "median width", "whole box")
    report = Report(name="linear_regression: intervals", columns=heads, rows=rows, targets=[], figures={})
    return publish(report, given.json)


def compare_rules(title: str, tables: list[PointTable], *, quick: bool) -> None:
    """The table of regrets."""
    rows = []
    ratios: dict[str, dict[str, list[float]]] = {relation: {} for relation in ALWAYS}
    for relation in ALWAYS:
        for table in tables[: 2 if quick else 4]:
            for epsilon in (2,) if quick else (0.5, 1, 2, 4, 8, 16):
                progress(f"regret: {relation}, {table.name}, epsilon {epsilon}")
                results, methods = regret(table, relation, epsilon, releases=2 if quick else _often(table) // 2)
                means = {method: float(errors.mean()) for method, errors in results.items()}
                best = min((method for method in means if method != "auto"), key=lambda method: means[method])
                for method, mean in means.items():
                    ratios[relation].setdefault(method, []).append(mean / means[best])
                auto = results["auto"]
                half = 1.96 * auto.std(ddof=1) / np.sqrt(auto.size)
                rows.append([relation, table.name, str(epsilon), f"{best} {means[best]:.4f}", methods,
                             f"{means['auto']:.4f} ± {half:.4f}", f"{means['auto'] / means[best]:.2f}"])  # fmt: skip
    heads = (
        "relation",
        "points",
        "epsilon",
        "best method always used",
        "auto chose (groups)",
        "error of auto",
        "ratio",
    )
    name = f"linear_regression: {title}, mean absolute error"
    publish(Report(name=name, columns=heads, rows=rows, targets=[], figures={}), None)
    summary = [
        [relation, method, f"{np.exp(np.log(values).mean()):.2f}", f"{max(values):.1f}"]
        for relation, results in ratios.items()
        for method, values in sorted(results.items(), key=lambda item: float(np.log(item[1]).mean()))
    ]
    heads = ("relation", "method", "ratio to the best, geometric mean", "worst")
    publish(
        Report(
            name=f"linear_regression: {title}, over all rows",
            columns=heads,
            rows=summary,
            targets=[],
            figures={"ratios": ratios},
        ),
        None,
    )


def _often(table: PointTable) -> int:
    return 10 if table.groups > 1 else 100


if __name__ == "__main__":
    sys.exit(main())
