import numpy as np
import pytest
import statsmodels.api as sm

from spark_jobs.diagnostics import binned_residuals as binned
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ScoreCounts
from tests.suites.pooled import DATA_SETS, EVERY_DATA_SET, EVERY_METHOD, PooledSuite, counts_of
from tests.support.grouped_rows import calibration_error, exact_pools, of_pools, snapped
from tests.support.scored_rows import GRID


class TestForm(PooledSuite):
    package = binned
    bins = 16

    def check_figures(self, result):
        residual, predicted = result.residual.value, result.predicted
        assert ((residual >= -predicted - 1e-9) & (residual <= 1 - predicted + 1e-9)).all()
        assert 0 < result.trend_p_value <= 1
        assert 0 < result.scatter_p_value <= 1
        lowest, highest = result.mean_distance.population
        assert 0 <= lowest <= highest <= 1

    def test_an_empty_table_is_undefined_or_has_rows_of_the_noise(self, options):
        reference = self.release(self.empty(), noise=SeededNoise(6), **options)
        assert reference.status == "undefined" or reference.rows.max() > 0


@pytest.mark.sampled("name", "method")
@pytest.mark.slow
@EVERY_METHOD
@EVERY_DATA_SET
@pytest.mark.usefixtures("few_copies")
def test_without_noise_residuals_are_those_of_the_rows(name, method):
    labels, scores = DATA_SETS[name]
    grid = 4096 if method == "recursive_medians" else GRID
    found = binned.release(counts_of(name, grid), epsilon=1e9, method=method, noise=SeededNoise(1))
    TestForm().check_form(found, {"bins": 16 if method == "recursive_medians" else 20})
    exact = exact_pools(found, labels, scores, grid)
    assert [pool.rows for pool in exact] == of_pools(found, found.rows).tolist()
    filled = [pool.rows > 0 for pool in exact]
    assert all(filled)
    residuals = of_pools(found, found.residual.value)
    assert residuals == pytest.approx([pool.residual for pool in exact], abs=1e-8)
    assert of_pools(found, found.predicted) == pytest.approx([pool.predicted for pool in exact], abs=1e-8)
    # scores may lie anywhere in their cells, but no further from the middles
    half = 0.5 / grid
    assert (found.residual.upper <= found.residual.value + half + 1e-8).all()
    assert (found.residual.lower >= found.residual.value - half - 1e-8).all()
    assert (found.residual.upper - found.residual.lower >= half).all()
    assert found.positives == labels.sum()
    distance = calibration_error(exact)
    assert found.mean_distance.value == pytest.approx(distance, abs=1e-8)
    assert found.mean_distance.interval == pytest.approx((max(distance - half, 0), distance + half), abs=1e-8)


@pytest.mark.parametrize("name", ["ordinary", "nearly perfect", "rare positives", "worse than chance"])
def test_the_trend_test_is_the_score_test_of_a_wrong_log_odds_where_there_is_no_noise(name):
    """Against statsmodels: adding 1, l, l^2 to the model as an offset; grouped in many bins, they nearly agree."""
    labels, scores = DATA_SETS[name]
    score = (snapped(scores) + 0.5) / GRID
    odds = np.log(score / (1 - score))
    design = np.column_stack([np.ones_like(odds), odds, odds**2])
    model = sm.GLM(labels, design, family=sm.families.Binomial(), offset=odds)
    _, reference, _ = model.score_test(np.zeros(3), k_constraints=3)
    found = binned.release(counts_of(name), epsilon=1e9, bins=64, noise=SeededNoise(1))
    assert found.trend_p_value == pytest.approx(np.squeeze(reference), abs=0.05)


def test_a_wrong_model_is_found_out_and_a_right_one_is_not():
    random = np.random.default_rng(5)
    x = random.uniform(-1, 1, 4000)
    right = 1 / (1 + np.exp(-2 * x))
    labels = (random.random(4000) < right).astype(int)
    bent = 1 / (1 + np.exp(-(2 * x + x**2 - 0.34)))
    good, bad = (
        binned.release(ScoreCounts.from_arrays(labels, scores), epsilon=1, noise=SeededNoise(3))
        for scores in (right, bent)
    )
    assert good.p_value > 0.05
    assert bad.p_value < 0.01
    outside = (bad.residual.value < bad.zone_lower) | (bad.residual.value > bad.zone_upper)
    assert outside.any()
    assert good.mean_distance.value <= good.mean_distance_calibrated < bad.mean_distance.value


def test_noise_makes_the_intervals_wide_and_the_bins_few():
    statistic = counts_of("ordinary")
    found = [binned.release(statistic, epsilon=epsilon, noise=SeededNoise(2)) for epsilon in ("0.1", "1", "10")]
    widths = [(each.residual.upper - each.residual.lower).mean() for each in found]
    assert widths[0] > 2 * widths[1] > 4 * widths[2]
    assert found[0].pool.max() < found[1].pool.max() < found[2].pool.max()
