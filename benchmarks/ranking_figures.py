"""Coverage of the intervals and bands of figures of a ranking, on tables drawn at random.

The law of the tables is that of ``_score_law``. ``python -m benchmarks.ranking_figures`` shows a row for each number of
positives. With ``--large``, tables have 100 or 300 positives, 60,000 to 80,000 rows and an epsilon of 4.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks._score_law import POSITIVES, SHAPES, SIGNALS, drawn_table
from benchmarks.harness import Report, arguments, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics import ranking_figures
from spark_jobs.diagnostics.ranking_figures import RankingFigures
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import cells_of
from spark_jobs.statistics import ScoreCounts

COVERED = ("gini", "ks", "cost", "gain", "precision", "precision everywhere")


def exact_figures(
    statistic: ScoreCounts, released: RankingFigures, *, recalls: FloatArray | None = None
) -> dict[str, FloatArray]:
    """The figures of the exact counts, at the released threshold; tied rows are in random order.

    Args:
        statistic: the exact counts.
        released: says at which depths, recalls and threshold.
        recalls: other recalls for the precision.
    """
    false, true = (
        np.append(0.0, np.cumsum(rows[::-1], dtype=np.float64)) for rows in (statistic.negatives, statistic.positives)
    )
    recalls = released.recall if recalls is None else recalls
    rows, wanted = false + true, recalls * true[-1]
    rise = np.maximum(np.searchsorted(true, wanted - 1e-9), 1)
    part = (wanted - true[rise - 1]) / (true[rise] - true[rise - 1])
    precision = wanted / (wanted + false[rise - 1] + part * (false[rise] - false[rise - 1]))
    steps = np.append(True, np.diff(rows) > 0)
    threshold = released.threshold or 0.0
    at = 0 if threshold > 1 else statistic.cells - int(cells_of(np.array(threshold), statistic.cells))
    cost = released.false_positive_cost * false[at] + released.false_negative_cost * (true[-1] - true[at])
    return {
        "ks": (true / true[-1] - false / false[-1]).max(),
        "gini": 2 * np.trapezoid(true / true[-1], false / false[-1]) - 1,
        "gain": np.interp(released.depths * rows[-1], rows[steps], true[steps]) / true[-1],
        "precision": precision,
        "cost": cost / rows[-1],
    }


def coverage_of(seed: int, *, shape: str | None = None, large: bool = False) -> dict[str, float] | None:
    """The share of each figure's intervals that hold for one table; None if the figures are undefined."""
    terms: dict[str, Any] = {"sizes": (60_000, 80_000), "epsilons": ("4",)} if large else {}
    random = np.random.default_rng(seed)
    table = drawn_table(
        random,
        positives=int(random.choice(POSITIVES[:2] if large else POSITIVES)),
        auc=float(random.choice(SIGNALS)),
        shape=shape or str(random.choice(SHAPES)),
        **terms,
    )
    positives, negatives = (int(rows.sum()) for rows in (table.counts.positives, table.counts.negatives))
    result = ranking_figures.release(
        table.counts, epsilon=table.epsilon, noise=SeededNoise(seed), false_negative_cost=negatives / positives
    )
    if result.status != "ok":
        return None
    exact, coverage = exact_figures(table.counts, result), {"positives": float(positives)}
    for name in ("gini", "ks", "cost"):
        low, high = result.published()[f"{name}_interval"]
        coverage[name] = float(low <= exact[name] <= high)
    for name, end in (("gain", ""), ("precision", ""), ("precision", "_everywhere")):
        low, high = (result.published()[f"{name}_{side}{end}"] for side in ("lower", "upper"))
        inside = (low <= exact[name] + 1e-9) & (exact[name] - 1e-9 <= high)
        coverage[name + end.replace("_", " ")] = float(inside.all() if end else inside.mean())
    return coverage


def main(argv: list[str] | None = None) -> int:
    """Print the coverage for each number of positives, in percent."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=300, help="tables of the law (default: 300)")
    parser.add_argument("--large", action="store_true", help="tables of few positives and many rows")
    given = parser.parse_args(argv)
    drawn = (coverage_of(seed, large=given.large) for seed in range(2 if given.quick else given.tables))
    coverage = [one for one in drawn if one is not None]
    rows = []
    for positives in (*POSITIVES, None):
        of_these = [one for one in coverage if positives in (None, one["positives"])]
        means = [f"{100 * np.mean([one[name] for one in of_these]):.0f}" for name in COVERED] if of_these else []
        rows += [[f"{positives or 'all'}", f"{len(of_these)}", *means]] if of_these else []
    report = Report(
        name="ranking_figures: coverage of 90% intervals, in percent",
        columns=("positives", "tables", *COVERED),
        rows=rows,
        targets=[],
        figures={name: [float(one[name]) for one in coverage] for name in COVERED},
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
