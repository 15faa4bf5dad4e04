from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import Moments, PointCounts
from spark_jobs.statistics.point_grid import MAX_POINT_CELLS, PointGrid
from tests.suites.statistic import StatisticSuite
from tests.support.point_rows import GRIDS, KEYS, counted_one_by_one, counts_of, nasty_rows, row, rows

GRID = GRIDS["unit box"]
SUMS = ("n", "x", "y", "xx", "xy", "unusable")


def as_counter(points):
    found = Counter(
        {
            (int(group), int(x), int(y)): int(count)
            for group, x, y, count in zip(points.group, points.x_cell, points.y_cell, points.count, strict=True)
        }
    )
    return found + Counter({(place, None, None): int(rows) for place, rows in enumerate(points.unusable)})


@given(rows())
def test_rows_are_counted_by_the_stated_rule(table):
    assert as_counter(counts_of(table, GRID)) == counted_one_by_one(table, GRID.cells)


def test_nasty_rows_are_counted_by_the_stated_rule():
    assert as_counter(counts_of(nasty_rows(), GRID)) == counted_one_by_one(nasty_rows(), GRID.cells)


def test_sums_over_ten_billion_rows_in_the_last_cell_do_not_wrap_around():
    corner = MAX_POINT_CELLS - 1
    points = PointCounts.from_arrays([1.0], [1.0], cells=MAX_POINT_CELLS)
    assert (points.x_cell.tolist(), points.y_cell.tolist()) == ([corner], [corner])
    moments = Moments.from_points(replace(points, count=points.count * 10**10))
    place = 2 * corner
    exact = [10**10 * factor for factor in (1, place, place, place**2, place**2)]
    assert [int(getattr(moments, name)[0]) for name in ("n", "x", "y", "xx", "xy")] == exact


@given(rows())
def test_moments_are_the_sums_over_the_points_of_each_group(table):
    points = counts_of(table, GRID)
    moments = counts_of(table, GRID, Moments)
    for place in range(len(KEYS)):
        x, y = points.points(place)
        exact = [len(x), *(sum(map(int, term)) for term in (x, y, x * x, x * y)), points.unusable[place]]
        assert [getattr(moments, name)[place] for name in SUMS] == exact
    every = moments.with_every_row()
    assert np.array_equal(every.n, moments.n + moments.unusable)
    assert np.array_equal(every.xy - moments.xy, moments.unusable * (GRID.cells - 1) ** 2)


class TestPointCounts(StatisticSuite):
    kind = PointCounts
    count = staticmethod(lambda table: counts_of(table, GRID))
    rows, row = rows(), row()
    cells = staticmethod(as_counter)
    shown = counts_of([("north", 0.3, 0.4), ("north", None, 0)] * 123, GRID), "PointCounts(cells=8, groups=7)"
    others = (
        counts_of([("north", 0.3, 0.4)] * 122, GRID),
        counts_of([("north", 0.3, 0.4), ("north", None, 0)] * 123, GRIDS["finest"]),
    )
    grids = counts_of([], GRID), counts_of([], GRIDS["finest"]), "grid: must be the same"
    read_only = ("group", "x_cell", "y_cell", "count", "unusable")
    empty = ([], [(None, 0.5, 0.5)], [("nowhere", 0.5, 0.5)])

    @staticmethod
    def packed(counts):
        keys = counts.group * GRID.stride + counts.x_cell * GRID.cells + counts.y_cell
        places = np.flatnonzero(counts.unusable)
        packed = np.concatenate([places * GRID.stride + GRID.stride - 1, keys])
        return packed, np.concatenate([counts.unusable[places], counts.count]), {"grid": GRID}


class TestMoments(TestPointCounts):
    kind = Moments
    count = staticmethod(lambda table: counts_of(table, GRID, Moments))
    cells = staticmethod(lambda moments: dict(enumerate(moments.n + moments.unusable)))
    shown = counts_of([("north", 0.3, 0.4)] * 123, GRID, Moments), "Moments(cells=8, groups=7)"
    others = (
        counts_of([("north", 0.3, 0.4)] * 122, GRID, Moments),
        counts_of([("north", 0.3, 0.4)] * 123, GRIDS["finest"], Moments),
    )
    grids = counts_of([], GRID, Moments), counts_of([], GRIDS["finest"], Moments), "grid: must be the same"
    read_only = SUMS
    test_one_row_moves_the_counts_by_at_most_the_l1_sensitivity = None
    test_keys_with_counts_make_the_same_object = None


def test_ten_thousand_groups_of_one_row_each_are_as_many_cells():
    keys = [f"{number:05d}" for number in range(10_000)]
    random = np.random.default_rng(1)
    x, y = random.random((2, 10_000))
    counts = PointCounts.from_arrays(x, y, groups=random.permutation(keys), keys=keys)
    assert counts.count.tolist() == [1] * 10_000
    assert np.array_equal(counts.group, np.arange(10_000))
    assert counts.points(9_999)[0].size == 1
    assert np.array_equal(Moments.from_points(counts).n, np.ones(10_000))


@pytest.mark.parametrize(
    "groups", [[17, 18, 17], np.array([17, 18, 17]), ["17", "18", "17"], np.array(["17", "", "17"])]
)
def test_whole_numbers_and_their_texts_are_the_same_key(groups):
    for keys in ([17], ["17"], np.array([17])):
        counts = PointCounts.from_arrays([0.1, 0.2, 0.1], [0.5, 0.5, 0.5], groups=groups, keys=keys)
        assert counts.count.tolist() == [2]


def test_groups_that_are_neither_texts_nor_whole_numbers_are_not_counted():
    groups = [17, 17.0, None, True, b"17", ("17",)]
    column = np.empty(6, dtype=object)
    column[:] = groups
    assert PointCounts.from_arrays([0.5] * 6, [0.5] * 6, groups=column, keys=[17, 1, "True"]).total == 1


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"lower": 1, "upper": 1}, "bounds: got '1.0, 1.0'; must be two numbers in ascending order"),
        ({"upper": (1, float("inf"))}, "bounds: got '0.0, inf'; must be two numbers in ascending order"),
        ({"lower": (0, 1, 2)}, "bounds: got [0, 1, 2]; must be one number or a pair"),
        ({"cells": 1000}, "cells: got 1000; must be a power of two"),
        ({"cells": 2**14}, "cells: got 16384; must be the same on both axes, at most 8192"),
        ({"keys": []}, "groups: got '0 keys, 0 of them distinct'; must be from 1 to 1048576 distinct keys"),
        ({"keys": ["17", 17]}, "groups: got '2 keys, 1 of them distinct'"),
        ({"keys": ["x" * 256]}, "groups: got"),
        ({"keys": [1.5]}, "groups: got 1.5; must be texts of at most 255 characters or whole numbers"),
        ({"keys": [True]}, "groups: got True"),
        ({"keys": ["\ud800"]}, "groups: got"),
        ({"keys": [10**4400]}, "groups: got 'a number beyond 64 bits'"),
    ],
)
def test_grids_that_make_no_sense_are_refused_in_a_line(fields, line):
    with pytest.raises(InvalidRequest) as refused:
        PointGrid.between(**fields)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_columns_and_keys_that_do_not_fit_are_refused():
    with pytest.raises(InvalidRequest, match="keys: must be given"):
        PointCounts.from_arrays([0.5], [0.5], groups=["a"])
    with pytest.raises(InvalidRequest, match="keys: must be left out"):
        PointCounts.from_arrays([0.5], [0.5], keys=["a"])
    with pytest.raises(InvalidRequest, match="y: must have as many values as x"):
        PointCounts.from_arrays([0.5], [0.5, 0.6])
    with pytest.raises(InvalidRequest, match="groups: got '1 dimensions of float64'"):
        PointCounts.from_arrays([0.5], [0.5], groups=[1.0], keys=[1])


def test_counts_of_another_grid_are_refused():
    small = PointGrid.between(cells=2)
    with pytest.raises(ValueError, match="another grid"):
        PointCounts.from_keys([5], [1], grid=small)
    one, two, none = np.array([1]), np.array([1, 1]), np.array([0])
    for cells in ([0], [2], [-1]):
        fields = {"group": none, "x_cell": np.array(cells), "y_cell": none, "count": one, "unusable": none}
        if cells == [0]:
            PointCounts(**fields, grid=small)
            fields["count"] = two
        with pytest.raises(InvalidRequest, match="whole numbers of at least 0"):
            PointCounts(**fields, grid=small)
    with pytest.raises(InvalidRequest, match="n: must be 1 whole numbers"):
        Moments(n=two, x=one, y=one, xx=one, xy=one, unusable=none, grid=small)
