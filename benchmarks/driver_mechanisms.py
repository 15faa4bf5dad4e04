"""The driver's time, without Spark's: ``python -m benchmarks.driver_mechanisms``.

Secure noise, PriROC's thresholds and counts, AUC and average precision by smooth bounds, every score diagnostic, two
models compared, residual plots and fits, selection, DAWA against a sort; also the error of a released AUC by density.
Cases run by turns; medians and ranges.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.competitors.square_root import square_root_prefixes
from benchmarks.harness import Report, Target, Timing, alternate, arguments, progress, publish
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import (
    AucOptions,
    AveragePrecisionOptions,
    BinnedResidualsOptions,
    CalibrationOptions,
    RocCurveOptions,
)
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import (
    auc,
    average_precision,
    binned_residuals,
    calibration,
    ecdf,
    linear_fit,
    logistic_fit,
    residual_plot,
    roc_curve,
)
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.mechanisms.continuous_noise import cauchy_noise, laplace_noise, polynomial_noise
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Cost, SecureNoise, SeededNoise
from spark_jobs.mechanisms.quantiles import recursive_medians
from spark_jobs.mechanisms.selection import median_by_exponential, permute_and_flip
from spark_jobs.mechanisms.smooth_sensitivity import auc_bound, release_auc, release_average_precision
from spark_jobs.mechanisms.sparse_vector import above_threshold
from spark_jobs.papers.streams.pruning import refined_nodes
from spark_jobs.statistics import LabelledRows, ResidualCounts, ScoreCounts
from spark_jobs.statistics.cross_products import Bounded, CrossProductCells, CrossProducts, Levels
from spark_jobs.statistics.labelled_rows import LabelledRowCells

DRAWS = 3000
LINE = 1 << 20
CELLS = 1 << 16
THRESHOLDS = 1024
PRIROC = f"PriROC at {THRESHOLDS:,} thresholds"
NOISE = SecureNoise()
ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE


class TimedNoise(SeededNoise):
    """Seeded noise that measures how long its draws took."""

    seconds = 0.0

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """Laplace noise, with its time added to the total."""
        start = time.perf_counter()
        noisy = super().laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)
        self.seconds += time.perf_counter() - start
        return noisy


def dawa_against_sort(generator: np.random.Generator) -> dict[str, tuple[float, float]]:
    """Seconds of DAWA on 2^20 cells, its noise taken off, and of numpy's sort of as many floats; by turns."""
    seconds = {}
    hill = generator.normal(LINE / 2, LINE / 20, 10**7)
    for name, counts in {
        "flat": generator.poisson(5, LINE),
        "one hill": np.bincount(np.clip(hill, 0, LINE - 1).astype(np.int64), minlength=LINE),
        "spikes": generator.multinomial(10**7, generator.dirichlet(np.full(LINE, 0.01))),
    }.items():
        own, sorts = [], []
        for _ in range(6):
            noise, floats = TimedNoise(1), generator.random(LINE)
            start = time.perf_counter()
            release_histogram(counts, epsilon=1, noise=noise, method="dawa")
            middle = time.perf_counter()
            np.sort(floats)
            own.append(middle - start - noise.seconds)
            sorts.append(time.perf_counter() - middle)
        seconds[name] = float(np.median(own[1:])), float(np.median(sorts))
    return seconds


def scores(generator: np.random.Generator, *, rows: int, cells: int = CELLS) -> ScoreCounts:
    """Scores of two overlapping classes."""
    labels = generator.random(rows) < 0.3
    values = np.where(labels, generator.beta(4, 2, rows), generator.beta(2, 4, rows))
    return ScoreCounts.from_arrays(labels.astype(int), values, cells=cells)


def priroc(table: ScoreCounts, *, histogram: str | None, thresholds: int = THRESHOLDS) -> None:
    """PriROC as a request runs it: cells between recursive medians, and both classes' counts in them."""
    roc_curve.measure(
        table,
        epsilon=1,
        delta="1e-9",
        neighbours=ADDED,
        noise=NOISE,
        method="recursive_medians",
        thresholds=thresholds,
        histogram=histogram,
    )


SHARING: tuple[tuple[Any, Any], ...] = (
    (roc_curve, RocCurveOptions()),
    (binned_residuals, BinnedResidualsOptions()),
    (calibration, CalibrationOptions()),
    (auc, AucOptions()),
    (average_precision, AveragePrecisionOptions()),
)


def score_diagnostics(table: ScoreCounts) -> None:
    """The driver's work for a request for six diagnostics of scores, five of which share one noisy release."""
    options: dict[str, Any] = {"neighbours": ADDED, "noise": NOISE}
    shared = measure_shared(table, tuple(settings for _, settings in SHARING), Terms(epsilon="0.833", **options))
    for module, settings in SHARING:
        module.summarise(module.DIAGNOSTIC.read_shared(settings, shared), seed=1)
    ecdf.release(table, epsilon="0.166", **options)


def spend_a_thousand_times() -> None:
    """The work of a budget meter for a release of very many parts."""
    meter = BudgetMeter(1)
    for part in range(1000):
        meter.spend("0.001", label=f"part {part}")


def compare_models(one: ScoreCounts, other: ScoreCounts) -> None:
    """Two ROC curves at half the budget each, and whether they differ."""
    first, second = (roc_curve.measure(table, epsilon="0.5", neighbours=ADDED, noise=NOISE) for table in (one, other))
    for measurement in (first, second):
        roc_curve.summarise(measurement, seed=1)
    roc_curve.compare(first, second)


def models(generator: np.random.Generator, *, rows: int) -> dict[str, Callable[[], object]]:
    """A residual plot and two fits, their noise included."""
    parts: dict[str, Any] = {
        "features": tuple(Bounded(name=f"x{at}", lower=0, upper=1) for at in range(10)),
        "categorical": (Levels(column="region", levels=("north", "east", "south", "west")),),
    }
    columns: dict[str, Any] = {f"x{at}": generator.random(rows) for at in range(10)}
    columns["region"] = generator.choice(["north", "east", "south", "west"], rows)
    outcome = columns["x0"] + generator.normal(0, 0.2, rows)
    residuals = ResidualCounts.from_arrays(100 * columns["x0"], generator.normal(0, 5, rows))
    design = CrossProductCells(outcome=Bounded(name="y", lower=0, upper=2), **parts)
    linear = CrossProducts.from_arrays(columns, outcome, design=design)
    logistic = LabelledRows.from_arrays(columns, (outcome > 0.5).astype(int), design=LabelledRowCells(**parts))
    options: dict[str, Any] = {"epsilon": 1, "neighbours": ADDED, "noise": NOISE}
    return {
        f"residual plot of {rows:,} rows": lambda: residual_plot.release(residuals, **options),
        "linear fit of ten numbers and four levels": lambda: linear_fit.release(linear, **options),
        "logistic fit of ten numbers and four levels": lambda: logistic_fit.release(logistic, **options),
    }


def choices(generator: np.random.Generator, table: ScoreCounts, *, rows: int) -> dict[str, Callable[[], object]]:
    """Selection, tests against a threshold, and prefix sums, their noise included."""
    values = generator.integers(0, 1 << 30, rows)
    return {
        "permute-and-flip, 65,536 candidates": lambda: permute_and_flip(
            np.arange(CELLS), epsilon=1, l_inf_sensitivity=1, noise=NOISE
        ),
        f"widened median, {rows:,} estimates": lambda: median_by_exponential(
            values, steps=1 << 30, epsilon="0.5", neighbours=REPLACED, noise=NOISE, changes=10, widen=1 << 20
        ),
        "threshold test, 65,536 queries": lambda: above_threshold(
            table.negatives, thresholds=10**9, epsilon=1, noise=NOISE, monotone=True
        ),
        "pruning of a hierarchy of 65,536 leaves": lambda: refined_nodes(
            table.negatives, threshold=20, epsilon=1, neighbours=ADDED, noise=NOISE
        ),
        "prefix sums of 32,768 cells by the square root": lambda: square_root_prefixes(
            table.negatives[: 1 << 15], rho="0.5", neighbours=ADDED, noise=NOISE
        ),
    }


def timed(generator: np.random.Generator, *, quick: bool) -> dict[str, Timing]:
    """Times of the cases, by turns."""
    rows = 20_000 if quick else 1_000_000
    many, few = scores(generator, rows=rows), scores(generator, rows=5000)
    empty = np.zeros(2 * CELLS, dtype=np.int64)
    shape = polynomial_noise(1)
    both = many.negatives + many.positives
    cases: dict[str, Callable[[], object]] = {
        "secure noise, 131,072 cells": lambda: NOISE.laplace(empty, epsilon=1, l1_sensitivity=1),
        f"1,023 recursive medians, {rows:,} rows": lambda: recursive_medians(
            both, levels=10, epsilon="0.2", neighbours=ADDED, noise=NOISE
        ),
        "1,023 recursive medians, 5,000 rows, a row replaced": lambda: recursive_medians(
            few.negatives + few.positives, levels=10, epsilon="0.2", neighbours=REPLACED, noise=NOISE
        ),
        f"{PRIROC}, {rows:,} rows": lambda: priroc(many, histogram=None),
        f"{PRIROC} by DAWA, {rows:,} rows": lambda: priroc(many, histogram="dawa"),
        "AUC by a smooth bound": lambda: release_auc(
            many.negatives, many.positives, shape=shape, neighbours=REPLACED, noise=NOISE
        ),
        "average precision by a smooth bound": lambda: release_average_precision(
            many.negatives, many.positives, shape=shape, neighbours=REPLACED, noise=NOISE
        ),
        "six score diagnostics of one request, noise included": lambda: score_diagnostics(many),
        "two models' ROC curves and their comparison": lambda: compare_models(many, few),
        **models(generator, rows=rows),
        **choices(generator, many, rows=rows),
        "a thousand spendings on a budget meter": spend_a_thousand_times,
    }
    return alternate(cases, warmups=1)


def growth(generator: np.random.Generator) -> list[tuple[str, str]]:
    """How the time of PriROC grows with thresholds and with cells, as text."""
    lines = []
    table = scores(generator, rows=1_000_000)
    cases: dict[str, Callable[[], object]] = {
        f"{count:,} thresholds": lambda count=count: priroc(table, histogram="dawa", thresholds=count)
        for count in (256, 1024, 4096)
    }
    for cells in (1 << 14, 1 << 18):
        other = scores(generator, rows=1_000_000, cells=cells)
        cases[f"1,024 thresholds on {cells:,} cells"] = lambda other=other: priroc(other, histogram="dawa")
    for name, timing in alternate(cases, warmups=1).items():
        lines.append((f"PriROC, {name}", in_milliseconds(timing)))
    return lines


def auc_errors(draws: int) -> list[tuple[str, str]]:
    """The mean absolute error of an AUC at 1,000 rows a class, epsilon 1, by density."""
    lines = []
    for shape in (polynomial_noise(1), laplace_noise(1, "1e-6"), cauchy_noise(1)):
        bound = auc_bound(1000, 1000, neighbours=REPLACED, smoothness=shape.smoothness)
        errors = np.abs([float(x) for x in shape.sample(draws, NOISE)]) * shape.scale * bound
        errors = np.minimum(errors, 0.5)
        spread = 1.96 * errors.std() / draws**0.5
        lines.append((f"error of an AUC, {shape.density} noise", f"{errors.mean():.5f} ± {spread:.5f}"))
    return lines


def in_milliseconds(timing: Timing) -> str:
    """Median and range on the clock, and the median processor time."""
    low, middle, high = (1000 * value for value in (min(timing.wall), timing.median, max(timing.wall)))
    return f"{middle:.1f} ms ({low:.1f}-{high:.1f}), processor {1000 * timing.median_cpu:.1f} ms"


def targets_of(timings: dict[str, Timing], dawa: dict[str, tuple[float, float]]) -> list[Target]:
    """The figures with their targets."""
    named = {"secure noise": 0.8, f"{PRIROC},": 0.05, f"{PRIROC} by DAWA": 0.05, "six score diagnostics": 1.5}
    targets = []
    for start, seconds in named.items():
        name, timing = next((name, timing) for name, timing in timings.items() if name.startswith(start))
        targets.append(
            Target(
                what=name,
                target=f"at most {1000 * seconds:.0f} ms",
                outcome=in_milliseconds(timing),
                met=timing.median <= seconds,
            )
        )
    worst = max(own / sort for own, sort in dawa.values())
    aim = "at most 25x"
    targets.append(
        Target(what="DAWA, 2^20 cells, against a sort", target=aim, outcome=f"{worst:.1f}x", met=worst <= 25)
    )
    return targets


def main() -> int:
    """Print the figures of docs/contributing/benchmarks/driver.md."""
    given = arguments(__doc__.splitlines()[0]).parse_args()
    generator = np.random.default_rng(0)
    progress("mechanisms by turns")
    timings = timed(generator, quick=given.quick)
    rows = [(name, in_milliseconds(timing)) for name, timing in timings.items()]
    if not given.quick:
        progress("growth")
        rows += growth(generator)
    progress("errors of an AUC")
    rows += auc_errors(DRAWS // 10 if given.quick else DRAWS)
    progress("DAWA against a sort")
    dawa = {} if given.quick else dawa_against_sort(generator)
    rows += [
        (f"DAWA, 2^20 cells, {name}, noise excluded", f"{1000 * own:.0f} ms, {own / sort:.1f} times a sort")
        for name, (own, sort) in dawa.items()
    ]
    report = Report(
        name="driver_mechanisms",
        columns=("what", "measured"),
        rows=rows,
        targets=[] if given.quick else targets_of(timings, dawa),
        figures={name: timing.wall for name, timing in timings.items()},
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
