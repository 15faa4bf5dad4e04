"""The kind ``roc_comparison``: two curves and the difference of their areas at one cost, from request to report."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from dp_operators.release_check import broken_rules, check_release
from spark_jobs.application.draft import draft, results_of
from spark_jobs.application.run import measure
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.columns import needs
from spark_jobs.contract.grids import PAIR_CELLS
from spark_jobs.contract.options import EarlierCurve, PairedScoreCells, ScoreCells
from spark_jobs.diagnostics import roc_comparison, roc_curve
from spark_jobs.diagnostics.roc_curve import bands
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.score_grid import cells_of
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request
from tests.support.paired_scores import delong, two_models
from tests.support.scored_rows import ten_data_sets

DATA_SETS = ten_data_sets()
OTHER = {"kind": "columns", "score": "older_score", "basis": "public"}
LOGISTIC = {"kind": "logistic", "basis": "differentially_private", "intercept": 0.1, "coefficients": {"age": 0.2}}


def asked(**changes: Any) -> Any:
    return request(diagnostics=[{"kind": "roc_comparison", "other": OTHER, **changes}])


def pair(name: str) -> PairedScoreCounts:
    """Two models of a data set: the scores as they are, and with an order that is often wrong."""
    labels, scores = DATA_SETS[name]
    return PairedScoreCounts.from_arrays(labels, scores, np.where(np.arange(scores.size) % 3 == 0, 1 - scores, scores))


def earlier(seed: int = 1, **options: Any) -> EarlierCurve:
    labels, _, scores = two_models(5000, seed)
    found = roc_curve.release(
        ScoreCounts.from_arrays(labels, scores), **{"epsilon": 1, "noise": SeededNoise(seed), **options}
    )
    return EarlierCurve.of(json.loads(json.dumps(found.to_dict())), released_by="march/roc")


def test_a_release_of_an_earlier_version_has_the_widest_band_for_the_population() -> None:
    labels, _, scores = two_models(5000, 1)
    found = roc_curve.release(ScoreCounts.from_arrays(labels, scores), epsilon=1, noise=SeededNoise(1)).to_dict()
    older = {name: value for name, value in found.items() if "population" not in name}
    curve = EarlierCurve.of(json.loads(json.dumps(older)), released_by="march/roc").curve
    assert curve.tpr == tuple(found["tpr"])
    assert (set(curve.tpr_population_lower), set(curve.tpr_population_upper)) == ({0.0}, {1.0})
    del older["tpr_lower"]
    with pytest.raises(KeyError, match="tpr_lower"):
        EarlierCurve.of(older, released_by="march/roc")


@pytest.fixture
def few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bands, "COPIES_OF_FULL_GRID", 5)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.usefixtures("few_copies")
@pytest.mark.parametrize("name", DATA_SETS)
def test_without_noise_both_areas_and_their_difference_are_those_of_scikit_learn(name: str) -> None:
    found = roc_comparison.release(pair(name), epsilon=1e9, noise=SeededNoise(1))
    labels, scores = DATA_SETS[name]
    if np.unique(labels).size < 2 or labels.size < 10:
        assert found.status == "undefined"
        assert found.auc_p_value is None
        return
    models = (scores, np.where(np.arange(scores.size) % 3 == 0, 1 - scores, scores))
    exact = [roc_auc_score(labels, cells_of(model, PAIR_CELLS)) for model in models]
    assert found.first.auc.value == pytest.approx(exact[0], abs=1e-6)
    assert found.second.auc.value == pytest.approx(exact[1], abs=1e-6)
    assert found.auc_difference.value == pytest.approx(exact[0] - exact[1], abs=1e-4)
    assert found.auc_difference.interval == pytest.approx((exact[0] - exact[1],) * 2, abs=2e-4)


def test_without_noise_the_interval_and_the_test_are_those_of_delong_for_paired_areas() -> None:
    rows = two_models(3000, 5, areas=(0.80, 0.79), alike=0.8)
    difference, variance = delong(*rows)
    assert difference == pytest.approx(roc_auc_score(rows[0], rows[1]) - roc_auc_score(rows[0], rows[2]), abs=1e-9)
    found = roc_comparison.release(PairedScoreCounts.from_arrays(*rows), epsilon=60, noise=SeededNoise(1))
    reach = stats.norm.ppf(0.95) * np.sqrt(variance)
    assert found.auc_difference.population == pytest.approx((difference - reach, difference + reach), abs=1e-3)
    assert found.auc_p_value == pytest.approx(2 * stats.norm.sf(abs(difference) / np.sqrt(variance)), abs=0.03)


@pytest.mark.parametrize("epsilon", ["0.05", "1"])
@pytest.mark.parametrize("name", ["ordinary", "one class", "one row", "many ties"])
def test_every_release_has_one_form_and_meets_its_contract(name: str, epsilon: str) -> None:
    found = roc_comparison.release(pair(name), epsilon=epsilon, noise=SeededNoise(5))
    reference = roc_comparison.release(PairedScoreCounts.from_arrays([], [], []), epsilon=epsilon, noise=SeededNoise(6))
    for result in (found, reference):
        stored = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert broken_rules("roc_comparison", stored) == []
    assert found.first.fpr.shape == found.second.fpr.shape == reference.first.fpr.shape
    assert found.first.positives == found.second.positives == found.positives


def test_a_contract_that_is_broken_is_found() -> None:
    fields = roc_comparison.release(pair("ordinary"), epsilon=1, noise=SeededNoise(5)).to_dict()
    assert broken_rules("roc_comparison", {**fields, "auc_p_value": 1.5}) != []
    assert broken_rules("roc_comparison", {**fields, "auc_interval_population": [0.99, 1.0]}) != []


def test_the_costs_of_curves_and_sums_add_up_and_the_draw_survives_storage() -> None:
    made = roc_comparison.measure(pair("ordinary"), epsilon="0.3333333", noise=SecureNoise(), names=("new", "old"))
    assert made.epsilon == Decimal("0.3333333")
    labels = [spending.label.split(":")[0] for spending in made.spendings]
    assert set(labels) == {"first model", "second model", labels[-1]}
    stored = roc_comparison.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
    older = {name: value for name, value in made.to_dict().items() if not name.startswith("first_")}
    assert roc_comparison.DIAGNOSTIC.measurement.decode(older).first_is_shared is False
    found, again = (roc_comparison.summarise(draw, seed=3).to_dict() for draw in (made, stored))
    assert found == again
    assert found["names"] == ["new", "old"]


def test_a_better_model_is_found_and_an_equal_one_is_not() -> None:
    better, equal = (
        roc_comparison.release(
            PairedScoreCounts.from_arrays(*two_models(20_000, 3, areas=areas)), epsilon=1, noise=SeededNoise(4)
        )
        for areas in ((0.84, 0.80), (0.80, 0.80))
    )
    assert better.auc_p_value < 0.001
    assert (
        0
        < better.auc_difference.population[0]
        < better.auc_difference.value
        < better.auc_difference.population[1]
        < 0.08
    )
    assert equal.auc_p_value > 0.05
    for found in (better, equal):
        inner, outer = found.auc_difference.interval, found.auc_difference.population
        assert outer[0] <= inner[0] <= found.auc_difference.value <= inner[1] <= outer[1]


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("tables", [60, pytest.param(120, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("alike", "positive", "epsilon"), [(0.0, 0.3, 1), (0.9, 0.3, 1), (0.6, 0.05, 2)])
def test_equally_good_models_differ_as_rarely_as_the_test_says(
    alike: float, positive: float, epsilon: int, tables: int
) -> None:
    rejected, held = 0, 0
    for seed in range(tables):
        rows = two_models(8000, seed, alike=alike, positive=positive)
        counts = PairedScoreCounts.from_arrays(*rows)
        found = roc_comparison.release(counts, epsilon=epsilon, noise=SeededNoise(seed))
        rejected += found.auc_p_value <= 0.05
        held += found.auc_difference.interval[0] <= delong(*rows)[0] <= found.auc_difference.interval[1]
    assert stats.binom.sf(rejected - 1, tables, 0.05) > 1e-3
    assert stats.binom.cdf(rejected, tables, 0.05) > 1e-3
    assert stats.binom.cdf(held, tables, 0.9) > 1e-3


def test_a_comparison_with_an_earlier_release_is_one_of_independent_rows() -> None:
    march = earlier()
    labels, better, _ = two_models(6000, 9, areas=(0.9, 0.8))
    counts = ScoreCounts.from_arrays(labels, better)
    found = roc_comparison.release(counts, epsilon=1, noise=SecureNoise(), compare_with=march)
    assert (found.rows, found.released_by, found.names[1]) == ("independent", "march/roc", "earlier release")
    assert found.second.auc.value == march.curve.auc
    assert found.auc_difference.value == pytest.approx(found.first.auc.value - found.second.auc.value, abs=1e-8)
    assert found.auc_p_value < 0.001
    low, high = found.auc_difference.interval
    assert found.auc_difference.population[0] < low < found.auc_difference.value < high < low + 0.1
    assert found.auc_difference.value == pytest.approx(0.1, abs=0.06)
    assert found.guarantee == "NOT PRIVATE", "the earlier release is a test's"
    assert found.epsilon == 1
    assert broken_rules("roc_comparison", json.loads(json.dumps(found.to_dict(), allow_nan=False))) == []
    drawn = roc_comparison.measure(counts, epsilon=1, noise=SeededNoise(1), compare_with=march)
    stored = roc_comparison.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(drawn.to_dict())))
    assert roc_comparison.summarise(stored, seed=1).to_dict() == roc_comparison.summarise(drawn, seed=1).to_dict()


def test_without_noise_an_earlier_release_is_compared_as_delong_does_for_independent_rows() -> None:
    march = earlier(epsilon=20, thresholds=1024)
    labels, scores, _ = two_models(6000, 9)
    found = roc_comparison.release(
        ScoreCounts.from_arrays(labels, scores), epsilon=20, noise=SeededNoise(1), compare_with=march
    )
    old = two_models(5000, 1)
    variance = sum(delong(each[0], each[1], np.full(each[0].size, 0.5))[1] for each in ((labels, scores), old[::2]))
    reach = stats.norm.ppf(0.95) * np.sqrt(variance)
    value = roc_auc_score(labels, scores) - roc_auc_score(old[0], old[2])
    assert found.auc_difference.population == pytest.approx((value - reach, value + reach), abs=2e-3)


def test_nothing_is_said_of_an_earlier_release_that_is_undefined() -> None:
    few = roc_curve.release(ScoreCounts.from_arrays([0, 1], [0.2, 0.8]), epsilon=0.01, noise=SeededNoise(1))
    march = EarlierCurve.of(few.to_dict(), released_by="march/roc")
    labels, scores, _ = two_models(3000, 9)
    counts = ScoreCounts.from_arrays(labels, scores)
    found = roc_comparison.release(counts, epsilon=1, noise=SeededNoise(1), compare_with=march)
    assert (found.status, found.auc_difference.value, found.auc_p_value) == ("undefined", None, None)
    assert found.first.status == "ok"
    assert broken_rules("roc_comparison", json.loads(json.dumps(found.to_dict(), allow_nan=False))) == []


def test_a_request_counts_both_models_together_and_says_so() -> None:
    made = asked(names=["new", "old"])
    assert made.statistics == (PairedScoreCells.of(made.diagnostics[0].other),)
    (need,) = (need for need in needs(made, ["visited", "score"]) if need.name == "older_score")
    assert need.field == "diagnostics.other.score"
    told = rules(made)
    assert any(rule.startswith("Of the second model: a row whose older_score is null") for rule in told)
    again = type(made).from_json(made.to_json())
    assert again.sha256 == made.sha256
    assert again.statistics == made.statistics
    assert asked(other=LOGISTIC).statistics[0].model.coefficients == {"age": 0.2}
    compared = asked(other=None, compare_with=earlier().model_dump(mode="json"))
    assert compared.statistics == (ScoreCells(),)
    assert type(compared).from_json(compared.to_json()).sha256 == compared.sha256


def forged(**changes: Any) -> dict[str, Any]:
    fields = earlier().model_dump(mode="json")
    return {"other": None, "compare_with": {**fields, "curve": {**fields["curve"], **changes}}}


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"other": None}, "other"),
        ({"other": {"kind": "spark_ml", "path": "/m", "basis": "public"}}, "other"),
        ({"other": {"kind": "columns", "basis": "public"}}, "other.score: is required"),
        ({"other": {**LOGISTIC, "coefficients": {"avg(age)": 1}}}, "avg"),
        ({"confidence": 1}, "confidence"),
        ({"rows": "independent"}, "rows"),
        ({"names": ["one", "one"]}, "names: .*must be two different names"),
        ({"names": ["one", "two\nlines"]}, "names.*one line"),
        ({"compare_with": "/releases/march"}, "only the ledger can verify"),
        ({"other": None, "compare_with": {"release": "/march"}}, "only the ledger can verify"),
        ({"compare_with": earlier().model_dump(mode="json")}, "must be left out otherwise"),
        (forged(auc=1.5), "compare_with.curve: .*auc is within"),
        (forged(tpr=[0.0, 0.5, 1.0]), "compare_with.curve: .*must be a ROC curve"),
        (forged(positives=float("nan")), "compare_with.curve.positives"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(changes: Any, refusal: str) -> None:
    with pytest.raises(InvalidRequest, match=refusal) as refused:
        asked(**changes)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["rows", "no rows", "an earlier release"])
def test_a_draft_has_its_files_and_meets_the_contract_of_releases(rows: str) -> None:
    made = asked(other=LOGISTIC, names=["new & better", "old"])
    statistic: Any = pair("ordinary") if rows == "rows" else PairedScoreCounts.from_arrays([], [], [])
    if rows == "an earlier release":
        made = asked(other=None, compare_with=earlier(noise=SecureNoise()).model_dump(mode="json"))
        statistic = ScoreCounts.from_arrays(*DATA_SETS["ordinary"])
    drawn = measure(made, dict(zip(made.statistics, (statistic,), strict=True)), charge_id="c", noise=SecureNoise())
    release, files = draft(made, drawn, key="k", rules=rules(made))
    check_release(release, files.get)
    table = pq.read_table(io.BytesIO(files["roc_comparison.parquet"]))
    assert table.num_rows == 257
    assert {"first_tpr", "second_tpr"} <= set(table.column_names)
    assert files["roc_comparison.svg"].startswith(b"<?xml")
    page = files["report.html"].decode()
    assert 'id="roc_comparison-title"' in page
    if rows == "rows":
        assert "The AUCs differ (p" in page
        assert "new &amp; better" in page
    elif rows == "no rows":
        assert "Undefined" in page
    else:
        assert "are taken as independent samples" in page
    told = "The second model was fitted privately" if rows != "an earlier release" else "The ROC curve is compared with"
    assert any(line.startswith(told) for line in release.assumptions)
    assert "scores are rounded down to a fixed grid of 3,714" in page or rows == "an earlier release"


def with_others(*diagnostics: Any, rows: Any, without: Any = None, **changes: Any) -> tuple[Any, dict[Any, Any], Any]:
    """A request for diagnostics and a comparison, the counts, and the rows with both scores."""
    labels, first, second = rows
    comparison = {"kind": "roc_comparison", "other": OTHER}
    made = request(diagnostics=[comparison if kind is COMPARISON else kind for kind in diagnostics], **changes)
    (other,) = (options.other for options in made.diagnostics if options.kind == "roc_comparison")
    paired = np.ones(labels.size, dtype=bool) if without is None else ~without
    pairs = (labels[paired], first[paired], second[paired])
    counts = {
        ScoreCells(): ScoreCounts.from_arrays(labels, first),
        PairedScoreCells.of(other): PairedScoreCounts.from_arrays(*pairs),
    }
    return made, counts, pairs


COMPARISON = "the comparison"


def beside(*diagnostics: Any, rows: Any, without: Any = None, seed: int = 0, epsilon: str = "1") -> Any:
    """The draw and the results of a comparison in a request for other diagnostics, and the exact difference."""
    made, counts, pairs = with_others(*diagnostics, COMPARISON, rows=rows, without=without, budget={"epsilon": epsilon})
    draw = replace(measure(made, counts, charge_id="c", noise=SeededNoise(seed)), seed=seed)
    results, _ = results_of(made, draw)
    return draw, results, delong(*pairs)[0]


def test_the_first_curve_is_that_of_the_other_diagnostics() -> None:
    rows = two_models(20_000, 3, areas=(0.84, 0.80))
    draw, results, exact = beside("roc_curve", "calibration", rows=rows)
    found, curve = results["roc_comparison"], results["roc_curve"]
    assert found.first.to_dict() == curve.to_dict()
    assert found.second.fpr.shape == curve.fpr.shape
    assert found.first.positives == curve.positives == results["calibration"].positives
    assert found.second.positives == found.positives != curve.positives
    assert found.auc_difference.interval[0] <= exact <= found.auc_difference.interval[1]
    assert found.auc_p_value < 0.001
    assert [part.kinds for part in draw.parts] == [
        ("roc_curve", "calibration", "roc_comparison"),
        ("roc_comparison",),
    ]
    assert [float(part.cost.epsilon) for part in draw.parts] == [0.5, 0.5]  # by equal parts
    spent = {spending.label.split(":")[0] for spending in draw.parts[1].spendings}
    assert "second model" in spent
    assert "first model" not in spent
    assert found.epsilon == draw.cost.epsilon
    assert broken_rules("roc_comparison", json.loads(json.dumps(found.to_dict(), allow_nan=False))) == []


def test_an_area_that_is_measured_directly_is_that_of_the_first_curve_too() -> None:
    _, results, _ = beside("roc_curve", {"kind": "auc", "method": "polynomial"}, rows=two_models(20_000, 3))
    assert results["roc_comparison"].first.auc.value == results["roc_curve"].auc.value == results["auc"].value
    alone = beside({"kind": "auc", "method": "polynomial"}, rows=two_models(20_000, 3))[1]
    assert alone["roc_comparison"].first_is_shared is False
    assert alone["roc_comparison"].first.auc != alone["auc"].value


@pytest.mark.parametrize("kinds", [("roc_curve", COMPARISON), (COMPARISON, "roc_curve")])
def test_the_order_of_a_request_does_not_matter_to_what_a_comparison_uses(kinds: Any) -> None:
    made, counts, _ = with_others(*kinds, rows=two_models(4000, 3))
    results, sizes = results_of(made, measure(made, counts, charge_id="c", noise=SeededNoise(1)))
    assert results["roc_comparison"].first.to_dict() == results["roc_curve"].to_dict()
    assert results["roc_curve"].positives == round(sizes.positives, 8)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_rows_without_a_second_score_leave_the_difference_as_it_is(share: float) -> None:
    held, anew = 0, 0
    for seed in range(40):
        rows = two_models(6000, seed, areas=(0.80, 0.80), alike=0.6)
        # the best rows have no second score, so that those which are left are of another law
        without = rows[1] > np.quantile(rows[1], 1 - share) if share else None
        draw, results, exact = beside("roc_curve", rows=rows, without=without, seed=seed, epsilon="2")
        found = results["roc_comparison"]
        held += found.auc_difference.interval[0] <= exact <= found.auc_difference.interval[1]
        anew += any(spending.label.startswith("first model") for spending in draw.parts[1].spendings)
    assert anew == (40 if share else 0)
    assert stats.binom.cdf(held, 40, 0.9) > 1e-3


def test_a_report_says_whose_the_first_curve_is() -> None:
    made, counts, _ = with_others("roc_curve", COMPARISON, rows=two_models(4000, 3))
    draw = measure(made, counts, charge_id="c", noise=SecureNoise())
    release, files = draft(made, draw, key="k", rules=rules(made))
    check_release(release, files.get)
    page = files["report.html"].decode()
    assert "The first curve is that of the release" in page
    assert "of the rows with both scores" in page
    assert "ROC curve and comparison of ROC curves" in page
    assert "The rest of the comparison of ROC curves" in page
    assert any("second model's rules leave out counts in the other" in rule for rule in release.rules)


@pytest.mark.spark
def test_both_models_are_counted_in_one_pass(spark: Any, tmp_path: Any) -> None:
    from spark_jobs.application.count_statistics import count, prepare

    rows = [(1, 0.2, 0.9), (0, 0.7, 0.1), (1, None, 0.4), (0, 0.3, None), (None, 0.5, 0.5), (1, 0.0, 7.0)]
    spark.createDataFrame(rows, "visited int, score double, older_score double").write.parquet(str(tmp_path / "v1"))
    source = {"path": str(tmp_path), "snapshot": {"path_version": "v1"}}
    made = request(table=source, diagnostics=[{"kind": "roc_comparison", "other": OTHER}])
    (statistic,) = made.statistics
    found = count(prepare(spark, made), made)[statistic]
    wanted = PairedScoreCounts.from_arrays(*zip(*rows, strict=True))
    assert sorted(zip(found.keys, found.counts, strict=True)) == list(zip(wanted.keys, wanted.counts, strict=True))
