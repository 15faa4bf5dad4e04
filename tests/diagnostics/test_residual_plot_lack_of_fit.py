"""What is found wrong with a model."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot.lack_of_fit import TESTS, LackOfFit, lack_of_fit_tests
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.support.residual_plots import TABLES, counted


@pytest.mark.slow
def test_each_fault_is_named_and_a_sound_model_is_left_alone():
    found = {
        name: residual_plot.release(counted(name), epsilon=1, noise=SeededNoise(8))
        for name in ("ordinary", "fan", "curved", "far from 0")
    }
    assert found["ordinary"].findings == found["far from 0"].findings == ()
    assert "there may be one" in found["ordinary"].verdict
    assert "at most 10 in 100" in found["ordinary"].verdict
    assert "variance" in found["fan"].findings
    assert "grows with the fitted values (unequal variance)" in found["fan"].verdict
    assert "curvature" in found["curved"].findings
    assert "the mean residual is higher at both ends than in the middle" in found["curved"].verdict.lower()
    fitted, residual = TABLES["ordinary"]
    tilted = ResidualCounts.from_arrays(fitted, residual - 0.05 * fitted)
    plot = residual_plot.release(tilted, epsilon=1, noise=SeededNoise(9))
    assert plot.findings[0] == "line"
    assert "residuals fall along the fitted values" in plot.verdict.lower()


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_a_single_row_that_hardly_any_noise_hides_divides_nothing_by_zero(neighbours):
    row = ResidualCounts.from_arrays([1.0], [0.3])
    plot = residual_plot.release(row, epsilon=50_000, neighbours=neighbours, noise=SeededNoise(1))
    assert 0 <= plot.shift_p_value <= 1


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("sign", [1, -1])
def test_a_shift_of_all_residuals_is_found_and_which_way_it_goes(sign):
    random, found = np.random.default_rng(2), []
    for seed in range(12):
        shifted = ResidualCounts.from_arrays(random.uniform(0, 50, 3000), random.normal(0.25 * sign, 1, 3000))
        found.append(residual_plot.release(shifted, epsilon=1, noise=SeededNoise(seed)))
    assert sum(plot.findings == ("shift",) for plot in found) >= 10
    told = {1: "residuals are above 0 on average", -1: "residuals are below 0 on average"}[sign]
    assert all(told in plot.verdict.lower() for plot in found if "shift" in plot.findings)


@pytest.mark.verify
@pytest.mark.slow
def test_without_noise_the_shift_is_that_of_the_mean_less_what_the_box_may_hide():
    random = np.random.default_rng(3)
    for shift in (0.07, 0.08, 0.09):
        x, residual = random.uniform(0, 50, 4000), random.normal(shift, 1, 4000)
        plot = residual_plot.release(ResidualCounts.from_arrays(x, residual), epsilon=1e9, noise=SeededNoise(1))
        bound, cell = plot.residual_bound, plot.residual_edges[1] - plot.residual_edges[0]
        least = np.where(residual < -bound, -2.5 * bound, np.minimum(residual, bound))
        largest = np.histogram(residual, bins=plot.residual_edges)[0].max() / residual.size
        exact = (least.mean() - cell / 8 * largest) / (least.std() / np.sqrt(residual.size))
        assert stats.norm.isf(plot.shift_p_value / 2) == pytest.approx(exact, abs=0.3)


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.parametrize("law", ["exponential", "lognormal", "gamma"])
def test_laws_of_mean_0_that_are_skewed_are_not_found_shifted(law):
    """Although their mean is another once they are cut off at the box: 0.1 and more standard errors of many."""
    random, found = np.random.default_rng(4), []
    for seed in range(40):
        drawn = {
            "exponential": lambda: random.exponential(1.0, 4000) - 1,
            "lognormal": lambda: random.lognormal(0, 1, 4000) - np.exp(0.5),
            "gamma": lambda: 2 - random.gamma(2.0, 1.0, 4000),
        }[law]()
        statistic = ResidualCounts.from_arrays(random.uniform(0, 50, 4000), drawn)
        found.append(
            lack_of_fit_tests(residual_plot.measure(statistic, epsilon=1, noise=SeededNoise(seed)), SeededNoise(1))
        )
    assert np.mean([tests.p_values["shift"] <= 0.05 for tests in found]) <= 0.1


def test_with_four_tests_the_error_rate_is_shared_among_four():
    """Holm's rule: the most striking of four is held against a quarter of the rate, the next against a third."""
    tests = LackOfFit(
        p_values=dict(zip(TESTS, (0.012, 0.0166, 0.026, 0.2), strict=True)), signs=dict.fromkeys(TESTS, 1), either=0.04
    )
    assert tests.findings(0.05) == TESTS[:2]
    assert replace(tests, p_values={**tests.p_values, "line": 0.013}).findings(0.05) == ()
