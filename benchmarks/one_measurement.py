"""A request for twelve kinds with groups and a second model, whose shares are pooled or apart: ``--tables N``.

``python -m benchmarks.one_measurement`` releases every table twice at an epsilon of 1. Apart, ``by_group`` and
``roc_comparison`` have a weight of 1, and so a twelfth of epsilon each. Pooled, which is the default, groups and the
second model are parts of the measurement that the others share. Shown is the root mean squared error of figures of all
rows, of the groups (those of all tables together) and of the difference of both models.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.application.draft import results_of
from spark_jobs.application.run import measure
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract import ReleaseRequest
from spark_jobs.contract.budget_split import split_budget
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import GroupedScoreCounts, PairedScoreCounts, ScoreCounts

THRESHOLD = 0.25
MATRIX = {"kind": "confusion_matrix", "thresholds": [THRESHOLD]}
SHARING = ({"kind": "roc_curve", "weight": 7}, MATRIX, "calibration")
"""They have the weight of nine kinds, whose results would take longer, and are measured as those would be."""
OTHER_MODEL = {"kind": "columns", "score": "second", "basis": "public"}
FIGURES = ("AUC", "recall", "AUC of a group", "recall of a group", "positives of a group", "difference of AUCs")


@dataclass(frozen=True)
class Law:
    """Tables of so many rows in groups of equal size, and of so many positives, with calibrated normal scores."""

    groups: int
    rows: int
    rate: float

    @property
    def keys(self) -> list[str]:
        """The listed groups; the last rows have another key."""
        return [f"group {place}" for place in range(self.groups)]


LAWS = tuple(Law(groups, rows, 0.2) for groups in (2, 4, 9) for rows in (5_000, 50_000))


@dataclass(frozen=True)
class Rows:
    """The rows of a table: labels, both models' scores, and the place of the group; shape (n,)."""

    labels: BoolArray
    scores: FloatArray
    second: FloatArray
    group: Int64Array

    @classmethod
    def of(cls, law: Law, seed: int) -> Rows:
        """Rows of a law; the second model sees the same signal with more noise."""
        random = np.random.default_rng(1000 * seed + 7 * law.groups + law.rows)
        labels = random.random(law.rows) < law.rate
        deviates = random.normal(0, 1, law.rows) + 1.2 * labels
        worse = (deviates + random.normal(0, 0.5, law.rows)) / np.hypot(1, 0.5)
        both = (expit(logit(law.rate) + 1.2 * (one - 0.6)) for one in (deviates, worse))
        return cls(labels, *both, random.integers(0, law.groups + 1, law.rows))

    def exact(self, law: Law) -> dict[str, list[float]]:
        """The figures of the rows."""
        places = [self.group == place for place in range(law.groups)]
        everybody = np.ones_like(self.labels)
        areas, recalls = (
            [figure(self.labels[kept], self.scores[kept]) for kept in (everybody, *places)]
            for figure in (roc_auc_score, _recall)
        )
        return {
            "AUC": areas[:1],
            "recall": recalls[:1],
            "AUC of a group": areas[1:],
            "recall of a group": recalls[1:],
            "positives of a group": [float(self.labels[kept].sum()) for kept in places],
            "difference of AUCs": [areas[0] - float(roc_auc_score(self.labels, self.second))],
        }

    def counts(self, request: ReleaseRequest, law: Law) -> dict[Any, Any]:
        """The statistics of the request, by their declarations."""
        keys = np.array([*law.keys, "another"], dtype=object)[self.group]
        count = {
            "scores": lambda: ScoreCounts.from_arrays(self.labels, self.scores),
            "grouped_scores": lambda: GroupedScoreCounts.from_arrays(self.labels, self.scores, keys, keys=law.keys),
            "paired_scores": lambda: PairedScoreCounts.from_arrays(self.labels, self.scores, self.second),
        }
        return {statistic: count[statistic.kind]() for statistic in request.statistics}


def _recall(labels: BoolArray, scores: FloatArray) -> float:
    return float((scores[labels] >= THRESHOLD).mean())


def wanted(law: Law, *, apart: bool) -> ReleaseRequest:
    """A request with the shares of twelve kinds: nine that share, groups, two models, and one apart."""
    weight = {"weight": 1} if apart else {}
    groups = {"kind": "by_group", "group_by": "region", "groups": law.keys, "kinds": ["auc", MATRIX], **weight}
    return ReleaseRequest.parse(
        {
            "table": {"path": "/table", "snapshot": {"path_version": "1"}},
            "label": "label",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": [*SHARING, groups, {"kind": "roc_comparison", "other": OTHER_MODEL, **weight}, "ecdf"],
            "budget": {"epsilon": "1"},
        }
    )


def released(request: ReleaseRequest, counts: Mapping[Any, Any], law: Law, seed: int) -> dict[str, list[float]]:
    """The released figures; NaN for one that the noise leaves undefined."""
    results, _ = results_of(request, measure(request, counts, charge_id=None, noise=SeededNoise(seed)))
    groups = results["by_group"]
    of_groups = {one.figure: one.values.value[: law.groups] for one in groups.comparisons}
    figures = {
        "AUC": [results["roc_curve"].area.value],
        "recall": [results["confusion_matrix"].recall.value[0]],
        "AUC of a group": of_groups["auc"],
        "recall of a group": of_groups["recall"],
        "positives of a group": groups.positives[: law.groups],
        "difference of AUCs": [results["roc_comparison"].auc_difference.value],
    }
    return {name: [np.nan if one is None else float(one) for one in of] for name, of in figures.items()}


def errors_of(law: Law, tables: int) -> dict[bool, dict[str, FloatArray]]:
    """The errors of every figure, apart or not."""
    errors: dict[bool, dict[str, list[float]]] = {apart: defaultdict(list) for apart in (True, False)}
    for seed in range(tables):
        rows = Rows.of(law, seed)
        exact = rows.exact(law)
        requests = {apart: wanted(law, apart=apart) for apart in errors}
        counts = rows.counts(requests[True], law)
        for apart, request in requests.items():
            for name, values in released(request, counts, law, seed).items():
                errors[apart][name] += np.subtract(values, exact[name]).tolist()
    return {apart: {name: np.array(of) for name, of in one.items()} for apart, one in errors.items()}


def _shown(errors: FloatArray) -> str:
    defined = errors[~np.isnan(errors)]
    if not defined.size:
        return "undefined"
    rmse = float(np.sqrt((defined**2).mean()))
    without = 1 - defined.size / errors.size
    return f"{rmse:.3g}" + (f" ({without:.0%} undefined)" if without else "")


def shares(law: Law, *, apart: bool) -> dict[str, float]:
    """The epsilon that figures of all rows, groups and the comparison of models are released at."""
    parts = split_budget(wanted(law, apart=apart))
    epsilon = {kind: float(part.granted.epsilon) for part in parts for kind in part.kinds}
    return {kind: epsilon[kind] for kind in ("roc_curve", "by_group", "roc_comparison")}


def main(argv: list[str] | None = None) -> int:
    """Print the errors."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=40, help="of each law (default: 40)")
    given = parser.parse_args(argv)
    tables = 2 if given.quick else given.tables
    rows, figures = [], {}
    for law in LAWS:
        progress(str(law))
        errors = errors_of(law, tables)
        for apart, of_figures in errors.items():
            epsilon = shares(law, apart=apart)
            rows.append(
                [f"{law.groups} and other, {law.rows:,}", "apart" if apart else "pooled"]
                + [f"{one:.3f}" for one in epsilon.values()]
                + [_shown(of_figures[name]) for name in FIGURES]
            )
            figures[f"{law}, {'apart' if apart else 'pooled'}"] = {n: of.tolist() for n, of in of_figures.items()}
    lowest = min(share["by_group"] / share["roc_curve"] for law in LAWS for share in [shares(law, apart=False)])
    report = Report(
        name=f"one_measurement: {tables} tables of each law",
        columns=("groups, rows", "", "epsilon of all rows", "of groups", "of models", *FIGURES),
        rows=rows,
        targets=[
            Target(
                what="share of groups in that of all rows",
                target="at least 0.5",
                outcome=f"{lowest:.2f}",
                met=lowest >= 0.5,
            )
        ],
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
