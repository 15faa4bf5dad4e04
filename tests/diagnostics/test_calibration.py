import numpy as np
import pytest
from scipy.stats import chi2
from sklearn.calibration import calibration_curve

from spark_jobs.diagnostics import calibration
from spark_jobs.diagnostics.calibration.summary import FEWEST_EXPECTED
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.pooled import DATA_SETS, EVERY_DATA_SET, EVERY_METHOD, PooledSuite, counts_of
from tests.support.grouped_rows import calibration_error, exact_pools, hosmer_lemeshow, of_pools, snapped
from tests.support.scored_rows import GRID


def calibrated(rows, seed):
    """Rows whose scores are true."""
    random = np.random.default_rng(seed)
    scores = random.beta(1.5, 3, rows)
    return (random.random(rows) < scores).astype(int), scores


class TestForm(PooledSuite):
    package = calibration
    bins = 8

    def check_figures(self, result):
        assert result.degrees == result.pool[-1] + 1
        assert 0 <= result.ece.population.lower <= result.ece.population.upper <= 1
        if result.statistic.value is not None:
            assert result.statistic.interval.lower >= 0


@pytest.mark.sampled("name", "method")
@pytest.mark.slow
@EVERY_METHOD
@EVERY_DATA_SET
@pytest.mark.usefixtures("few_copies")
def test_without_noise_the_figures_are_those_of_the_rows(name, method):
    labels, scores = DATA_SETS[name]
    grid = 4096 if method == "recursive_medians" else GRID
    found = calibration.release(counts_of(name, grid), epsilon=1e9, method=method, noise=SeededNoise(1))
    TestForm().check_form(found, {"bins": 8 if method == "recursive_medians" else 10})
    exact = exact_pools(found, labels, scores, grid)
    assert all(pool.rows for pool in exact)
    assert of_pools(found, found.rows).tolist() == [pool.rows for pool in exact]
    assert of_pools(found, found.observed.value) == pytest.approx([pool.observed for pool in exact], abs=1e-8)
    assert of_pools(found, found.predicted) == pytest.approx([pool.predicted for pool in exact], abs=1e-8)
    # scores may lie anywhere in their cells, but no further from the middles
    half = 0.5 / grid
    if all(pool.expected >= FEWEST_EXPECTED for pool in exact):
        statistic = hosmer_lemeshow(exact)
        assert found.statistic.value == pytest.approx(statistic, rel=1e-6, abs=1e-6)
        low, high = found.statistic.ends()
        fewest, most = (sum(side(terms) for terms in moved_terms(exact, half)) for side in (min, max))
        assert low - 1e-6 <= fewest <= statistic <= most <= high + 1e-6
        assert high - low <= 4 * (most - fewest) + 1e-3 * (1 + statistic)
    else:
        assert (found.statistic.value, found.statistic.interval) == (None, None)
    error = calibration_error(exact)
    assert found.ece.value == pytest.approx(error, abs=1e-8)
    assert found.ece.interval == pytest.approx((max(error - half, 0), min(error + half, 1)), abs=1e-8)


def moved_terms(pools, half):
    """The terms of the Hosmer-Lemeshow statistic if all scores of a pool lie at either end of their cells."""
    for pool in pools:
        scores = np.clip([pool.predicted - half, pool.predicted, pool.predicted + half], half, 1 - half)
        yield pool.rows * (pool.observed - scores) ** 2 / (scores * (1 - scores))


@pytest.mark.parametrize("name", ["ordinary", "nearly perfect", "worse than chance"])
def test_without_noise_the_diagram_is_that_of_scikit_learn(name):
    labels, scores = DATA_SETS[name]
    score = (snapped(scores) + 0.5) / GRID
    found = calibration.release(counts_of(name), epsilon=1e9, method="fixed_bins", bins=8, noise=SeededNoise(1))
    assert np.array_equal(found.pool, np.arange(8))
    observed, predicted = calibration_curve(labels, score, n_bins=8)
    assert found.observed.value == pytest.approx(observed, abs=1e-8)
    assert found.predicted == pytest.approx(predicted, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_without_noise_the_p_value_is_that_of_the_chi_squared_law_on_rows_the_model_has_not_seen(seed):
    labels, scores = calibrated(20_000, seed)
    found = calibration.release(ScoreCounts.from_arrays(labels, scores), epsilon=1e9, noise=SeededNoise(seed))
    assert found.degrees == 10
    deciles = np.quantile(scores, np.linspace(0, 1, 11))[1:-1]
    assert found.upper[:-1] == pytest.approx(deciles, abs=2e-4)
    assert found.p_value == pytest.approx(chi2.sf(found.statistic.value, 10), abs=0.04)


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
    assert found.ece.value > found.ece_calibrated


@pytest.mark.parametrize("score", [1e-5, 1.0])
@pytest.mark.parametrize("method", ["auto", "fixed_bins"])
def test_a_pool_that_expects_no_row_leaves_the_statistic_alone_undefined(method, score):
    """The sum would divide by 0.04 rows, or by what noise makes of them: 10^5 to 10^15."""
    labels = np.tile([0, 1], 2_000)
    counts = ScoreCounts.from_arrays(labels, np.full(labels.size, score))
    for seed in range(10):
        found = calibration.release(counts, epsilon="0.2", method=method, noise=SeededNoise(seed))
        assert (found.status, found.statistic.value, found.statistic.interval) == ("ok", None, None)
        assert found.p_value == found.p_value_floor
        assert found.ece.value == pytest.approx(0.5, abs=0.05)
