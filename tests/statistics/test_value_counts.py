from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.suites.statistic import StatisticSuite
from tests.support.value_rows import GRIDS, NASTY_VALUES, cell_by_search, column, values

EVERY_GRID = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


def counts_of(rows, grid):
    fields = {name: getattr(grid, name) for name in ("lower", "upper", "cells", "scale", "unit")}
    return ValueCounts.from_arrays(column(rows), **fields)


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
        ({"lower": 0, "upper": 1, "scale": "cubic"}, "scale: got 'cubic'; must be linear or log"),
        ({"lower": 0, "upper": 1, "unit": 0.1}, "unit: got 0.1; may be given only with scale: log; leave it out"),
        ({"lower": 0, "upper": 1, "scale": "log", "unit": 2}, "unit: got 2.0; must be above 0 and below the larger"),
        ({"lower": 0, "upper": 1, "scale": "log", "cells": 8}, "cells: got 8; must be at least one for each doubling"),
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
