"""Errors and intervals of score figures where one class is rare: ``python -m benchmarks.rare_classes``.

Tables are drawn from a written law (``_score_law``): 100 to 3,000 positives of 12,000 to 80,000 rows, AUC 0.62 to 0.93,
six shapes, epsilon 0.5 to 4. Each release is of a table of its own. Errors are against the same rows; population
intervals are judged against the law. ``--releases`` of each shape in each row (84 make the 504 of a row's target).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from scipy.stats import beta

from benchmarks._score_law import POSITIVES, SHAPES, SIGNALS, ScoreTable, drawn_table
from benchmarks.auc_accuracy import exact_figures
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics import auc, average_precision, roc_curve
from spark_jobs.diagnostics.roc_curve.trace import trace
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.statistics import ScoreCounts

LOWEST, HIGHEST = 0.88, 0.95
CREDIBLE = 0.99


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one table's releases showed: errors (released less exact), and which intervals covered."""

    area_error: float
    counted_error: float
    direct_error: float
    area_covered: float
    band_covered: float
    whole_covered: float
    population_covered: float
    precision_error: float
    precision_covered: float
    area_width: float


def outcome(table: ScoreTable, seed: int, *, others: bool = True) -> Outcome | None:
    """Release the figures of a table; None if its curve is undefined.

    Args:
        table: a table of the law.
        seed: of the noise.
        others: whether to release average precision and a direct AUC, too.
    """
    noise, statistic = SeededNoise(seed), table.counts
    draw = roc_curve.measure(statistic, epsilon=table.epsilon, noise=noise)
    curve = roc_curve.summarise(draw, seed=seed)
    if curve.auc.value is None or curve.auc.interval is None or curve.auc.population is None:
        return None
    exact, (low, high), population = _area(statistic), curve.auc.interval, curve.auc.population
    band, whole = (
        band_holds(statistic, curve.fpr, *ends)
        for ends in (
            (curve.tpr.lower, curve.tpr.upper),
            (curve.tpr.everywhere.lower, curve.tpr.everywhere.upper),
        )
    )
    direct = precision_error = precision_covered = float("nan")
    if others:
        area = auc.release(statistic, epsilon=table.epsilon, method="polynomial", noise=noise)
        direct = float("nan") if area.value is None else area.value - exact
        released = average_precision.release(statistic, epsilon=table.epsilon, noise=noise)
        if released.value is not None and released.interval is not None:
            true = exact_figures(statistic)[1]
            precision_error = released.value - true
            precision_covered = float(released.interval[0] <= true <= released.interval[1])
    return Outcome(
        area_error=curve.auc.value - exact,
        counted_error=trace(draw, raw=True).auc - exact,
        direct_error=direct,
        area_covered=float(low <= exact <= high),
        band_covered=float(band.mean()),
        whole_covered=float(whole.all()),
        population_covered=float(population[0] <= table.population_auc <= population[1]),
        precision_error=precision_error,
        precision_covered=precision_covered,
        area_width=high - low,
    )


def band_holds(statistic: ScoreCounts, at: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """At which false positive rates a band holds the exact curve; on a vertical stretch any of its values will do."""
    lowest, highest = _exact_rates(statistic, at)
    return ((highest >= lower - 1e-9) & (lowest <= upper + 1e-9)).astype(np.float64)


def nearest_rates(statistic: ScoreCounts, at: FloatArray, released: FloatArray) -> FloatArray:
    """The exact true positive rates at false positive rates; on a vertical stretch, the one nearest to the released."""
    return np.clip(released, *_exact_rates(statistic, at))


def _exact_rates(statistic: ScoreCounts, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest exact true positive rate at each false positive rate."""
    fpr, tpr = (
        np.concatenate([[0.0], np.cumsum(counts[::-1]) / counts.sum()])
        for counts in (statistic.negatives, statistic.positives)
    )
    first = np.flatnonzero(np.diff(fpr, prepend=-1.0) > 0)
    last = np.append(first[1:], fpr.size) - 1
    return np.interp(at, fpr[first], tpr[first]), np.interp(at, fpr[first], tpr[last])


def _area(statistic: ScoreCounts) -> float:
    return float(auc_fraction(statistic.negatives, statistic.positives))


def outcomes(
    random: np.random.Generator, *, positives: int, signal: float, releases: int, others: bool = True
) -> Iterator[Outcome]:
    """Defined outcomes of that many tables of each shape."""
    for _ in range(releases):
        for shape in SHAPES:
            table = drawn_table(random, positives=positives, auc=signal, shape=shape)
            if (released := outcome(table, int(random.integers(2**62)), others=others)) is not None:
                yield released


def credible(covered: FloatArray) -> tuple[float, float]:
    """Clopper and Pearson's interval of a coverage."""
    hits, count, tail = covered.sum(), covered.size, (1 - CREDIBLE) / 2
    low = beta.ppf(tail, hits, count - hits + 1) if hits > 0 else 0.0
    high = beta.isf(tail, hits + 1, count - hits) if hits < count else 1.0
    return float(low), float(high)


def row_of(name: str, released: Sequence[Outcome], wanted: int) -> list[str]:
    """The row of one cell of the law."""
    values = np.array([astuple(one) for one in released])
    errors = [f"{np.nanmean(np.abs(values[:, i])):.4f} ({np.nanmean(values[:, i]):+.4f})" for i in (0, 1, 2)]
    coverage = [f"{np.nanmean(values[:, i]):.3f}" for i in (3, 4, 5, 6)]
    precision = [f"{np.nanmean(np.abs(values[:, 7])):.4f} ({np.nanmean(values[:, 7]):+.4f})"]
    return [name, *errors, *coverage, *precision, f"{np.nanmean(values[:, 8]):.3f}", f"{len(released)} of {wanted}"]


def main(argv: list[str] | None = None) -> int:
    """Draw tables, and print errors and coverage."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=84, help="tables of each shape in a row (default: 84)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    releases = 1 if given.quick else given.releases
    random, rows, every, targets = np.random.default_rng(given.seed), [], [], []
    for positives in POSITIVES:
        for signal in SIGNALS:
            name = f"{positives:,} positives, AUC {signal:.2f}"
            progress(name)
            released = list(outcomes(random, positives=positives, signal=signal, releases=releases))
            every += released
            rows.append(row_of(name, released, releases * len(SHAPES)))
            low, high = credible(np.array([one.area_covered for one in released]))
            targets.append(
                Target(
                    what=f"AUC interval, {name}",
                    target=f"the {CREDIBLE:.0%} interval of its coverage meets {LOWEST:.2f} to {HIGHEST:.2f}",
                    outcome=f"{low:.3f} to {high:.3f}",
                    met=low <= HIGHEST and high >= LOWEST,
                )
            )
    rows.append(row_of("all", every, len(rows) * releases * len(SHAPES)))
    columns = (
        "cell of the law", "AUC: error (bias)", "as counted", "direct", "interval", "band", "whole band", "population",
        "AP: error (bias)", "AP interval", "defined",
    )  # fmt: skip
    report = Report(
        name="rare_classes", columns=columns, rows=rows, targets=[] if given.quick else targets,
        figures={"outcomes": [astuple(one) for one in every]},
    )  # fmt: skip
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
