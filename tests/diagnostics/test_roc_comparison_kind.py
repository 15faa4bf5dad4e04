"""The kind ``roc_comparison``: two curves at one cost, from the request to the report."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from dp_operators.release_check import broken_rules, check_release
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.columns import needs
from spark_jobs.contract.options import OtherScoreCells, ScoreCells
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_comparison
from spark_jobs.diagnostics.roc_curve import comparison
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from spark_jobs.tables.rules import rules
from tests.application.test_draw import request
from tests.support.noises import worst_loss
from tests.support.scored_rows import ten_data_sets

DATA_SETS = ten_data_sets()
OTHER = {"kind": "columns", "score": "older_score", "basis": "public"}
LOGISTIC = {"kind": "logistic", "basis": "differentially_private", "intercept": 0.1, "coefficients": {"age": 0.2}}
CELLS = 4096


def asked(**changes: Any) -> Any:
    return request(diagnostics=[{"kind": "roc_comparison", "other": OTHER, **changes}])


def pair(name: str, cells: int = CELLS) -> tuple[ScoreCounts, ScoreCounts]:
    """Two models of a data set: the scores as they are, and with an order that is often wrong."""
    labels, scores = DATA_SETS[name]
    worse = np.where(np.arange(scores.size) % 3 == 0, 1 - scores, scores)
    first, second = (ScoreCounts.from_arrays(labels, each, cells=cells) for each in (scores, worse))
    return first, second


@pytest.fixture
def few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "COPIES", 39)
    monkeypatch.setattr(comparison, "COPIES_OF_FULL_GRID", 9)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.usefixtures("few_copies")
@pytest.mark.parametrize("name", DATA_SETS)
def test_without_noise_both_areas_are_those_of_scikit_learn(name: str) -> None:
    found = roc_comparison.release(pair(name), epsilon=1e9, noise=SeededNoise(1))
    labels, _ = DATA_SETS[name]
    if np.unique(labels).size < 2:
        assert found.status == "undefined"
        assert found.comparison.p_value is None
        return
    for curve, statistic in zip((found.first, found.second), pair(name), strict=True):
        cells = np.arange(CELLS)
        snapped = np.concatenate([np.repeat(cells, each) for each in (statistic.negatives, statistic.positives)])
        classes = np.repeat([0, 1], [statistic.negatives.sum(), statistic.positives.sum()])
        assert curve.auc == pytest.approx(roc_auc_score(classes, snapped), abs=1e-6)
    assert found.comparison.auc_difference == pytest.approx(found.first.auc - found.second.auc, abs=1e-8)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.usefixtures("few_copies")
@pytest.mark.parametrize("epsilon", ["0.05", "1"])
@pytest.mark.parametrize("name", DATA_SETS)
def test_every_release_has_one_form_and_meets_its_contract(name: str, epsilon: str) -> None:
    found = roc_comparison.release(pair(name), epsilon=epsilon, noise=SeededNoise(5))
    nothing = ScoreCounts.from_arrays([], [], cells=CELLS)
    reference = roc_comparison.release((nothing, nothing), epsilon=epsilon, noise=SeededNoise(6))
    for result in (found, reference):
        stored = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert broken_rules("roc_comparison", stored) == []
    assert found.first.fpr.shape == found.second.fpr.shape == reference.first.fpr.shape


@pytest.mark.usefixtures("few_copies")
def test_a_contract_that_is_broken_is_found() -> None:
    fields = roc_comparison.release(pair("ordinary", 256), epsilon=1, noise=SeededNoise(5)).to_dict()
    assert broken_rules("roc_comparison", {**fields, "p_value": 1.5}) != []
    assert broken_rules("roc_comparison", {**fields, "auc_interval": [0.99, 1.0]}) != []


@pytest.mark.parametrize("relation", list(Neighbours))
def test_a_row_that_is_in_both_tables_costs_epsilon_at_most_and_uses_it(relation: Neighbours) -> None:
    table = np.array([[[5, 0, 9, 1], [0, 30, 0, 8]], [[2, 7, 1, 5], [20, 0, 10, 8]]])
    losses = []

    def mechanism(tables: Any, noise: Any) -> None:
        both = tuple(ScoreCounts(negatives=each[0], positives=each[1]) for each in tables)
        roc_comparison.measure(both, epsilon="1", neighbours=relation, noise=noise, confidence=0.9)

    for label in (0, 1):
        for first in range(4):
            for second in range(4):
                other = table.copy()
                other[0, label, first] += 1
                other[1, label, second] += 1
                if relation is Neighbours.REPLACE_ONE:
                    other[0, 0, 2] -= 1
                    other[1, 0, 3] -= 1
                losses.append(worst_loss(mechanism, table, other))
    assert max(losses) <= 1
    assert max(losses) >= Fraction(99, 100)


def test_the_cost_is_split_in_halves_that_add_up() -> None:
    made = roc_comparison.measure(
        pair("ordinary"), epsilon="0.3333333", neighbours=Neighbours.ADD_REMOVE, noise=SecureNoise(), confidence=0.9
    )
    assert made.epsilon == Decimal("0.3333333")
    labels = {spending.label.split(":")[0] for spending in made.spendings}
    assert labels == {"first model", "second model"}
    stored = json.loads(json.dumps(made.to_dict(), allow_nan=False))
    assert roc_comparison.DIAGNOSTIC.measurement.decode(stored).to_dict() == made.to_dict()


def test_a_request_counts_both_models_and_says_so() -> None:
    made = asked()
    assert made.statistics == (ScoreCells(), OtherScoreCells.of(made.diagnostics[0].other))
    (need,) = (need for need in needs(made, ["visited", "score"]) if need.name == "older_score")
    assert need.field == "diagnostics.other.score"
    told = rules(made)
    assert any(rule.startswith("Of the second model: a row whose older_score is null") for rule in told)
    again = type(made).from_json(made.to_json())
    assert again.sha256 == made.sha256
    assert again.statistics == made.statistics
    assert asked(other=LOGISTIC).statistics[1].model.coefficients == {"age": 0.2}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"other": None}, "other"),
        ({"other": {"kind": "spark_ml", "path": "/m", "basis": "public"}}, "other"),
        ({"other": {"kind": "columns", "basis": "public"}}, "other.score: is required"),
        ({"other": {**LOGISTIC, "coefficients": {"avg(age)": 1}}}, "avg"),
        ({"confidence": 1}, "confidence"),
        ({"rows": "independent"}, "rows"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(changes: Any, refusal: str) -> None:
    with pytest.raises(InvalidRequest, match=refusal) as refused:
        asked(**changes)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.usefixtures("few_copies")
@pytest.mark.parametrize("rows", ["rows", "no rows"])
def test_a_draft_has_its_files_and_meets_the_contract_of_releases(rows: str) -> None:
    made = asked(other=LOGISTIC)
    empty = ScoreCounts.from_arrays([], [])
    both = pair("ordinary", 65536) if rows == "rows" else (empty, empty)
    drawn = measure(made, dict(zip(made.statistics, both, strict=True)), charge_id="c", noise=SecureNoise())
    release, files = draft(made, drawn, key="k", rules=rules(made))
    check_release(release, files.get)
    table = pq.read_table(io.BytesIO(files["roc_comparison.parquet"]))
    assert table.num_rows == 257
    assert {"first_tpr", "second_tpr"} <= set(table.column_names)
    assert files["roc_comparison.svg"].startswith(b"<?xml")
    page = files["report.html"].decode()
    assert 'id="roc_comparison-title"' in page
    expected = "The curves differ on these rows" if rows == "rows" else "Undefined"
    assert expected in page
    assert any(line.startswith("The second model was fitted privately") for line in release.assumptions)


@pytest.mark.spark
def test_both_models_are_counted_in_one_pass(spark: Any, tmp_path: Any) -> None:
    from spark_jobs.application.count_statistics import count, prepare

    rows = [(1, 0.2, 0.9), (0, 0.7, 0.1), (1, None, 0.4), (0, 0.3, None), (None, 0.5, 0.5)]
    spark.createDataFrame(rows, "visited int, score double, older_score double").write.parquet(str(tmp_path / "v1"))
    source = {"path": str(tmp_path), "snapshot": {"path_version": "v1"}}
    made = request(table=source, diagnostics=[{"kind": "roc_comparison", "other": OTHER}])
    found = count(prepare(spark, made), made)
    first, second = (found[statistic] for statistic in made.statistics)
    assert first == ScoreCounts.from_arrays([1, 0, 0], [0.2, 0.7, 0.3])
    assert second == ScoreCounts.from_arrays([1, 0, 1], [0.9, 0.1, 0.4])
