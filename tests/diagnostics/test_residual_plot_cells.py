"""From noisy cells to counts and points that are shown, and to quantiles."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot.columns import in_whole_rows, on_the_simplex, quantiles
from spark_jobs.diagnostics.residual_plot.summary import MAX_POINTS
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.support.residual_plots import TABLES, counted


@pytest.mark.slow
@pytest.mark.verify
def test_the_scatter_has_as_many_points_in_a_cell_as_its_count_says():
    plot = residual_plot.release(counted("ordinary"), epsilon=1, noise=SeededNoise(2))
    cells, _, _ = np.histogram2d(
        plot.points_fitted, plot.points_residual, bins=[plot.fitted_edges, plot.residual_edges]
    )
    assert cells.tolist() == plot.counts.tolist()
    assert plot.points_fitted.size - cells.sum() == plot.overflow > 0
    random = np.random.default_rng(1)
    many = ResidualCounts.from_arrays(random.uniform(0, 50, 40_000), random.normal(size=40_000))
    plot = residual_plot.release(many, epsilon=1, noise=SeededNoise(2))
    assert plot.points_fitted.size == MAX_POINTS < plot.counts.sum()
    cells, _, _ = np.histogram2d(
        plot.points_fitted, plot.points_residual, bins=[plot.fitted_edges, plot.residual_edges]
    )
    in_proportion = plot.counts * (MAX_POINTS / (plot.counts.sum() + plot.overflow))
    np.testing.assert_allclose(cells, in_proportion, atol=1)


@pytest.mark.slow
def test_rows_outside_are_counted_with_the_cells_and_shown_as_overflow():
    fitted, residual = TABLES["heavy tails"]
    plot = residual_plot.release(counted("heavy tails"), epsilon=20, noise=SeededNoise(2))
    outside = (np.abs(residual) > plot.residual_bound) | (fitted < plot.fitted_lower) | (fitted > plot.fitted_upper)
    assert plot.overflow == pytest.approx(outside.sum(), abs=20)
    assert outside.sum() > 100


@given(st.lists(st.floats(-50, 200), min_size=1, max_size=30).map(np.array), st.integers(0, 1000), st.integers(0, 2000))
def test_the_nearest_counts_are_at_least_0_and_keep_their_total(cells, total, whole):
    near = on_the_simplex(cells, total)
    assert (near >= 0).all()
    assert near.sum() == pytest.approx(total, abs=1e-6)
    # nearest: the gradient is one number wherever a count is above 0, and no smaller where it is 0
    kept = near > 1e-9
    if kept.any():
        pull = (cells - near)[kept]
        assert np.ptp(pull) < 1e-6
        assert (cells[~kept] <= pull.max() + 1e-6).all()
    rows = in_whole_rows(near, whole)
    assert rows.sum() == (whole if near.sum() > 0 else 0)
    if near.sum() > 0:
        assert (np.abs(rows - near * whole / near.sum()) < 1 + 1e-6).all()


@given(st.lists(st.integers(0, 30), min_size=4, max_size=12), st.floats(0.01, 0.99))
def test_quantiles_invert_the_distribution_of_the_cells(cells, level):
    if sum(cells) == 0:
        return
    edges = np.arange(len(cells) - 1, dtype=float)
    found = quantiles(np.array(cells, float), np.array([level]), edges)[0]
    below = np.cumsum(cells)[:-1] / sum(cells)
    assert edges[0] <= found <= edges[-1]
    if below[0] < level < below[-1]:
        assert np.interp(found, edges, below) == pytest.approx(level, abs=1e-9)
