"""Coverage of intervals for a population of units with several rows each: ``python -m benchmarks.units``.

Units have 3, 10 or 1 to 10 rows whose labels and scores are alike, half alike or not alike; there are 300 to 5,000 of
them. Each release is of new units. What is true of the population is computed by NumPy and scikit-learn from the raw
rows of 300,000 units. ``--areas`` measures ROC curves too, which take longer. Beside each coverage stands the mean
width over that of the intervals that allow for the most that units of so many rows can vary.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.options import ScoreCells, Statistic
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import cells_of
from spark_jobs.statistics import ScoreCounts
from spark_jobs.statistics.unit_squares import OfCells, unit_squares

LAWS, ROWS, UNITS, EPSILONS = (
    ("alike", "half", "not alike"),
    ("3", "10", "1 to 10"),
    (300, 1000, 5000),
    ("0.5", "1", "5"),
)
MIXED = {"alike": 0.98, "half": 0.5, "not alike": 0.0}
TRUTH_FROM = 300_000
WIDTHS_FROM = 30
"""Releases of a cell whose width is compared; it varies little."""
LOWEST, HIGHEST = 0.88, 0.95
RATES = ("recall", "precision", "specificity", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a table: their units, labels and scores; shape (n,)."""

    unit: Int64Array
    labels: BoolArray
    scores: FloatArray
    max_rows: int

    @classmethod
    def drawn(cls, random: np.random.Generator, *, law: str, rows: str, units: int) -> Rows:
        """New units of a law."""
        sizes = random.integers(1, 11, units) if rows == "1 to 10" else np.full(units, int(rows))
        unit = np.repeat(np.arange(units), sizes)
        chance = {
            "alike": lambda: (random.random(units) < 0.3).astype(np.float64),
            "half": lambda: random.beta(0.9, 2.1, units),
            "not alike": lambda: np.full(units, 0.3),
        }[law]()
        labels = random.random(unit.size) < chance[unit]
        common, own = random.normal(size=units)[unit], random.normal(size=unit.size)
        deviates = np.sqrt(MIXED[law]) * common + np.sqrt(1 - MIXED[law]) * own
        scores = 1 / (1 + np.exp(-(1.2 * labels + deviates - 0.6)))
        return cls(unit=unit, labels=labels, scores=scores, max_rows=10 if rows == "1 to 10" else int(rows))

    def exact(self) -> dict[str, float]:
        """The figures of these rows."""
        predicted, right = self.scores >= 0.5, (self.scores >= 0.5) == self.labels
        return {
            "recall": float(predicted[self.labels].mean()),
            "precision": float(self.labels[predicted].mean()),
            "specificity": float((~predicted)[~self.labels].mean()),
            "accuracy": float(right.mean()),
            "auc": float(roc_auc_score(self.labels, self.scores)),
        }

    def released(
        self, epsilon: str, seed: int, *, areas: bool, share: str | None = None
    ) -> dict[str, tuple[float, float]]:
        """The intervals of each figure for the population."""
        wanted = _request(self.max_rows, epsilon, areas=areas, share=share)
        counts = {ScoreCells(): ScoreCounts.from_arrays(self.labels, self.scores)}

        def squares(statistic: Statistic, weights: OfCells) -> Int64Array:
            cells = counts[ScoreCells()].cells
            keys = self.labels * cells + cells_of(self.scores, cells)
            return unit_squares(self.unit, keys, weights, max_rows=self.max_rows)

        draw = measure(wanted, counts, charge_id=None, noise=SeededNoise(seed), squares=squares)
        results, _ = results_of(wanted, draw)
        published = results["confusion_matrix"].to_dict()
        intervals = {
            rate: (published[f"{rate}_population_lower"][0], published[f"{rate}_population_upper"][0]) for rate in RATES
        }
        if areas:
            intervals["auc"] = results["roc_curve"].to_dict()["auc_population_interval"]
        return {name: ends for name, ends in intervals.items() if ends is not None and ends[0] is not None}


def _request(max_rows: int, epsilon: str, *, areas: bool, share: str | None) -> ReleaseRequest:
    fields: dict[str, Any] = {
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "label",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": ["confusion_matrix", *(["roc_curve"] if areas else [])],
        "budget": {"epsilon": epsilon},
        "unit": {"column": "person", "max_rows": max_rows},
    }
    return ReleaseRequest.parse(fields if share is None else {**fields, "population_share": share})


def cells(
    releases: int, *, areas: bool, epsilons: Sequence[str] = EPSILONS
) -> Iterator[tuple[str, dict[str, list[bool]], dict[str, list[float]]]]:
    """For each cell of the law, whether each interval holds, and its width over that of the largest possible one."""
    for law in LAWS:
        for rows in ROWS:
            truth = Rows.drawn(np.random.default_rng(1), law=law, rows=rows, units=TRUTH_FROM).exact()
            for units in UNITS:
                for epsilon in epsilons:
                    name = f"{law}, {rows} rows, {units:,} units, epsilon {epsilon}"
                    progress(name)
                    random = np.random.default_rng(units + len(law) + len(rows))
                    covered: dict[str, list[bool]] = defaultdict(list)
                    wide: dict[str, list[float]] = defaultdict(list)
                    for seed in range(releases):
                        table = Rows.drawn(random, law=law, rows=rows, units=units)
                        few = seed < WIDTHS_FROM
                        bound = table.released(epsilon, seed, areas=areas, share="0") if few else {}
                        for figure, (low, high) in table.released(epsilon, seed, areas=areas).items():
                            covered[figure].append(low <= truth[figure] <= high)
                            if figure in bound and bound[figure][1] > bound[figure][0]:
                                wide[figure].append((high - low) / (bound[figure][1] - bound[figure][0]))
                    yield name, covered, wide


def main(argv: list[str] | None = None) -> int:
    """Draw tables, and print coverage."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=300, help="of each cell (default: 300)")
    parser.add_argument("--areas", action="store_true", help="areas under ROC curves, too")
    parser.add_argument("--epsilon", nargs="+", default=EPSILONS, choices=EPSILONS, help="some of the epsilons")
    given = parser.parse_args(argv)
    rows, of_laws = [], defaultdict(list)
    figures = (*RATES, *(["auc"] if given.areas else []))
    many = 1 if given.quick else given.releases
    for name, covered, wide in cells(many, areas=given.areas, epsilons=given.epsilon):
        shown = (f"{np.mean(covered[f]):.3f} ({np.mean(wide[f]):.2f})" if covered[f] else "undefined" for f in figures)
        rows.append([name, *shown])
        of_laws[", ".join(name.split(", ")[:2])] += [bool(one) for f in figures for one in covered[f]]
    targets = [
        Target(
            what=f"all figures, {name}",
            target=f"{LOWEST:.2f} to {HIGHEST:.2f} in the mean",
            outcome=f"{np.mean(covered):.3f} of {len(covered):,}",
            met=LOWEST <= float(np.mean(covered)) <= HIGHEST,
        )
        for name, covered in of_laws.items()
    ]
    report = Report(
        name="units",
        columns=("cell of the law", *figures),
        rows=rows,
        targets=[] if given.quick else targets,
        figures={},
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
