from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.mechanisms.histograms import methods
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.noises import Recording
from tests.support.residual_plots import TABLES, check_form, counted
from tests.support.residual_rows import ROWS, columns, nasty_pairs


@pytest.mark.usefixtures("few_copies")
class TestForm(DiagnosticSuite):
    package = residual_plot
    tables = {name: partial(counted, name) for name in TABLES}
    empty = staticmethod(partial(counted, "empty"))
    sizes_follow_noise = True  # there are as many bins and points as the noisy number of rows bears
    nasty = staticmethod(lambda: ResidualCounts.from_arrays(*columns(nasty_pairs(5))))
    settings = [
        {"epsilon": epsilon, "neighbours": neighbours} for epsilon in ("0.01", "1") for neighbours in Neighbours
    ]

    def check_form(self, result, options):
        check_form(result)


@pytest.mark.parametrize("name", ["empty", "nulls", "one row"])
def test_a_table_with_hardly_a_row_says_nothing(name):
    plot = residual_plot.release(counted(name), epsilon=1, noise=SeededNoise(3))
    assert plot.status == "undefined"
    assert plot.verdict == "Too few rows for this noise: the model cannot be tested."
    assert (plot.p_value, plot.findings) == (None, ())
    assert np.isnan(plot.trend.value).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(methods()))
@pytest.mark.usefixtures("few_copies")
@pytest.mark.verify
def test_every_histogram_method_makes_a_plot(method):
    statistic = counted("fan")
    measurement = residual_plot.measure(statistic, epsilon=1, method=method, bins=8, noise=SeededNoise(2))
    plot = residual_plot.summarise(measurement, seed=1)
    check_form(plot)
    assert plot.method == measurement.method == method
    assert sum(spending.epsilon for spending in measurement.spendings) == measurement.epsilon == 1


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    rows=ROWS,
    epsilon=st.sampled_from(["1e-9", "0.001", "0.5", "7", "1000000", "1e12"]),
    bins=st.sampled_from([None, 2, 8, 32]),
    coverage=st.sampled_from([0.5, 0.95, 0.999]),
    unit=st.sampled_from([1.0, 2.0**-332, 2.0**332, 0.3]),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
)
@pytest.mark.verify
def test_no_small_table_breaks_a_release(rows, epsilon, bins, coverage, unit, neighbours, seed):
    statistic = ResidualCounts.from_arrays(*columns(rows), unit=unit)
    measurement = residual_plot.measure(
        statistic, epsilon=epsilon, bins=bins, coverage=coverage, neighbours=neighbours, noise=SeededNoise(seed)
    )
    check_form(residual_plot.summarise(measurement, seed=seed))


@pytest.mark.slow
def test_a_seed_moves_points_within_their_cells_alone():
    draw = residual_plot.measure(counted("fan"), epsilon=1, noise=SecureNoise())
    one, other = (residual_plot.summarise(draw, seed=seed) for seed in (7, 8))
    assert other.counts.tolist() == one.counts.tolist()
    assert other.points_fitted.tolist() != one.points_fitted.tolist()


def test_units_scale_everything():
    fitted, residual = TABLES["fan"]
    one = residual_plot.release(counted("fan"), epsilon=1, noise=SeededNoise(4))
    statistic = ResidualCounts.from_arrays(fitted * 1024, residual * 1024, unit=1024)
    other = residual_plot.release(statistic, epsilon=1, noise=SeededNoise(4))
    large, small = other.published(), one.published()
    for name in ("fitted_edges", "residual_edges", "trend", "spread_upper", "qq_residual", "points_residual"):
        np.testing.assert_allclose(large[name], 1024 * small[name], rtol=1e-9)
    assert other.p_value == one.p_value


@pytest.mark.parametrize(
    "options",
    [
        {"method": "deciles"},
        {"bins": 1},
        {"bins": 12},
        {"bins": 512},
        {"coverage": 1},
        {"coverage": 0.2},
        {"confidence": 1},
        {"epsilon": 0},
        {"epsilon": "nan"},
        {"delta": -1},
    ],
    ids=str,
)
def test_options_out_of_bounds_are_refused_before_any_noise(options):
    noise = Recording()
    with pytest.raises(InvalidRequest):
        residual_plot.release(counted("empty"), **{"epsilon": 1, "noise": noise, **options})
    assert noise.asked == []


def test_results_compare_by_what_they_hold():
    plot = residual_plot.release(counted("fan"), epsilon=1, noise=SeededNoise(2))
    assert replace(plot, rows=5.0).to_dict() != plot.to_dict()
