"""A law of units with several rows each, and the request for their figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.options import ScoreCells, Statistic
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.score_grid import cells_of
from spark_jobs.statistics import ScoreCounts
from spark_jobs.statistics.unit_squares import OfCells, unit_squares

MIXED = {"alike": 0.98, "half": 0.5, "not alike": 0.0}
RATES = ("recall", "precision", "specificity", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of a table: their units, labels and scores; shape (n,)."""

    unit: Int64Array
    labels: BoolArray
    scores: FloatArray
    max_rows: int
    mixed: float

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
        largest = 10 if rows == "1 to 10" else int(rows)
        table = cls(unit=unit, labels=labels, scores=np.zeros(unit.size), max_rows=largest, mixed=MIXED[law])
        return replace(table, scores=table.scored(random))

    def scored(self, random: np.random.Generator) -> FloatArray:
        """Scores of a model of these rows."""
        common, own = random.normal(size=self.unit[-1] + 1)[self.unit], random.normal(size=self.unit.size)
        deviates = np.sqrt(self.mixed) * common + np.sqrt(1 - self.mixed) * own
        scores: FloatArray = 1 / (1 + np.exp(-(1.2 * self.labels + deviates - 0.6)))
        return scores

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
        kinds = ["confusion_matrix", *(["roc_curve"] if areas else [])]
        wanted = request_of(kinds, self.max_rows, epsilon, share=share)
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


def request_of(diagnostics: list[Any], max_rows: int, epsilon: str, *, share: str | None) -> ReleaseRequest:
    """The request for diagnostics of units with up to so many rows; ``share`` is what is paid for their variance."""
    fields: dict[str, Any] = {
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "label": "label",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": diagnostics,
        "budget": {"epsilon": epsilon},
        "unit": {"column": "person", "max_rows": max_rows},
    }
    return ReleaseRequest.parse(fields if share is None else {**fields, "population_share": share})
