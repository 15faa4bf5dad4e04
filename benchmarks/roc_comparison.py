"""Two models on the same rows, over tables drawn from a written law: ``python -m benchmarks.roc_comparison [--quick]``.

The law. Rows from 1,000 to 80,000, the share of positives from 1% to 50% and epsilon from 0.5 to 4, each uniform in its
logarithm; the AUC uniform from 0.55 to 0.96; the correlation of the errors of both models 0, 0.3, 0.6, 0.9 or 0.98 (a
Gaussian copula in each class). Each model's log-odds have a shape of their own: normal; normal with a standard
deviation of positives from half to twice that of negatives; skewed (Gumbel); heavy tails (Student's t, 3 degrees of
freedom); or normal, rounded to 4 to 29 values. Shifts and stretches of the log-odds, different for each model, leave
the AUC as it is.

Both models have the same AUC in the population (false alarms, coverage), or the second one 0.03 less (power). Intervals
are of level 0.9. The test on the rows is DeLong's for paired areas, without privacy.

With ``--shared``, the first curve is read from a noisy release that other diagnostics share, at half of epsilon. Then
``--without`` is the share of rows that have no second score; they are those with the largest sums of the first score
and a random number, so that they are of another law than the rest. On the rest two equally good models differ, and only
the interval for these rows says what it should.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import optimize, special, stats

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.options import RocComparisonSettings, RocCurveSettings
from spark_jobs.diagnostics import roc_comparison
from spark_jobs.diagnostics._shared_groups.measurement import measure_shared
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.diagnostics.roc_comparison import RocComparison
from spark_jobs.diagnostics.roc_comparison.measurement import measure_rest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts
from tests.support.paired_scores import delong

SHAPES = ("normal", "unequal", "skewed", "heavy", "coarse")
CORRELATIONS = (0.0, 0.3, 0.6, 0.9, 0.98)
GAP = 0.03
SIGNALS = (0.0, 150.0, 500.0, 2000.0, np.inf)
"""Bounds of the rows of the table, by the size of the smaller class times epsilon."""
_LEVELS = (np.arange(4000) + 0.5) / 4000
Quantiles = Callable[[FloatArray], FloatArray]
Rows = tuple[Int64Array, FloatArray, FloatArray]


def log_odds(shape: str, random: np.random.Generator) -> tuple[Quantiles, Callable[[float], Quantiles]]:
    """Quantile functions of the negatives' log-odds, and of the positives' at a distance."""
    normal = special.ndtri
    if shape == "unequal":
        times = float(np.exp(random.uniform(np.log(0.5), np.log(2))))
        return normal, lambda d: lambda u: times * normal(u) + d
    if shape == "coarse":
        step = 6.0 / int(random.integers(4, 30))
        return (
            lambda u: step * np.round(normal(u) / step)
        ), lambda d: lambda u: step * np.round((normal(u) + d) / step)
    quantile = {"normal": normal, "skewed": lambda u: -np.log(-np.log(u)), "heavy": lambda u: stats.t.ppf(u, 3)}[shape]
    return quantile, lambda d: lambda u: quantile(u) + d


def positives_at(auc: float, negatives: Quantiles, moved: Callable[[float], Quantiles]) -> Quantiles:
    """The positives' quantile function that makes this area."""
    below = np.sort(negatives(_LEVELS))

    def area(distance: float) -> float:
        above = moved(distance)(_LEVELS)
        return float((np.searchsorted(below, above) + np.searchsorted(below, above, side="right")).mean() / 8000)

    return moved(float(optimize.brentq(lambda d: area(d) - auc, -1, 25, xtol=1e-4)))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a release of one table says, and what its rows say.

    Attributes:
        signal: size of the smaller class times epsilon.
        kind: correlation and shapes, to group by.
        defined: whether the release has figures.
        rejected, rejected_by_rows: whether the test at 5% says that the AUCs differ.
        covered, covered_population: whether the intervals hold the exact difference, and that of the population.
        width: of the population interval over that of DeLong's.
    """

    signal: float
    kind: tuple[str, ...]
    defined: bool
    rejected: bool = False
    rejected_by_rows: bool = False
    covered: bool = False
    covered_population: bool = False
    width: float = np.nan


def drawn(random: np.random.Generator, gap: float) -> tuple[Rows, float, tuple[str, ...]]:
    """A table of the law, its epsilon, and what it is."""
    rows = int(np.exp(random.uniform(np.log(1000), np.log(80_000))))
    share, epsilon = (float(np.exp(random.uniform(*np.log(ends)))) for ends in ((0.01, 0.5), (0.5, 4)))
    area, alike = float(random.uniform(0.55, 0.96)), float(random.choice(CORRELATIONS))
    labels = (random.random(rows) < share).astype(np.int64)
    common, scores, shapes = random.normal(size=rows), [], []
    for auc in (area, area - gap):
        shapes.append(str(random.choice(SHAPES)))
        negatives, moved = log_odds(shapes[-1], random)
        positives = positives_at(auc, negatives, moved)
        errors = np.sqrt(alike) * common + np.sqrt(1 - alike) * random.normal(size=rows)
        level = np.clip(special.ndtr(errors), 1e-12, 1 - 1e-12)
        scale, shift = np.exp(random.normal(0, 0.4)), random.normal(-1, 1)
        scores.append(special.expit(shift + scale * np.where(labels == 1, positives(level), negatives(level))))
    return (labels, scores[0], scores[1]), round(epsilon, 3), (f"correlation {alike:g}", *set(shapes))


def released(rows: Rows, epsilon: float, noise: SeededNoise, *, more: Rows | None) -> RocComparison:
    """The comparison; beside a shared release of half of epsilon if there are ``more`` rows that it counts."""
    pairs = PairedScoreCounts.from_arrays(*rows)
    if more is None:
        return roc_comparison.release(pairs, epsilon=epsilon, noise=noise)
    terms = Terms(epsilon=epsilon / 2, noise=noise)
    shared = measure_shared(ScoreCounts.from_arrays(*more[:2]), (RocCurveSettings(),), terms)
    draw = measure_rest(pairs, RocComparisonSettings(), terms, shared)
    return roc_comparison.summarise(draw, seed=int(noise.words(1)[0] >> 1))


def compared(random: np.random.Generator, gap: float, *, shared: bool, without: float) -> Outcome:
    """One table and one release."""
    rows, epsilon, kind = drawn(random, gap)
    more = rows if shared else None
    if without:
        place = rows[1] / rows[1].std() + random.normal(size=rows[0].size)
        kept = place <= np.quantile(place, 1 - without)
        rows = (rows[0][kept], rows[1][kept], rows[2][kept])
    difference, variance = delong(*rows)
    noise = SeededNoise(int(random.integers(2**62)))
    outcome = released(rows, epsilon, noise, more=more)
    signal = float(min(rows[0].sum(), (1 - rows[0]).sum()) * epsilon)
    if (
        outcome.auc_difference.interval is None
        or outcome.auc_difference.population is None
        or outcome.auc_p_value is None
    ):
        return Outcome(signal=signal, kind=kind, defined=False)
    (low, high), (lowest, highest) = outcome.auc_difference.interval, outcome.auc_difference.population
    reach = 1.6449 * np.sqrt(variance)
    return Outcome(
        signal=signal,
        kind=kind,
        defined=True,
        rejected=outcome.auc_p_value <= 0.05,
        rejected_by_rows=abs(difference) >= 1.96 * np.sqrt(variance),
        covered=low <= difference <= high,
        covered_population=lowest <= gap <= highest,
        width=float((highest - lowest) / (2 * reach)),
    )


def share_of(tables: Sequence[Outcome], name: str) -> str:
    """The share of tables with a property, with its 95% Clopper-Pearson interval."""
    of = [outcome for outcome in tables if outcome.defined]
    hits = sum(bool(getattr(outcome, name)) for outcome in of)
    if not of:
        return "-"
    low, high = stats.binomtest(hits, len(of)).proportion_ci(0.95)
    return f"{hits / len(of):.1%} ({low:.1%}-{high:.1%})"


def line(name: str, equal: Sequence[Outcome], apart: Sequence[Outcome]) -> list[str]:
    """A row of the table."""
    defined = [outcome for outcome in equal if outcome.defined]
    width = float(np.median([outcome.width for outcome in defined])) if defined else np.nan
    undefined = f"{1 - len(defined) / len(equal):.0%}" if equal else "-"
    return [
        name,
        f"{len(equal)}",
        undefined,
        share_of(equal, "rejected"),
        share_of(equal, "rejected_by_rows"),
        share_of(equal, "covered_population"),
        share_of(equal, "covered"),
        f"{width:.2f}",
        share_of(apart, "rejected"),
        share_of(apart, "rejected_by_rows"),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its table."""
    parser = arguments((__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", action="store_true", help="read the first curve from a shared release")
    parser.add_argument("--without", type=float, default=0.0, help="share of rows without a second score, if shared")
    options = parser.parse_args(argv)
    outcome: dict[float, list[Outcome]] = {}
    for gap, seed, tables in ((0.0, 1, 300), (GAP, 2, 150)):
        random = np.random.default_rng(seed)
        outcome[gap] = []
        for i in range(8 if options.quick else tables):
            outcome[gap].append(compared(random, gap, shared=options.shared, without=options.without))
            if i % 50 == 0:
                progress(f"gap {gap:g}: {i} of {tables} tables")
    equal, apart = outcome[0.0], outcome[GAP]
    groups: list[tuple[str, Callable[[Outcome], bool]]] = [("all", lambda _: True)]
    for low, high in pairwise(SIGNALS):
        name = f"smaller class x epsilon {low:g} to {high:g}" if high < np.inf else f"above {low:g}"
        groups.append((name, lambda one, low=low, high=high: low <= one.signal < high))
    for kind in (*(f"correlation {alike:g}" for alike in CORRELATIONS), *SHAPES):
        groups.append((kind, lambda one, kind=kind: kind in one.kind))
    rows = [line(name, *([one for one in part if inside(one)] for part in (equal, apart))) for name, inside in groups]
    alarms = float(np.mean([one.rejected for one in equal if one.defined]))
    target = Target(
        what="false alarms of the test at 5%, equally good models",
        target="3% to 7%",
        outcome=share_of(equal, "rejected"),
        met=0.03 <= alarms <= 0.07,
    )
    columns = (
        "tables",
        "drawn",
        "undefined",
        "false alarms",
        "DeLong on the rows",
        "population interval holds",
        "noise interval holds",
        "width over DeLong's (median)",
        f"power at {GAP:g}",
        "DeLong on the rows",
    )
    report = Report(
        name=f"roc_comparison{', shared' * options.shared}, {options.without:g} without", columns=columns, rows=rows,
        targets=[] if options.quick or options.without else [target],
        figures={"rows": rows},
    )  # fmt: skip
    return publish(report, options.json)


if __name__ == "__main__":
    sys.exit(main())
