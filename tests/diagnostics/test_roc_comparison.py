import json

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as exact_roc_curve

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.diagnostics import roc_curve as roc
from spark_jobs.diagnostics.roc_curve import comparison
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.scored_rows import binormal

CELLS = 1024


@pytest.fixture
def few_copies(monkeypatch):
    monkeypatch.setattr(comparison, "COPIES", 39)
    monkeypatch.setattr(comparison, "COPIES_OF_FULL_GRID", 19)


@pytest.fixture
def copies_for_one_percent(monkeypatch):
    monkeypatch.setattr(comparison, "COPIES", 99)


def drawn(labels, scores, *, epsilon=1, seed=1, cells=CELLS, **options):
    statistic = ScoreCounts.from_arrays(labels, scores, cells=cells)
    return roc.measure(statistic, epsilon=epsilon, noise=SeededNoise(seed), **options)


def is_undefined(found):
    published = found.published()
    withheld = {published[name] for name in comparison.CurveDifference.figure_names()} == {None}
    assert withheld == (found.status == "undefined")
    return withheld


def stretched(scores):
    """Other scores in the same order: another model with the same curve."""
    odds = np.log(scores) - np.log1p(-scores)
    return 1 / (1 + np.exp(-0.5 * odds - 0.8))


def two_models(auc, other_auc, rows=4000, *, seed=1, **options):
    random = np.random.default_rng(seed)
    return tuple(
        drawn(*binormal(each, rows, random), seed=int(random.integers(2**62)), **options) for each in (auc, other_auc)
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "tree", "equi_depth", "fixed_cells"])
@pytest.mark.usefixtures("few_copies")
def test_a_comparison_has_its_form_whatever_was_released(method):
    one, other = two_models(0.8, 0.8, rows=600, epsilon="0.5", method=method)
    nothing = drawn([], [], method=method, seed=4)
    for a, b in ((one, other), (one, nothing), (nothing, nothing)):
        found = roc.compare(a, b, seed=3)
        assert set(found.to_dict()) == {*comparison.CurveDifference.__dataclass_fields__, "auc_interval"}
        if is_undefined(found):
            continue
        low, high = found.auc_difference.interval
        assert -1 <= low <= found.auc_difference.value <= high <= 1
        assert 0 < found.p_value <= 1
        assert 0 < found.auc_p_value <= 1
        assert 0 <= found.largest_difference <= 1
        assert found.confidence == 0.9
        assert found.status == "ok"
        assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["p_value"] == found.p_value


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.usefixtures("few_copies")
def test_an_exchange_of_the_curves_changes_the_sign_alone():
    a, b = two_models(0.75, 0.8, rows=1000)
    one, other = (roc.compare(*pair, seed=5) for pair in ((a, b), (b, a)))
    assert one.auc_difference.value == -other.auc_difference.value
    assert (one.p_value, one.auc_p_value) == (other.p_value, other.auc_p_value)
    assert one.largest_difference == other.largest_difference
    assert one.auc_difference.interval == pytest.approx(
        (-other.auc_difference.interval[1], -other.auc_difference.interval[0]), abs=0.02
    )
    assert roc.compare(a, b, seed=5).to_dict() == one.to_dict()


@pytest.mark.usefixtures("few_copies")
def test_a_measurement_that_was_stored_compares_as_before():
    pair = two_models(0.75, 0.8, rows=500)
    again = (roc.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(each.to_dict()))) for each in pair)
    assert roc.compare(*again).to_dict() == roc.compare(*pair).to_dict()


@pytest.mark.usefixtures("few_copies")
def test_without_noise_one_curve_does_not_differ_from_itself():
    labels, scores = binormal(0.8, 1500, np.random.default_rng(2))
    pair = [drawn(labels, scores, epsilon=1e9, seed=seed) for seed in (1, 2)]
    found = roc.compare(*pair)
    assert (found.auc_difference.value, found.largest_difference) == (0, 0)
    assert (found.p_value, found.auc_p_value) == (1, 1)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.usefixtures("copies_for_one_percent")
def test_curves_that_clearly_differ_are_told_apart(neighbours):
    better, worse = two_models(0.85, 0.75, rows=6000, neighbours=neighbours)
    found = roc.compare(better, worse)
    assert found.p_value <= 0.01
    assert found.auc_p_value <= 0.01
    assert 0 < found.auc_difference.interval[0] < found.auc_difference.value < found.auc_difference.interval[1] < 0.2
    assert found.status == "ok"


@pytest.mark.slow
@pytest.mark.usefixtures("copies_for_one_percent")
def test_curves_that_cross_differ_in_course_though_not_in_area():
    random = np.random.default_rng(8)
    labels = random.integers(0, 2, 10_000)
    narrow = random.normal(size=labels.size) * np.where(labels == 1, 0.3, 1.0) + labels * 1.0
    wide = random.normal(size=labels.size) * np.where(labels == 1, 3.0, 1.0) + labels * 3.04
    pair = [
        drawn(labels, 1 / (1 + np.exp(-scores)), seed=seed, epsilon=2) for seed, scores in enumerate((narrow, wide))
    ]
    found = roc.compare(*pair)
    assert abs(found.auc_difference.value) < 0.02
    assert found.largest_difference > 0.05
    assert found.p_value <= 0.01


@pytest.mark.usefixtures("few_copies")
def test_without_noise_the_largest_difference_is_that_of_the_exact_curves():
    random = np.random.default_rng(9)
    data = [binormal(auc, 2000, random) for auc in (0.8, 0.7)]
    exact = []
    for labels, scores in data:
        fpr, tpr, _ = exact_roc_curve(labels, scores, drop_intermediate=False)
        exact.append(np.interp(np.linspace(0, 2, 2001), fpr + tpr, tpr))
    pair = [drawn(*each, epsilon=1e9, cells=16384, thresholds=4096) for each in data]
    found = roc.compare(*pair)
    assert found.largest_difference == pytest.approx(np.abs(exact[0] - exact[1]).max(), abs=2e-3)
    difference = roc_auc_score(*data[0]) - roc_auc_score(*data[1])
    assert found.auc_difference.value == pytest.approx(difference, abs=1e-3)


def delong_variance(labels, scores):
    """By placement of every row among those of the other class: a reference that sees the rows."""
    positives, negatives = scores[labels == 1], scores[labels == 0]
    wins = (positives[:, None] > negatives) + 0.5 * (positives[:, None] == negatives)
    return wins.mean(axis=1).var(ddof=1) / positives.size + wins.mean(axis=0).var(ddof=1) / negatives.size


def test_without_noise_independent_areas_are_compared_as_delong_does():
    random = np.random.default_rng(10)
    data = [binormal(0.80, 1200, random), binormal(0.78, 700, random, positive=0.3)]
    difference = roc_auc_score(*data[0]) - roc_auc_score(*data[1])
    stddev = np.sqrt(sum(delong_variance(*each) for each in data))
    found = roc.compare(*(drawn(*each, epsilon=1e9, cells=4096) for each in data))
    reach = stats.norm.ppf(0.95) * stddev
    assert found.auc_difference.interval == pytest.approx((difference - reach, difference + reach), abs=2e-3)
    assert found.auc_p_value == pytest.approx(2 * stats.norm.sf(abs(difference) / stddev), abs=0.15)


def test_curves_drowned_in_noise_do_not_differ_and_may_be_anything():
    pair = two_models(0.99, 0.5, rows=30, epsilon="0.01")
    for a, b in (pair, (pair[0], drawn([], []))):
        found = roc.compare(a, b)
        assert is_undefined(found)
        assert (found.p_value, found.auc_p_value, found.auc_difference.interval) == (None, None, None)


@pytest.mark.usefixtures("few_copies")
def test_what_a_cell_hides_is_no_difference():
    labels, scores = binormal(0.85, 4000, np.random.default_rng(11))
    hidden = drawn(labels, 0.3 + scores / 100, method="fixed_cells", thresholds=4)
    seen = drawn(labels, scores, seed=2)
    found = roc.compare(hidden, seen)
    assert found.auc_difference.value < -0.2
    assert found.p_value > 0.1
    assert found.auc_p_value > 0.1
    assert found.auc_difference.interval[1] > 0


@pytest.mark.usefixtures("few_copies")
def test_the_stamp_is_that_of_the_weaker_release():
    statistic = ScoreCounts.from_arrays([0, 1] * 300, [0.2, 0.7] * 300, cells=64)
    secure, seeded = (
        roc.measure(statistic, epsilon=1, noise=noise, method="fixed_cells", thresholds=8)
        for noise in (SecureNoise(), SeededNoise(1))
    )
    assert roc.compare(secure, secure).guarantee == PRIVATE
    for pair in ((secure, seeded), (seeded, secure), (seeded, seeded)):
        assert roc.compare(*pair).guarantee == NOT_PRIVATE


@pytest.mark.slow
@pytest.mark.usefixtures("few_copies")
def test_a_higher_level_has_a_wider_interval():
    pair = two_models(0.8, 0.75, rows=1500)
    narrow, wide = (roc.compare(*pair, confidence=level).auc_difference.interval for level in (0.5, 0.99))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"confidence": 1.0}, "confidence: got"),
        ({"confidence": float("nan")}, "confidence: got"),
    ],
)
def test_what_cannot_be_compared_is_refused(options, message):
    measurement = drawn([0, 1], [0.2, 0.7], cells=64)
    with pytest.raises(InvalidRequest, match=message):
        roc.compare(measurement, measurement, **options)


@pytest.fixture(scope="module", params=[30, pytest.param(60, marks=pytest.mark.soak)])
def under_the_hypothesis(request):
    """Comparisons of so many pairs of models whose curves are equal and whose scores are not."""
    random = np.random.default_rng(21)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "COPIES", 99)
        for _ in range(request.param):
            labels, scores = binormal(0.85, 2000, random, positive=0.4)
            others = binormal(0.85, 2000, random, positive=0.4)
            a = drawn(labels, scores, seed=int(random.integers(2**62)))
            b = drawn(others[0], stretched(others[1]), seed=int(random.integers(2**62)))
            found.append(roc.compare(a, b, seed=int(random.integers(2**31))))
    return found


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("by", ["p_value", "auc_p_value"])
def test_true_hypotheses_are_rejected_no_more_often_than_they_may(under_the_hypothesis, by):
    values = np.array([getattr(found, by) for found in under_the_hypothesis])
    for level in (0.05, 0.1, 0.25, 0.5):
        assert stats.binom.sf((values <= level).sum() - 1, values.size, level) > 1e-3
    # and the test is not empty: p-values are not all near 1
    assert (values <= 0.6).mean() > 0.2


@pytest.mark.slow
@pytest.mark.verify
def test_intervals_of_differences_hold(under_the_hypothesis):
    held = sum(
        found.auc_difference.interval[0] <= 0 <= found.auc_difference.interval[1] for found in under_the_hypothesis
    )
    assert stats.binom.cdf(held, len(under_the_hypothesis), 0.9) > 1e-3


@pytest.mark.slow
@pytest.mark.verify
def test_a_test_that_forgets_the_noise_rejects_true_hypotheses():
    random = np.random.default_rng(22)
    rejected = 0
    for _ in range(40):
        data = [binormal(0.8, 3000, random) for _ in range(2)]
        curves = [roc.summarise(drawn(*each, epsilon="0.1", seed=int(random.integers(2**62))), seed=1) for each in data]
        stddev = np.sqrt(sum(delong_variance(*each) for each in data))
        rejected += 2 * stats.norm.sf(abs(curves[0].auc.value - curves[1].auc.value) / stddev) < 0.05
    assert rejected > 8
