"""Where a residual plot lies: searches for its bounds, its grid, and what one row moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot.box import Bounds, box
from spark_jobs.diagnostics.residual_plot.measurement import default_bins
from spark_jobs.diagnostics.residual_plot.offsets import HALF_CELL
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts
from tests.support.noises import Recording
from tests.support.residual_rows import ROWS, columns


@given(
    st.floats(-(2.0**60), 2.0**60, allow_subnormal=False),
    st.floats(0, 2.0**60, allow_subnormal=False),
    st.floats(2.0**-7, 2.0**60),
    st.sampled_from([2, 8, 64, 256]),
)
def test_a_box_is_made_of_edges_of_cells(lower, width, residual, bins):
    found = box(Bounds(residual=residual, fitted_lower=lower, fitted_upper=min(lower + width, 2.0**60)), bins)
    assert found.bins == bins
    assert found.fitted[0] <= lower
    assert found.fitted[-1] >= min(lower + width, 2.0**60)
    assert found.residual[-1] >= residual
    statistic = ResidualCounts.from_arrays([*found.fitted, *found.fitted], [*found.residual, *-found.residual])
    # an edge's own cell is the one on its side of 0, so each edge is in a cell that ends there
    assert found.counts(statistic).sum() == 2 * (bins + 1)


def test_the_grid_grows_with_what_its_counts_cost_and_never_beyond_its_bounds():
    options = {"coverage": 0.95, "neighbours": Neighbours.ADD_REMOVE}
    found = [default_bins(rows, epsilon=1.0, **options) for rows in (-50, 0, 10, 1000, 5000, 30_000, 10**9)]
    assert found == [4, 4, 4, 8, 16, 32, 64]
    assert default_bins(5000, epsilon=0.2, **options) == default_bins(1000, epsilon=1.0, **options)
    assert default_bins(10_000, epsilon=1.0, coverage=0.95, neighbours=Neighbours.REPLACE_ONE) == 16


def test_searches_end_and_stay_near_the_data():
    """One in a hundred boxes may be twice as wide as the data; none is endless."""
    random = np.random.default_rng(6)
    widths, statistic = [], ResidualCounts.from_arrays(random.uniform(0, 50, 1000), random.normal(size=1000))
    for seed in range(300):
        found = residual_plot.measure(statistic, epsilon=1, noise=SeededNoise(seed)).box
        widths.append((np.ptp(found.fitted) / 50, found.residual[-1] / 1.96))
    assert (np.array(widths) <= 2.0).mean(axis=0).min() >= 0.98
    assert np.median(widths, axis=0) == pytest.approx([1, 1], abs=0.2)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@settings(deadline=None, max_examples=30)
@given(rows=ROWS.filter(bool), row=st.tuples(st.floats(-300, 300), st.floats(-300, 300)), seed=st.integers(0, 99))
def test_one_row_moves_what_is_measured_by_what_is_paid_for(neighbours, rows, row, seed):
    """Given the same answers, a neighbour is asked the same questions, and one row moves them as the proofs say."""
    replaced = neighbours is Neighbours.REPLACE_ONE
    other = [*rows[1:], row] if replaced else [*rows, row]

    def asked(table, noise):
        statistic = ResidualCounts.from_arrays(*columns(table))
        residual_plot.measure(statistic, epsilon=1, neighbours=neighbours, noise=noise)
        return noise

    first = asked(rows, Recording(source=SeededNoise(seed)))
    second = asked(other, Recording(answers=first.given))
    assert len(first.asked) == len(second.asked) == 9
    size, *searches, sums, cells = zip(first.asked, second.asked, strict=True)
    paid = 2 if replaced else 1
    assert np.abs(size[0].values - size[1].values).sum() <= size[0].l1_sensitivity == 1
    assert np.abs(cells[0].values - cells[1].values).sum() <= cells[0].l1_sensitivity == paid
    assert np.abs(sums[0].values - sums[1].values).sum() <= sums[0].l1_sensitivity == paid * HALF_CELL
    for (threshold, _), (one, two) in zip(searches[::2], searches[1::2], strict=True):
        assert threshold.values.tolist() == [0]
        assert threshold.l1_sensitivity == one.l1_sensitivity == paid
        moves = two.values - one.values  # of nested counts: up from one set on, and down from another
        assert np.abs(np.diff(moves, prepend=0)).sum() <= paid
    spent = size[0].epsilon + sums[0].epsilon + cells[0].epsilon + sum(one.epsilon for _, one in searches[::2])
    assert float(spent) == pytest.approx(1, abs=1e-9)
    assert spent <= 1
