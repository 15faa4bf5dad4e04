"""The sums of what residuals lie above the middles of their cells: exact, as sensitive as stated, and read as such."""

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot.box import Bounds, box
from spark_jobs.diagnostics.residual_plot.offsets import (
    HALF_CELL,
    hidden_in_cells,
    in_units,
    share_of_offsets,
    sums_of_offsets,
)
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.support.noises import Recording

BINS = pytest.mark.parametrize("bins", [2, 4, 16, 64, 256])
OUTER = [-1e300, -7.0, -1e-9, 0.0, 0.001, 0.0078125, 0.3, 1.0, 2.5, 5.9999, 6.0, 6.0001, 1e300]


def grid(bins, residual=6.0):
    return box(Bounds(residual=residual, fitted_lower=-3.0, fitted_upper=20.0), bins)


@BINS
@pytest.mark.parametrize("residual", [0.06, 0.9, 6.0, 700.0])
def test_sums_are_those_of_the_rows_up_to_what_finer_cells_hide(bins, residual):
    random, grid_of = np.random.default_rng(bins), grid(bins, residual)
    fitted, residuals = random.uniform(-5, 25, 900), random.normal(0, residual / 2, 900)
    sums = in_units(sums_of_offsets(ResidualCounts.from_arrays(fitted, residuals), grid_of), grid_of)
    edges = grid_of.residual
    cells = np.searchsorted(edges, residuals) - 1
    inside = (cells >= 0) & (cells < bins)
    middles = (edges[1:] + edges[:-1]) / 2
    columns = np.searchsorted(grid_of.fitted, fitted) - 1
    for column in range(bins):
        own = inside & (columns == column)
        exact = (residuals[own] - middles[cells[own]]).sum()
        assert abs(sums[column] - exact) <= hidden_in_cells(grid_of)[1 + cells[own]].sum() + 1e-9


@BINS
def test_one_row_changes_them_by_half_a_cell_at_most_and_one_replaced_by_a_cell(bins):
    of_row = {
        (x, z): sums_of_offsets(ResidualCounts.from_arrays([x], [z]), grid(bins))
        for x in (-1e9, -3.0, 0.0, 19.9, 1e9)
        for z in [*OUTER, *(-z for z in OUTER)]
    }
    largest = max(int(np.abs(sums).sum()) for sums in of_row.values())
    assert HALF_CELL * (0.4 if bins == 256 else 0.95) <= largest <= HALF_CELL
    apart = max(int(np.abs(one - other).sum()) for one in of_row.values() for other in of_row.values())
    assert apart <= 2 * HALF_CELL
    assert not of_row[0.0, 1e300].any(), "beyond the box a row counts at its edge"


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_they_are_asked_for_at_their_share_and_sensitivity_before_the_counts(neighbours):
    noise = Recording()
    statistic = ResidualCounts.from_arrays(np.linspace(0, 50, 3000), np.sin(np.arange(3000.0)))
    draw = residual_plot.measure(statistic, epsilon=1, neighbours=neighbours, noise=noise)
    asked = next(one for one in noise.asked if np.shape(one.values) == (draw.box.bins,))
    assert draw.spendings[-2].epsilon == draw.offsets_epsilon == share_of_offsets(draw.box.bins)
    assert asked.l1_sensitivity == HALF_CELL * (2 if neighbours is Neighbours.REPLACE_ONE else 1)
    assert draw.cells_epsilon == 1 - sum(one.epsilon for one in draw.spendings[:-1])


def test_a_draw_without_sums_keeps_its_wider_intervals():
    statistic = ResidualCounts.from_arrays(np.linspace(0, 50, 9000), np.sin(np.arange(9000.0)))
    encoded = residual_plot.measure(statistic, epsilon=1, noise=SeededNoise(1)).to_dict()
    decode, summarise = residual_plot.DIAGNOSTIC.measurement.decode, residual_plot.summarise
    ours = summarise(decode(encoded), seed=1)
    del encoded["offsets"]
    earlier = summarise(decode(encoded), seed=1)
    cell = earlier.residual_edges[1] - earlier.residual_edges[0]
    assert (earlier.trend.upper - earlier.trend.lower >= cell).all()
    assert (ours.trend.upper - ours.trend.lower < 0.75 * (earlier.trend.upper - earlier.trend.lower)).all()
    assert ours.qq_residual.value.tolist() == earlier.qq_residual.value.tolist()
