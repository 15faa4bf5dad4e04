"""Accuracy and speed of released distribution functions: ``python -m benchmarks.ecdf_releases [--quick]``.

Mean squared error of the counts (released fractions times the exact number of rows) times epsilon squared, under
replace-one neighbours, on tables of three spreads and several sizes; and how long the draw, with secure noise, and the
summary take.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf.distance import SMOOTHERS
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ValueCounts

REPLACED = Neighbours.REPLACE_ONE
AIM = 1000


def values(spread: str, rows: int, random: np.random.Generator) -> FloatArray:
    """Values mostly within [0, 1]."""
    match spread:
        case "normal":
            return random.normal(0.5, 0.15, rows)
        case "uniform":
            return random.random(rows)
        case _:
            return np.asarray(np.exp(random.normal(-5, 1.2, rows)))


def errors(statistic: ValueCounts, *, size_public: bool, releases: int) -> FloatArray:
    """Mean squared errors of releases at epsilon 1."""
    exact, drawn = np.cumsum(statistic.counts), []
    for seed in range(releases):
        draw = ecdf.measure(
            statistic, epsilon=1, neighbours=REPLACED, noise=SeededNoise(seed), size_public=size_public
        ).tree.prefix_counts()[1:]
        fractions = SMOOTHERS["2-norm"](draw / max(1.0, draw[-1]), total=1.0)
        drawn.append(((fractions * statistic.total - exact) ** 2).mean())
    return np.array(drawn)


def mean_and_width(sample: FloatArray) -> str:
    """A mean and its 95% interval."""
    return f"{sample.mean():,.0f} ± {1.96 * sample.std(ddof=1) / np.sqrt(sample.size):,.0f}"


def seconds(statistic: ValueCounts) -> tuple[float, float]:
    """The time of the draw and of the summary, after the tree's shape has been chosen."""
    ecdf.measure(statistic, epsilon=1)
    start = time.perf_counter()
    measurement = ecdf.measure(statistic, epsilon=1)
    drawn = time.perf_counter()
    ecdf.summarise(measurement, seed=1)
    return drawn - start, time.perf_counter() - drawn


def main(argv: list[str] | None = None) -> int:
    """Release many times and print the table."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    cells, releases, sizes = (1024, 3, (1000,)) if given.quick else (32768, 30, (1_000, 100_000, 1_000_000))
    random, rows, worst = np.random.default_rng(6), [], 0.0
    figures: dict[str, object] = {}
    for size in sizes:
        for spread in ("normal", "uniform", "lognormal"):
            progress(f"{size} rows, {spread}")
            statistic = ValueCounts.from_arrays(values(spread, size, random), lower=0, upper=1, cells=cells)
            measured = [errors(statistic, size_public=public, releases=releases) for public in (False, True)]
            worst = max(worst, float(measured[0].mean()))
            figures[f"{size} {spread}"] = [float(one.mean()) for one in measured]
            rows.append([f"{size:,}", spread, *map(mean_and_width, measured)])
    draw, summary = seconds(statistic)
    figures |= {"draw_seconds": draw, "summary_seconds": summary}
    rows.append(["seconds", "draw, summary", f"{draw:.2f}, {summary:.2f}", ""])
    aim = Target(
        what="mean squared error x epsilon^2, the worst of these tables, total private",
        target=f"<= {AIM:,} (paper 8,192)",
        outcome=f"{worst:,.0f}",
        met=worst <= AIM,
    )
    report = Report(
        name=f"ecdf_releases: {cells} cells, {releases} releases",
        columns=("rows", "spread", "total private (default)", "size_public"),
        rows=rows,
        targets=[] if given.quick else [aim],
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
