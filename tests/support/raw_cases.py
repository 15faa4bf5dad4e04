"""A table of values as people have them, what is asked of it, and the exact figures of its raw rows.

The values lie on lattices, are heaped, or are tiny. Each question is put through the command line, a DAG and Python,
and the released interval must hold the figure of the rows, with so large a budget that only rounding can move it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

ROWS = 20_000
EPSILON = 40
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
COLUMNS = {
    "visit": "string in ('yes', 'no')",
    "age": "bigint",
    "wealth": "double",
    "doses": "bigint",
    "rounded": "double",
    "tiny": "double",
    "percent": "double between 0 and 100 score",
    "points": "double between 300 and 850 score",
    "logit": "double logit",
    "signed": "double between -1 and 1 score",
    "whole_points": "double",
}
OTHER_SCALES = ("percent", "points", "logit", "signed")
"""Columns with the ranking of ``tiny``, on scales that go beyond [0, 1]."""
LABEL = {"column": "visit", "positive": "yes", "negative": "no"}
WRONG_LABEL = {**LABEL, "positive": "Yes"}
"""A word that the column does not hold."""


def raw_table() -> pd.DataFrame:
    """The rows."""
    random = np.random.default_rng(42)
    visit = random.random(ROWS) < 0.3
    odds = random.normal(visit * 1.1 - 1.5, 1.2)
    score = 1 / (1 + np.exp(-odds))
    return pd.DataFrame(
        {
            "visit": np.where(visit, "yes", "no"),
            "age": random.integers(18, 90, ROWS),
            "wealth": np.where(np.arange(ROWS) < 0.8 * ROWS, 65_000.0, random.uniform(0, 500_000, ROWS)),
            "doses": np.clip(random.poisson(16, ROWS), 1, 80),
            "rounded": np.round(random.beta(2, 2.2, ROWS), 2),
            "tiny": score * 1e-6,
            "percent": score * 100,
            "points": 300 + 550 * score,
            "logit": odds,
            "signed": 2 * score - 1,
            "whole_points": np.round(300 + 550 * score),
        }
    )


def write_rows(folder: Path, rows: pd.DataFrame) -> str:
    """The table's folder, with the rows as version ``v1``."""
    (folder / "v1").mkdir(parents=True)
    rows.to_parquet(folder / "v1" / "part-0.parquet")
    return str(folder)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A diagnostic of the table, and what its intervals must hold.

    Attributes:
        entry: as it stands in a request.
        score: the column of the model's scores.
        column: the column that the figures are about.
        figure: an exact figure of raw values and labels for each of the intervals, in their order.
        intervals: all intervals of its result in a manifest.
        stated: what the request states of the scores that no domain says.
    """

    entry: Mapping[str, Any]
    score: str
    column: str
    figure: Callable[[Any, Any], list[float]]
    intervals: Callable[[Mapping[str, Any]], list[list[float]]]
    stated: Mapping[str, Any] = field(default_factory=dict)

    def check(self, result: Mapping[str, Any], rows: pd.DataFrame, *, status: str = "ok") -> None:
        """The result has this status, and its intervals hold the figures of the rows."""
        true = self.figure(rows[self.column].to_numpy(float), (rows["visit"] == "yes").to_numpy())
        shown = self.intervals(result)
        assert len(shown) == len(true)
        assert result["status"] == status
        for (low, high), figure in zip(shown, true, strict=True):
            slack = 1e-9 * max(abs(figure), 1.0)  # what decimals lose
            assert low - slack <= figure <= high + slack, (self.entry, low, figure, high)


def _levels(*levels: float) -> Callable[[Any, Any], list[float]]:
    return lambda values, _: [float(np.quantile(values, level, method="inverted_cdf")) for level in levels]


def _one(result: Mapping[str, Any]) -> list[list[float]]:
    return [result["interval"]]


def _every(result: Mapping[str, Any]) -> list[list[float]]:
    return [one["interval"] for one in result["quantiles"]]


def _area(values: Any, labels: Any) -> list[float]:
    return [float(roc_auc_score(labels, values))]


def _values(kind: str, column: str, levels: tuple[float, ...], score: str = "tiny", **fields: Any) -> Question:
    entry = {"kind": kind, "column": column, **fields}
    asked = {"quantiles": levels} if kind == "ecdf" else {"level": levels[0]}
    read = _every if kind == "ecdf" else _one
    return Question(entry={**entry, **asked}, score=score, column=column, figure=_levels(*levels), intervals=read)


AREA = {"kind": "auc", "confidence": 0.999}
"""Noise moves an area by more than rounding does, even at this budget."""
THRESHOLDS = (500, 510.5)
"""On a value of the column, and between two."""
POINTS = {"bounds": [300, 850], "step": 1}


def _recalls(values: Any, labels: Any) -> list[float]:
    return [float((values[labels] >= threshold).mean()) for threshold in THRESHOLDS]


def _of_recall(result: Mapping[str, Any]) -> list[list[float]]:
    return [list(ends) for ends in zip(result["recall_lower"], result["recall_upper"], strict=True)]


QUESTIONS: Mapping[str, tuple[Question, ...]] = {
    "ages and doses": (
        _values("quantile", "age", (0.5,), bounds=(0, 120)),
        _values("ecdf", "doses", LEVELS, bounds=(0, 100)),
    ),
    "heaped wealth": (
        _values("quantile", "wealth", (0.5,), bounds=(0, 500_000)),
        _values("ecdf", "age", (0.5,), bounds=(0, 120)),
    ),
    "heaped wealth without bounds": (
        _values("quantile", "wealth", (0.5,)),
        _values("ecdf", "wealth", (0.5,)),
    ),
    "doses and rounded scores": (
        _values("ecdf", "doses", (0.5,), bounds=(0, 100), score="rounded"),
        Question(
            entry={"kind": "quantile", "level": 0.9}, score="rounded", column="rounded", figure=_levels(0.9),
            intervals=_one,
        ),
    ),
    **{
        scale: (Question(entry=AREA, score=scale, column=scale, figure=_area, intervals=_one),)
        for scale in ("tiny", *OTHER_SCALES)
    },
    "whole points": (
        Question(
            entry={"kind": "confusion_matrix", "thresholds": THRESHOLDS, "confidence": 0.999}, score="whole_points",
            column="whole_points", figure=_recalls, intervals=_of_recall, stated=POINTS,
        ),
    ),
}  # fmt: skip
"""Each list is one request: its diagnostics share the model's score."""


def request_of(questions: tuple[Question, ...]) -> dict[str, Any]:
    """The fields of a request that asks them."""
    [score] = {question.score for question in questions}
    return {
        "model": {"kind": "columns", "score": score, "basis": "public", **questions[0].stated},
        "diagnostics": [dict(question.entry) for question in questions],
        "label": LABEL,
    }


def one_by_one() -> Iterator[tuple[str, Question]]:
    """Every question, with the name of its request."""
    for name, questions in QUESTIONS.items():
        for question in questions:
            yield name, question
