"""Without noise, a residual plot is that of the rows, up to its grid."""

import numpy as np
import pytest
from scipy import stats

from spark_jobs.diagnostics import residual_plot
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.support.residual_plots import EVERY_TABLE, TABLES, check_form, counted


@pytest.mark.slow
@pytest.mark.sampled("name")
@pytest.mark.halved
@pytest.mark.parametrize("bins", [None, 2, 16, 64, 256])
@pytest.mark.usefixtures("few_copies")
@EVERY_TABLE
def test_without_noise_the_counts_are_a_plain_histogram_of_the_rows(name, bins):
    fitted, residual = TABLES[name]
    plot = residual_plot.release(counted(name), epsilon=1e9, bins=bins, noise=SeededNoise(1))
    check_form(plot)
    known = ~(np.isnan(fitted) | np.isnan(residual))
    rows = int(known.sum())
    assert plot.rows == rows
    if plot.residual_bound == 2.0**60:
        return  # sizes beyond 2^60 units count there, which no plain histogram does
    # cells are open towards 0 and closed at their far ends, so that numpy's are those of the mirror image there
    expected = np.zeros((plot.bins, plot.bins), dtype=int)
    for place in zip(
        *(
            _cells(values[known], edges)
            for values, edges in ((fitted, plot.fitted_edges), (residual, plot.residual_edges))
        ),
        strict=True,
    ):
        if None not in place:
            expected[place] += 1
    assert plot.counts.tolist() == expected.tolist()
    assert plot.overflow == rows - expected.sum()


def _cells(values, edges):
    found = []
    for value in values:
        inside = edges[0] <= value <= edges[-1] if edges[0] <= 0 <= edges[-1] else True
        # of a value on an edge: the cell on the side of 0
        place = np.searchsorted(edges, value, side="left" if value > 0 else "right") - 1
        found.append(int(place) if inside and 0 <= place < edges.size - 1 else None)
    return found


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.usefixtures("few_copies")
def test_without_noise_the_box_holds_what_was_asked_for():
    for name in ("ordinary", "fan", "far from 0", "large"):
        fitted, residual = TABLES[name]
        for coverage in (0.5, 0.95):
            plot = residual_plot.release(counted(name), epsilon=1e9, coverage=coverage, noise=SeededNoise(1))
            assert (np.abs(residual) <= plot.residual_bound).mean() >= coverage
            assert ((fitted >= plot.fitted_lower) & (fitted <= plot.fitted_upper)).mean() >= coverage
            assert plot.residual_bound <= 1.5 * np.quantile(np.abs(residual), coverage)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ordinary", "fan", "curved", "heavy tails"])
def test_without_noise_trend_spread_and_quantiles_are_those_of_the_rows(name):
    fitted, residual = TABLES[name]
    plot = residual_plot.release(counted(name), epsilon=1e9, noise=SeededNoise(1))
    within = np.clip(residual, -plot.residual_bound, plot.residual_bound)
    cell = plot.residual_edges[1] - plot.residual_edges[0]
    column = np.searchsorted(plot.fitted_edges, fitted) - 1
    for i in range(0, plot.bins, 7):
        rows = within[column == i]
        if rows.size == 0:  # in a pool with others
            continue
        assert plot.column_rows[i] == rows.size
        finer = max(plot.residual_bound / 64, 1 / 128)  # the widest cell in which rows are counted
        assert plot.trend.value[i] == pytest.approx(rows.mean(), abs=0.51 * finer)
        assert plot.trend.lower[i] - 1e-6 <= rows.mean() <= plot.trend.upper[i] + 1e-6
        low, high = np.quantile(rows, [stats.norm.cdf(-1), stats.norm.cdf(1)])
        assert plot.spread.value[i] == pytest.approx((high - low) / 2, abs=2 * cell)
    cell = plot.residual_edges[1] - plot.residual_edges[0]
    assert (plot.trend.upper - plot.trend.lower <= 1.01 * max(plot.residual_bound / 64, 1 / 128)).all()
    assert (plot.spread.upper - plot.spread.lower <= cell + 1e-6).all()
    exact = np.quantile(within, stats.norm.cdf(plot.qq_theoretical))
    np.testing.assert_allclose(plot.qq_residual.value, exact, atol=cell)


@pytest.mark.slow
def test_rows_beyond_the_box_are_points_on_the_side_where_they_lie():
    """Without noise: as many points beyond each of its sides as rows."""
    fitted, residual = TABLES["heavy tails"]
    plot = residual_plot.release(counted("heavy tails"), epsilon=1e9, noise=SeededNoise(2))
    for points, rows, low, high in (
        (plot.points_fitted, fitted, plot.fitted_lower, plot.fitted_upper),
        (plot.points_residual, residual, -plot.residual_bound, plot.residual_bound),
    ):
        assert (points < low).sum() == (rows < low).sum()
        assert (points > high).sum() == (rows > high).sum()
    within = np.abs(residual) <= plot.residual_bound
    assert plot.counts_left.sum() == ((fitted < plot.fitted_lower) & within).sum()
    assert plot.counts_right.sum() == ((fitted > plot.fitted_upper) & within).sum()
    assert plot.counts_below.sum() == (residual < -plot.residual_bound).sum()
    assert plot.counts_above.sum() == (residual > plot.residual_bound).sum()
    assert (plot.points_residual > plot.residual_bound).sum() > 50


@pytest.mark.verify
@pytest.mark.parametrize("tables", [3, pytest.param(6, marks=pytest.mark.soak)])
def test_p_values_agree_with_tests_of_the_rows_where_there_is_no_noise(tables):
    """RESET's and Breusch and Pagan's, on the same rows: of the same order, for coarse cells lose a little."""
    for seed in range(tables):
        random = np.random.default_rng(seed)
        x = random.uniform(0, 50, 3000)
        residual = random.normal(0, 1 + 0.0012 * x) + 1.1e-4 * (x - 25) ** 2
        plot = residual_plot.release(ResidualCounts.from_arrays(x, residual), epsilon=1e9, noise=SeededNoise(seed))
        t = (x - x.mean()) / x.std()
        design = np.stack([np.ones_like(t), t, t**2], axis=1)
        for p_value, outcome, term in (
            (plot.curvature_p_value, residual, 2),
            (plot.variance_p_value, (residual - residual.mean()) ** 2, 1),
        ):
            coefficients, squares, _, _ = np.linalg.lstsq(design, outcome, rcond=None)
            error = np.sqrt(squares[0] / (x.size - 3) * np.linalg.inv(design.T @ design)[term, term])
            exact = abs(coefficients[term]) / error
            assert stats.norm.isf(p_value / 2) == pytest.approx(exact, abs=1.0)
