import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import ResidualCounts
from spark_jobs.statistics.residual_grid import AXIS, RESIDUAL_KEYS, SIDE, cut_at, size_at
from tests.suites.statistic import StatisticSuite
from tests.support.residual_rows import NUMBERS, ROWS, columns, grid_by_fractions, nasty_pairs

POWERS_OF_TWO = [2**i for i in range(9)]


def counts_of(rows, unit=1.0):
    return ResidualCounts.from_arrays(*columns(rows), unit=unit)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    ROWS,
    st.tuples(st.integers(0, 60), st.integers(0, 60)) | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.sampled_from(POWERS_OF_TWO), st.sampled_from(POWERS_OF_TWO)),
)
def test_grids_are_those_of_exact_arithmetic(rows, doublings, bins):
    cells, overflow = counts_of(rows).grid(*doublings, *bins)
    expected, outside = grid_by_fractions(rows, doublings=doublings, bins=bins)
    assert cells.tolist() == expected.tolist()
    assert overflow == outside


@pytest.mark.sampled("doublings", "bins")
@pytest.mark.slow
@pytest.mark.parametrize("doublings", [0, 1, 4, 33, 60])
@pytest.mark.parametrize("bins", POWERS_OF_TWO)
def test_nasty_numbers_fall_into_the_cells_of_exact_arithmetic(doublings, bins):
    rows = nasty_pairs(1)
    cells, overflow = counts_of(rows).grid(doublings, doublings, bins, bins)
    expected, outside = grid_by_fractions(rows, doublings=(doublings,) * 2, bins=(bins, bins))
    assert (cells.tolist(), overflow) == (expected.tolist(), outside)


@pytest.mark.parametrize("bins", POWERS_OF_TWO)
@pytest.mark.parametrize(("k", "unit"), [((3, 2), 1.0), ((0, 5), 0.3), ((7, 0), 1000.0)])
def test_a_grid_is_a_plain_histogram_of_the_rows_within_it(bins, k, unit):
    random = np.random.default_rng(9)
    bounds = [unit * 2.0**each for each in k]
    fitted, residual = (random.normal(0, 0.6 * bound, 5000) for bound in bounds)
    statistic = ResidualCounts.from_arrays(fitted, residual, unit=unit)
    cells, overflow = statistic.grid(*k, bins, bins)
    plain, _, _ = np.histogram2d(fitted, residual, bins=bins, range=[[-bound, bound] for bound in bounds])
    np.testing.assert_array_equal(cells, plain)
    assert 0 < overflow == 5000 - plain.sum()


@given(ROWS, st.integers(0, 60), st.integers(0, 60))
def test_every_counted_row_is_inside_or_overflows(rows, first, second):
    statistic = counts_of(rows)
    cells, overflow = statistic.grid(first, second, 8, 16)
    assert cells.shape == (8, 16)
    assert cells.sum() + overflow == statistic.total
    assert statistic.total == sum(None not in row and not np.isnan(row).any() for row in rows)


def test_the_sign_decides_the_side_and_zero_counts_as_positive():
    statistic = counts_of([(0.0, -0.0), (-0.0, 5e-324), (-5e-324, 0.0)])
    assert statistic.fitted_cells.tolist() == [SIDE - 1, SIDE]
    assert statistic.residual_cells.tolist() == [SIDE, SIDE]
    assert statistic.counts.tolist() == [1, 2]


def test_cells_never_fall_as_numbers_grow():
    numbers = np.sort([number for number, _ in nasty_pairs(2) if number is not None and number == number])
    keys = [counts_of([(number, 0.0)]).fitted_cells[0] for number in numbers]
    assert (np.diff(keys) >= 0).all()
    assert (keys[0], keys[-1]) == (0, AXIS - 1)


def test_cuts_of_the_axis_are_the_ends_of_its_cells():
    cuts = np.arange(AXIS + 1)
    sizes = size_at(cuts)
    assert (sizes[0], sizes[SIDE], sizes[-1]) == (-(2.0**60), 0.0, 2.0**60)
    assert (np.diff(sizes) > 0).all()
    assert cut_at(sizes).tolist() == cuts.tolist()


@given(ROWS)
def test_tables_of_any_cuts_hold_every_row_once(rows):
    statistic = counts_of(rows)
    one, other = np.array([0, 17, SIDE, SIDE + 700, AXIS]), np.array([0, AXIS])
    cells = statistic.table(one, other)
    fitted, residual = statistic.axis_counts()
    assert cells[:, 0].tolist() == np.add.reduceat(fitted, one[:-1]).tolist()
    assert statistic.table(other, one)[0].tolist() == np.add.reduceat(residual, one[:-1]).tolist()


def flat(statistic):
    """The counts of one of the grids that the statistic refines, and of all beyond it."""
    cells, overflow = statistic.grid(4, 3, 4, 8)
    return dict(enumerate([*cells.reshape(-1), overflow]))


class TestStatistic(StatisticSuite):
    kind = ResidualCounts
    count = staticmethod(counts_of)
    rows, row = ROWS, st.tuples(NUMBERS, NUMBERS)
    cells = staticmethod(flat)
    shown = counts_of([(1.0, 2.0)] * 123), "ResidualCounts(unit=1.0)"
    others = (counts_of([(1.0, 2.0)]), counts_of([(1.0, 2.0)] * 123, unit=2.0))
    grids = counts_of([], unit=1.0), counts_of([], unit=2.0), "unit: must be the same"
    read_only = ("fitted_cells", "residual_cells", "counts")
    empty = ([], [(None, 1.0)], [(float("nan"), 1.0), (1.0, float("nan"))] * 3)

    @staticmethod
    def packed(statistic):
        keys = statistic.fitted_cells * AXIS + statistic.residual_cells
        rows_of_parts = np.concatenate([np.ones(keys.size, int), statistic.counts - 1])
        return np.concatenate([keys, keys]), rows_of_parts, {}


@pytest.mark.parametrize("rows", [[], [(None, 1.0)], [(float("nan"), 1.0), (1.0, float("nan"))] * 3])
def test_a_table_without_pairs_has_grids_of_the_usual_shape(rows):
    statistic = counts_of(rows)
    cells, overflow = statistic.grid(5, 5, 16, 16)
    assert (cells.shape, int(cells.sum()), overflow, statistic.total) == ((16, 16), 0, 0, 0)


@pytest.mark.parametrize("unit", [0, -1.0, float("nan"), float("inf"), 1e-320, 10**400, True, "1", None])
def test_units_that_make_no_sense_are_refused_in_a_line(unit):
    with pytest.raises(InvalidRequest) as refused:
        counts_of([(1.0, 2.0)], unit=unit)
    assert str(refused.value).startswith("unit: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("grid", "line"),
    [
        ((-1, 0, 2, 2), "doublings: got -1; must be from 0 to 60"),
        ((0, 61, 2, 2), "doublings: got 61"),
        ((0, 0, 3, 2), "bins: got 3; must be a power of two from 1 to 256"),
        ((0, 0, 2, 512), "bins: got 512"),
        ((0, 0, 2, True), "bins: got True"),
    ],
)
def test_grids_that_the_cells_do_not_refine_are_refused(grid, line):
    with pytest.raises(InvalidRequest) as refused:
        counts_of([]).grid(*grid)
    assert str(refused.value).startswith(line)


def test_what_is_no_such_statistic_is_refused():
    with pytest.raises(InvalidRequest, match="residuals: must have as many values as fitted"):
        ResidualCounts.from_arrays([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="another grid"):
        ResidualCounts.from_keys([RESIDUAL_KEYS], [1])
    arrays = np.array([1, 2])
    for fields in (
        {"counts": np.array([1, 0])},
        {"counts": np.array([1.0, 1.0])},
        {"counts": np.array([1])},
        {"fitted_cells": np.array([2, 1])},
        {"fitted_cells": np.array([0, AXIS])},
        {"fitted_cells": np.array([1, 1]), "residual_cells": np.array([1, 1])},
    ):
        with pytest.raises(InvalidRequest, match="counts: must be"):
            ResidualCounts(**{"fitted_cells": arrays, "residual_cells": arrays, "counts": arrays, **fields})
