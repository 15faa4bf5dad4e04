import json
from decimal import Decimal
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import RocCurveOptions
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import roc_curve as roc
from spark_jobs.diagnostics.roc_curve.histograms import KNOWN_NOISE, HistogramCells
from spark_jobs.diagnostics.roc_curve.medians import distinct
from spark_jobs.mechanisms.histograms import methods, release_histogram
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.quantiles import recursive_medians
from spark_jobs.statistics import ScoreCounts
from tests.support.curve_forms import check_form
from tests.support.noises import worst_loss
from tests.support.scored_rows import GRID, exact_curve, held, ten_data_sets

DATA_SETS = ten_data_sets()
DELTA = "1e-9"
NEVER_EXACT = {"uniform", "mwem"}  # one number, and a distribution that learns a few
EVERY_METHOD = pytest.mark.parametrize("method", ["fixed_cells", "recursive_medians"])
EVERY_HISTOGRAM = pytest.mark.parametrize("histogram", [None, *methods()])


def counts_of(name, cells=GRID):
    return ScoreCounts.from_arrays(*DATA_SETS[name], cells=cells)


def released(statistic, *, epsilon=1, **options):
    return roc.release(statistic, epsilon=epsilon, delta=DELTA, noise=SeededNoise(5), **options)


def test_a_request_can_name_every_histogram_method():
    (literal, _) = get_args(RocCurveOptions.model_fields["histogram"].annotation)
    assert set(get_args(literal)) == set(methods())


@pytest.mark.sampled("histogram")
@pytest.mark.slow
@EVERY_METHOD
@EVERY_HISTOGRAM
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_release_has_the_form_of_every_other(method, histogram, neighbours):
    nothing = ScoreCounts.from_arrays([], [], cells=GRID)
    forms = set()
    for statistic in (nothing, *map(counts_of, ("ordinary", "constant scores", "one row", "rare positives"))):
        curve = released(statistic, method=method, histogram=histogram, thresholds=8, neighbours=neighbours)
        check_form(curve)
        forms.add((curve.fpr.shape, tuple(curve.to_dict())))
    assert forms == {((9,), tuple(curve.to_dict()))}


@pytest.mark.sampled("histogram", "method")
@pytest.mark.halved
@pytest.mark.slow
@EVERY_METHOD
@pytest.mark.parametrize(
    ("name", "histogram"),
    [*((name, each) for name in DATA_SETS for each in (None, *methods()) if each != "mwem"), ("ordinary", "mwem")],
)
def test_without_noise_the_curve_is_that_of_scikit_learn_on_the_same_cells(name, method, histogram):
    labels, scores = DATA_SETS[name]
    curve = released(counts_of(name), epsilon=1e9, method=method, histogram=histogram, thresholds=16)
    check_form(curve)
    if np.unique(labels).size < 2:
        assert curve.status == "undefined" or histogram in NEVER_EXACT
        return
    at = np.concatenate([[0], GRID - np.round(curve.thresholds[1:] * GRID).astype(int)])
    fpr, tpr = (rate[at] for rate in exact_curve(labels, scores))
    if histogram == "uniform":
        np.testing.assert_allclose(curve.fpr, np.linspace(0, 1, 17), atol=1e-6)
        return
    tolerance = 0.02 if histogram == "mwem" else 1e-6
    np.testing.assert_allclose(curve.fpr, fpr, atol=tolerance)
    np.testing.assert_allclose(curve.tpr.value, tpr, atol=tolerance)
    cells = np.searchsorted(curve.thresholds[:0:-1], np.floor(scores * GRID) / GRID, side="right")
    assert curve.auc.value == pytest.approx(roc_auc_score(labels, cells), abs=tolerance)


@pytest.mark.sampled("histogram", "method")
@pytest.mark.slow
@EVERY_METHOD
@EVERY_HISTOGRAM
def test_json_and_a_second_attempt_make_the_same_curve(method, histogram):
    measurement = roc.measure(
        counts_of("ordinary"), epsilon=2, delta=DELTA, method=method, histogram=histogram, noise=SeededNoise(3)
    )
    stored = json.dumps(measurement.to_dict(), allow_nan=False)
    again = roc.DIAGNOSTIC.measurement.decode(json.loads(stored))
    assert json.dumps(again.to_dict()) == stored
    first = json.dumps(roc.summarise(measurement, seed=9).to_dict(), allow_nan=False)
    assert json.dumps(roc.summarise(again, seed=9).to_dict(), allow_nan=False) == first
    assert measurement.epsilon == Decimal(2)


@pytest.mark.parametrize("histogram", methods())
def test_there_is_a_band_only_where_the_noise_has_a_public_law(histogram):
    curve = released(counts_of("ordinary"), method="fixed_cells", histogram=histogram)
    known = histogram in KNOWN_NOISE
    assert (curve.auc.interval == (0.0, 1.0)) is not known
    assert (curve.tpr.lower == 0).all() == (curve.tpr.upper == 1).all() == (not known)


@pytest.mark.parametrize("histogram", sorted(KNOWN_NOISE))
def test_known_noise_is_added_whatever_the_counts_are(histogram):
    counts = np.array([0, 3, 900, 0, 41, 7, 0, 0, 12, 5000, 1])
    found, alone = (
        release_histogram(each, epsilon="0.3", noise=SeededNoise(4), method=histogram).cells
        for each in (counts, 0 * counts)
    )
    np.testing.assert_allclose(found - counts, alone, atol=1e-7)
    cells = HistogramCells(method=histogram, epsilon=Decimal("0.3"), cells=found)
    np.testing.assert_allclose(cells.errors(1, SeededNoise(4))[0], alone)


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("histogram", [pytest.param("greedy_h", marks=pytest.mark.soak), "laplace"])
def test_bands_of_known_noise_hold_the_exact_curve(histogram):
    statistic, (fpr, tpr), found = counts_of("ordinary"), exact_curve(*DATA_SETS["ordinary"]), []
    auc = np.trapezoid(tpr, fpr)
    for seed in range(40):
        curve = roc.release(
            statistic, epsilon="0.2", method="fixed_cells", histogram=histogram, noise=SeededNoise(seed)
        )
        low, high = curve.auc.interval
        found.append((low <= auc <= high, held(curve.fpr, curve.tpr.lower, curve.tpr.upper, fpr, tpr).mean()))
    assert (np.mean(found, axis=0) > 0.78).all()  # 0.9 less two and a half standard deviations


@pytest.mark.sampled("histogram")
@pytest.mark.slow
@pytest.mark.parametrize("relation", list(Neighbours))
@pytest.mark.parametrize("histogram", ["geometric", "laplace", "hb", "greedy_h", "ahp", "adaptive_grid", "uniform"])
def test_brute_force_finds_no_loss_above_epsilon(histogram, relation):
    table = np.array([[5, 0, 9, 1, 0, 0, 40, 2], [0, 3, 0, 300, 1, 0, 2, 8]])

    def mechanism(counts, noise):
        statistic = ScoreCounts(negatives=counts[0], positives=counts[1])
        options = {"method": "fixed_cells", "thresholds": 6, "histogram": histogram}
        roc.measure(statistic, epsilon=1, neighbours=relation, noise=noise, **options)

    rows = [(label, cell) for label in (0, 1) for cell in range(8)]
    added = [table.copy() for _ in rows]
    for other, at in zip(added, rows, strict=True):
        other[at] += 1
    others = added
    if relation is Neighbours.REPLACE_ONE:
        others = [other.copy() for other in added for at in rows if table[at] > 0]
        for other, at in zip(others, [at for _ in added for at in rows if table[at] > 0], strict=True):
            other[at] -= 1
    losses = [worst_loss(mechanism, table, other) for other in others]
    assert Fraction(1, 2) <= max(losses) <= 1


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_medians_spend_epsilon_and_next_to_no_delta(neighbours):
    measurement = roc.measure(
        counts_of("ordinary"), epsilon=1, delta=DELTA, method="recursive_medians", thresholds=8,
        neighbours=neighbours, noise=SecureNoise(),
    )  # fmt: skip
    assert measurement.epsilon == 1
    medians = 3 if neighbours is Neighbours.ADD_REMOVE else 6
    assert sum(spending.delta for spending in measurement.spendings) == medians * Decimal("1e-30")
    assert measurement.cuts.size == 9


def test_medians_of_few_rows_are_a_grid_of_midpoints():
    random = np.random.default_rng(684)
    cells = np.bincount((random.beta(2, 5, 684) * GRID).astype(int), minlength=GRID)
    found = recursive_medians(cells, levels=7, epsilon="0.2", neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
    assert found.fallbacks >= 0.95 * 127


def test_medians_of_many_rows_are_not():
    counts = np.zeros(256, dtype=np.int64)
    counts[64:128] = 10**6
    statistic = ScoreCounts(negatives=counts, positives=counts)
    measurement = roc.measure(
        statistic, epsilon=5, delta=DELTA, method="recursive_medians", thresholds=4, noise=SeededNoise(1)
    )
    assert np.abs(measurement.cuts - [0, 80, 96, 112, 256]).max() <= 4


def test_medians_that_coincide_are_moved_apart():
    for cuts in ([0, 5, 5, 5, 8], [0, 0, 0, 0, 4], [0, 8, 8, 8, 8], [0, 3, 7, 8, 8]):
        apart = distinct(np.array(cuts))
        assert (np.diff(apart) > 0).all()
        assert (apart[0], apart[-1]) == (0, cuts[-1])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"method": "auto", "histogram": "hb"}, "histogram"),
        ({"method": "fixed_cells", "histogram": "magic"}, "histogram"),
        ({"method": "recursive_medians", "thresholds": 12, "delta": DELTA}, "thresholds"),
        ({"method": "recursive_medians", "thresholds": 128, "delta": DELTA}, "thresholds"),
        ({"method": "recursive_medians"}, "delta"),
        ({"method": "recursive_medians", "delta": "1e-40"}, "delta"),
    ],
)
def test_what_cannot_be_served_is_refused_before_any_noise(options, field):
    with pytest.raises(InvalidRequest, match=field):
        roc.release(ScoreCounts.from_arrays([], [], cells=64), **{"epsilon": 1, "noise": SeededNoise(1), **options})
