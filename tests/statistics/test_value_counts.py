from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.suites.statistic import StatisticSuite
from tests.support.value_rows import GRIDS, LATTICES, NASTY_VALUES, cell_by_search, column, values

EVERY_GRID = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


EVERY_LATTICE = pytest.mark.parametrize("grid", LATTICES.values(), ids=LATTICES)


def counts_of(rows, grid):
    return ValueCounts.from_arrays(column(rows), **grid.fields())


@EVERY_GRID
def test_a_grid_covers_its_bounds_with_cells_that_start_where_they_say(grid):
    assert grid.edges.shape == (grid.size + 1,)
    assert (grid.edges[0], grid.edges[-1]) == (grid.lower, grid.upper)
    assert (np.diff(grid.edges) > 0).all()
    assert 2 <= grid.size <= grid.cells
    assert grid.cell(grid.edges).tolist() == [*range(grid.size), grid.size - 1]


@pytest.mark.slow
@EVERY_GRID
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_cells_are_those_of_a_search_among_edges(grid, data):
    value = data.draw(values(grid).filter(lambda value: value is not None and value == value))
    found = int(grid.cell(value))
    expected = cell_by_search(grid, value)
    # a value within rounding of an edge may be taken for the edge
    assert found == expected or (
        abs(found - expected) == 1 and np.isclose(value, grid.edges[max(found, expected)], rtol=1e-12, atol=1e-12)
    )


@EVERY_GRID
def test_cells_never_fall_as_values_grow(grid):
    edges = np.concatenate([grid.edges, np.nextafter(grid.edges, np.inf), np.nextafter(grid.edges, -np.inf)])
    rising = np.sort(np.concatenate([edges, np.linspace(2 * grid.lower - grid.upper, 2 * grid.upper, 4001)]))
    assert (np.diff(grid.cell(rising)) >= 0).all()


@EVERY_GRID
def test_values_of_positions_are_the_inverse_of_positions(grid):
    inside = np.linspace(grid.lower, grid.upper, 999)
    np.testing.assert_allclose(grid.value(grid.position(inside)), inside, rtol=1e-9, atol=1e-9)


def test_a_logarithmic_grid_tells_small_values_apart_as_well_as_large_ones():
    grid = GRIDS["log, positive"]
    widths = np.diff(grid.edges) / grid.edges[:-1]
    assert widths.max() / np.median(widths) < 2.1
    assert grid.size > 0.9 * grid.cells


@EVERY_GRID
def test_nasty_values_are_counted_by_the_stated_rule(grid):
    counts = counts_of(NASTY_VALUES, grid)
    numbers = [value for value in NASTY_VALUES if value is not None and value == value]
    assert counts.total == len(numbers)
    assert counts.counts[0] >= sum(value <= grid.lower for value in numbers)
    assert counts.counts[-1] >= sum(value >= grid.upper for value in numbers)


GRID = GRIDS["log, both signs"]


class TestStatistic(StatisticSuite):
    kind = ValueCounts
    count = staticmethod(lambda rows: counts_of(rows, GRID))
    rows, row = st.lists(values(GRID), max_size=40), values(GRID)
    cells = staticmethod(lambda counts: dict(enumerate(counts.counts)))
    shown = (counts_of([1.0, 2.0] + [3.0] * 123, GRIDS["two cells"]), f"ValueCounts(grid={GRIDS['two cells']})")
    others = (counts_of([1.0], GRIDS["linear"]), counts_of([1.0], replace(GRIDS["linear"], upper=2e6)))
    grids = counts_of([1.0], GRIDS["two cells"]), counts_of([1.0], GRIDS["linear"]), "grid: must be the same"
    read_only = ("counts",)
    empty = ([], [None], [float("nan")] * 3)

    @staticmethod
    def packed(counts):
        keys = np.flatnonzero(counts.counts)
        return keys, counts.counts[keys], {"grid": counts.grid}


@pytest.mark.parametrize("rows", [[], [None], [float("nan")] * 3])
@EVERY_GRID
def test_a_table_without_values_has_counts_of_the_usual_shape(grid, rows):
    assert counts_of(rows, grid).counts.tolist() == [0] * grid.size


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"lower": 1, "upper": 1}, "bounds: got '1.0, 1.0'; must be two numbers in ascending order"),
        ({"lower": float("nan"), "upper": 1}, "bounds: got 'nan, 1.0'"),
        ({"lower": -1e308, "upper": 1e308}, "bounds: got"),
        ({"lower": 0, "upper": 1, "cells": 1000}, "cells: got 1000; must be a power of two"),
        (
            {"lower": 1e9, "upper": 1e9 + 1e-7},
            "cells: got 32768; must leave cells that double precision can distinguish",
        ),
        ({"lower": 0, "upper": 1, "scale": "cubic"}, "scale: got 'cubic'; must be linear, log or score"),
        ({"lower": 0, "upper": 1, "unit": 0.1}, "unit: got 0.1; may be given only with scale: log; leave it out"),
        ({"lower": 0, "upper": 1, "scale": "log", "unit": 2}, "unit: got 2.0; must be above 0 and below the larger"),
        ({"lower": 0, "upper": 1, "scale": "log", "cells": 8}, "cells: got 8; must be at least one for each doubling"),
        ({"lower": 0, "upper": 100, "step": 0.3}, "step: got 0.3; must divide the range of the values, [0, 100]"),
        ({"lower": 0, "upper": 0.4, "step": 1}, "step: got 1; must divide the range of the values"),
        ({"lower": 0, "upper": 1e9, "step": 0.5}, "step: got 0.5; must be above 0 and at least a billionth"),
        ({"lower": 0, "upper": 1, "step": 0.0}, "step: got 0.0; must be above 0"),
        ({"lower": 0, "upper": 1, "step": float("nan")}, "step: got nan; must be above 0"),
        ({"lower": 0, "upper": 8, "scale": "log", "step": 1}, "step: got 1; cannot be combined with scale: log"),
    ],
)
def test_grids_that_make_no_sense_are_refused_in_a_line(fields, line):
    with pytest.raises(InvalidRequest) as refused:
        ValueGrid(**fields)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_counts_of_another_grid_are_refused():
    grid = GRIDS["two cells"]
    with pytest.raises(InvalidRequest, match="counts: must be one row of 2 whole numbers"):
        ValueCounts(counts=np.array([1, 2, 3]), grid=grid)
    with pytest.raises(InvalidRequest, match="counts: must be one row of 2"):
        ValueCounts(counts=np.array([1, -1]), grid=grid)
    with pytest.raises(ValueError, match="another grid"):
        ValueCounts.from_keys([2], [1], grid=grid)


def compared(grid, thresholds, rows):
    """Which rows count for ``>= t``, ``<= t``, ``> t`` and ``< t``, by the cells; shape (4, thresholds, rows)."""
    cells, first, last = grid.cell(rows), grid.at_least(thresholds)[:, None], grid.at_most(thresholds)[:, None]
    return np.array([cells >= first, cells <= last, cells > last, cells < first])


def beside(numbers):
    return np.concatenate([numbers, np.nextafter(numbers, np.inf), np.nextafter(numbers, -np.inf)])


@EVERY_GRID
def test_every_row_at_a_threshold_counts(grid):
    inner = np.linspace(grid.lower, grid.upper, 401)[1:-1]
    thresholds = beside(np.concatenate([grid.edges[1:-1][:: max(1, grid.size // 300)], inner]))
    thresholds = np.clip(thresholds, grid.lower, grid.upper)
    at_least, at_most, above, below = compared(grid, thresholds, thresholds)
    assert at_least.diagonal().all()
    assert at_most.diagonal().all()
    low, high = grid.ends(grid.at_least(thresholds), grid.at_most(thresholds))
    last_bits = 4 * np.spacing(max(abs(grid.lower), abs(grid.upper)))
    assert (low <= thresholds + last_bits).all()
    assert ((thresholds < high + last_bits) | (thresholds == grid.upper)).all()
    # rows that count without being there are less than a cell away
    counted = np.where(at_least, thresholds[None, :], np.inf).min(axis=1)
    assert (counted >= low - last_bits).all()
    assert (above == ~at_most).all()
    assert (below == ~at_least).all()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_with_a_step_comparisons_are_exact_for_any_threshold(data):
    step = data.draw(st.sampled_from([1, 0.01, 0.05, 0.1, 0.25, 0.001, 1 / 3, 7]))
    low = data.draw(st.sampled_from([0, 1, -3, 300, 10**6])) * step
    steps = data.draw(st.integers(1, 5000))
    grid = ValueGrid(lower=low, upper=low + steps * step, cells=8192, step=step)
    assert grid.values_in_cell == 1
    assert grid.size == steps + 1
    numbers = np.array(data.draw(st.lists(st.integers(0, steps), min_size=1, max_size=40)))
    values = low + numbers * step
    if max(abs(grid.lower), abs(grid.upper)) / step < 1e4:
        values = data.draw(st.sampled_from([values, values.astype(np.float32).astype(float)]))
    assert grid.cell(values).tolist() == numbers.tolist()
    at = np.array(data.draw(st.lists(st.integers(0, steps - 1), min_size=1, max_size=20)))
    aside = data.draw(st.sampled_from([0.0, 0.4, 0.5, 0.6]))
    thresholds = low + (at + aside) * step
    thresholds = data.draw(st.sampled_from([thresholds, *np.array_split(beside(thresholds), 3)[1:]]))
    first, last = (at + (aside > 0))[:, None], at[:, None]
    exact = [numbers >= first, numbers <= last, numbers > last, numbers < first]
    assert (compared(grid, thresholds, values) == np.array(exact)).all()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_cells_of_several_values_hold_what_they_say(data):
    step, low = data.draw(st.sampled_from([1, 0.01, 0.25])), data.draw(st.sampled_from([-7.0, 0.0, 3.5]))
    steps, cells = data.draw(st.integers(2, 300)), data.draw(st.sampled_from([2, 8, 64]))
    grid = ValueGrid(lower=low, upper=low + steps * step, cells=cells, step=step)
    assert grid.size <= cells
    numbers = np.array(data.draw(st.lists(st.integers(0, steps), min_size=1, max_size=40)))
    values = np.sort(low + numbers * step)
    first, last = grid.ends(grid.cell(values), grid.cell(values))
    near = 1e-6 * step
    assert (first <= values + near).all()
    assert (values <= last + near).all()
    assert (last - first < grid.values_in_cell * step).all()
    threshold = low + data.draw(st.floats(0, steps)) * step
    at_least, at_most, *_ = (found.ravel() for found in compared(grid, np.array([threshold]), values))
    start, end = grid.ends(grid.at_least(threshold), grid.at_most(threshold))
    # what is in force is exact
    assert (at_least == (values >= start - near)).all()
    assert (at_most == (values <= end + near)).all()
    assert (at_least >= (values >= threshold)).all()
    assert (at_most >= (values <= threshold)).all()


@EVERY_LATTICE
def test_a_lattice_covers_its_bounds_with_cells_that_start_where_they_say(grid):
    assert (grid.edges[0], grid.edges[-1]) == (grid.lower, grid.upper)
    assert (np.diff(grid.edges)[:-1] > 0).all()
    assert grid.edges[-1] >= grid.edges[-2]
    assert grid.cell(grid.edges).tolist() == [*range(grid.size), grid.size - 1]
    assert (np.floor(grid.position(grid.edges[:-1])) == np.arange(grid.size)).all()
    inside = np.linspace(grid.lower, grid.upper, 999)
    np.testing.assert_allclose(grid.value(grid.position(inside)), inside, rtol=1e-9, atol=1e-9)
    assert ValueGrid(**grid.fields()) == grid


def test_values_of_a_lattice_are_written_as_people_write_them():
    cents = LATTICES["cents"]
    assert cents.ends(cents.cell(0.35), cents.cell(0.35)) == (0.35, 0.35)
    assert cents.edges[[29 + 300, 57 + 300]].tolist() == [0.29, 0.57]


def test_thresholds_beside_a_lattice_are_in_force_from_its_next_value():
    ages = LATTICES["whole numbers"]
    assert ages.ends(ages.at_least(49.4), ages.at_most(49.6)) == (50, 49)
    assert ValueGrid(lower=0, upper=1, cells=128, step=0.01).cell(0.29) == 29
    threes = ValueGrid(lower=0, upper=191, cells=64, step=1)
    assert threes.values_in_cell == 3
    assert threes.ends(threes.at_least(49.4), threes.at_least(49.4)) == (48, 50)
