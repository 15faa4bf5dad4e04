import json
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.calibration import calibration_curve

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import calibration
from spark_jobs.diagnostics._score_groups import pools
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.grouped_rows import calibration_error, exact_pools, hosmer_lemeshow, of_pools, snapped
from tests.support.score_rows import NASTY_ROWS, column
from tests.support.scored_rows import GRID, ten_data_sets
from tests.support.undefined import is_undefined

DATA_SETS = ten_data_sets()
METHODS = ["auto", "recursive_medians", "fixed_bins"]
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
EVERY_DATA_SET = pytest.mark.parametrize("name", DATA_SETS)


@pytest.fixture
def few_copies(monkeypatch):
    """Quick simulations, where their figures are not looked at."""
    monkeypatch.setattr(pools, "COPIES", 100)


def counts_of(name, cells=GRID):
    return ScoreCounts.from_arrays(*DATA_SETS[name], cells=cells)


def nothing(cells=GRID):
    return ScoreCounts.from_arrays([], [], cells=cells)


def calibrated(rows, seed):
    """Rows whose scores are true."""
    random = np.random.default_rng(seed)
    scores = random.beta(1.5, 3, rows)
    return (random.random(rows) < scores).astype(int), scores


def check_form(found, bins):
    """What holds for every release, whatever the rows were."""
    for name in (
        *("lower", "upper", "pool", "predicted", "observed", "observed_lower", "observed_upper"),
        *("zone_lower", "zone_upper", "rows"),
    ):
        array = getattr(found, name)
        assert array.shape == (bins,)
        assert np.isfinite(array).all() or found.status == "undefined"
        if name not in ("pool", "rows"):
            assert ((array >= 0) & (array <= 1) | np.isnan(array)).all()
    assert found.lower[0] == 0
    assert found.upper[-1] == 1
    assert np.array_equal(found.lower[1:], found.upper[:-1])
    assert set(np.diff(found.pool)) <= {0, 1}
    assert found.degrees == found.pool[-1] + 1
    if is_undefined("calibration", found):
        return
    assert (found.observed_lower <= found.observed).all()
    assert (found.observed <= found.observed_upper).all()
    assert (found.zone_lower <= found.zone_upper).all()
    assert 0 < found.p_value <= 1
    assert 0 <= found.ece_interval[0] <= found.ece <= found.ece_interval[1] <= 1
    assert 0 <= found.ece_calibrated <= 1
    assert 0 <= found.statistic_interval[0] <= found.statistic <= found.statistic_interval[1]
    assert np.isfinite(found.statistic_interval[1])
    assert found.status == "ok"
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.usefixtures("few_copies")
class TestForm(DiagnosticSuite):
    release = staticmethod(calibration.release)
    tables = {name: partial(counts_of, name, 4096) for name in DATA_SETS}
    empty = staticmethod(lambda: nothing(4096))
    nasty = staticmethod(lambda: ScoreCounts.from_arrays(column(NASTY_ROWS, 0), column(NASTY_ROWS, 1), cells=4096))
    settings = [{"epsilon": epsilon, "method": method, "bins": 8} for epsilon in ("0.01", "1") for method in METHODS]

    def check_form(self, result, options):
        check_form(result, options["bins"])


@pytest.mark.slow
@EVERY_METHOD
@EVERY_DATA_SET
@pytest.mark.usefixtures("few_copies")
def test_without_noise_the_figures_are_those_of_the_rows(name, method):
    labels, scores = DATA_SETS[name]
    grid = 4096 if method == "recursive_medians" else GRID
    found = calibration.release(counts_of(name, grid), epsilon=1e9, method=method, noise=SeededNoise(1))
    check_form(found, 8 if method == "recursive_medians" else 10)
    exact = exact_pools(found, labels, scores, grid)
    assert all(pool.rows for pool in exact)
    assert of_pools(found, found.rows).tolist() == [pool.rows for pool in exact]
    assert of_pools(found, found.observed) == pytest.approx([pool.observed for pool in exact], abs=1e-8)
    assert of_pools(found, found.predicted) == pytest.approx([pool.predicted for pool in exact], abs=1e-8)
    statistic = hosmer_lemeshow(exact)
    assert found.statistic == pytest.approx(statistic, rel=1e-6, abs=1e-6)
    assert found.statistic_interval == pytest.approx((statistic, statistic), rel=1e-6, abs=1e-6)
    error = calibration_error(exact)
    assert found.ece == pytest.approx(error, abs=1e-8)
    assert found.ece_interval == pytest.approx((error, error), abs=1e-8)


@pytest.mark.parametrize("name", ["ordinary", "nearly perfect", "worse than chance"])
def test_without_noise_the_diagram_is_that_of_scikit_learn(name):
    labels, scores = DATA_SETS[name]
    score = (snapped(scores) + 0.5) / GRID
    found = calibration.release(counts_of(name), epsilon=1e9, method="fixed_bins", bins=8, noise=SeededNoise(1))
    assert np.array_equal(found.pool, np.arange(8))
    observed, predicted = calibration_curve(labels, score, n_bins=8)
    assert found.observed == pytest.approx(observed, abs=1e-8)
    assert found.predicted == pytest.approx(predicted, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_p_value_is_that_of_the_chi_squared_law_on_rows_the_model_has_not_seen(seed):
    labels, scores = calibrated(20_000, seed)
    found = calibration.release(ScoreCounts.from_arrays(labels, scores), epsilon=1e9, noise=SeededNoise(seed))
    assert found.degrees == 10
    deciles = np.quantile(scores, np.linspace(0, 1, 11))[1:-1]
    assert found.upper[:-1] == pytest.approx(deciles, abs=2e-4)
    assert found.p_value == pytest.approx(chi2.sf(found.statistic, 10), abs=0.04)


@given(
    cells=st.integers(1, 8).map(lambda power: 2**power),
    rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), max_size=40),
    epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
    method=st.sampled_from(METHODS),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=25)
def test_no_small_table_breaks_a_release(cells, rows, epsilon, method, neighbours, seed):
    statistic = ScoreCounts.from_arrays([row[0] for row in rows], [row[1] for row in rows], cells=cells)
    measurement = calibration.measure(
        statistic, epsilon=epsilon, method=method, neighbours=neighbours, noise=SeededNoise(seed)
    )
    check_form(calibration.summarise(measurement, seed=seed), measurement.bins.size - 1)


def test_the_same_draw_and_seed_make_the_same_release():
    measurement = calibration.measure(counts_of("ordinary"), epsilon=1, noise=SecureNoise())
    again = calibration.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(measurement.to_dict())))
    assert calibration.summarise(measurement, seed=7).to_dict() == calibration.summarise(again, seed=7).to_dict()


@pytest.mark.slow
def test_the_noisy_statistic_is_no_chi_squared_and_ours_knows():
    """What Barczewski, Mawass and Ramon's algorithm 2 would report: noisy squares over noisy expectations."""
    naive, ours = [], []
    for seed in range(40):
        labels, scores = calibrated(4000, seed)
        measurement = calibration.measure(
            ScoreCounts.from_arrays(labels, scores), epsilon="0.1", noise=SeededNoise(seed)
        )
        positives, negatives, expected = measurement.groups.values()
        rows = positives + negatives
        with np.errstate(divide="ignore"):
            terms = (positives - expected) ** 2 * (1 / expected + 1 / (rows - expected))
        naive.append(chi2.sf(terms.sum(), rows.size))
        ours.append(calibration.summarise(measurement, seed=seed).p_value)
    assert np.mean(np.array(naive) < 0.05) > 0.4
    assert np.mean(np.array(ours) < 0.05) < 0.2


def test_a_wrong_model_is_found_out():
    labels, scores = calibrated(5000, 1)
    found = calibration.release(ScoreCounts.from_arrays(labels, scores**1.3), epsilon=1, noise=SeededNoise(3))
    assert found.p_value < 0.001
    assert found.ece > found.ece_calibrated


@pytest.mark.parametrize(
    "options", [{"method": "deciles"}, {"bins": 1}, {"bins": 257}, {"confidence": 0.4}, {"epsilon": 0}], ids=str
)
def test_options_out_of_bounds_are_refused(options):
    with pytest.raises(InvalidRequest):
        calibration.release(nothing(), **{"epsilon": 1, "noise": SeededNoise(1), **options})
