"""Rows and sums by cell: which cell a row lies in, what it adds, and what one row can change."""

from __future__ import annotations

import copy
import datetime as dt
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import AggregateSums
from tests.support.aggregate_rows import BY, MEASURES, ROWS, columns_of, summed

MANY = settings(deadline=None, max_examples=60)


def cell(**values):
    """The number of the one cell in which a row counts; None if it counts in none."""
    row = {"region": "north", "age": 30.0, "at": dt.datetime(2025, 5, 1), "spend": 1.0, "stay": 1.0, **values}
    found = summed([tuple(row[name] for name in ("region", "age", "at", "spend", "stay"))])
    places = np.flatnonzero(found.rows)
    return None if places.size == 0 else np.unravel_index(places[0], (3, 4, 2))


def test_bins_contain_their_lower_edge_and_the_last_one_its_upper_one():
    ages = {0.0: 0, 17.999: 0, 18.0: 1, 65.0: 2, 120.0: 2, 120.001: 3, -0.001: 3, np.nan: 3, None: 3, np.inf: 3}
    assert {age: cell(age=age)[1] for age in ages} == ages


def test_periods_begin_at_their_first_moment_and_end_before_the_next():
    times = {
        dt.datetime(2025, 1, 1): 0,
        dt.datetime(2025, 12, 31, 23, 59, 59, 999_999): 0,
        dt.date(2026, 1, 1): 1,
        dt.datetime(2026, 6, 30, 23): 1,
        dt.datetime(2026, 7, 1): None,
        dt.datetime(2024, 12, 31): None,
        None: None,
    }
    assert {time: None if (found := cell(at=time)) is None else found[2] for time in times} == times


def test_rows_of_no_listed_value_are_other():
    regions = {"north": 0, 7: 1, "7": 1, "west": 2, None: 2, "North": 2}
    assert {region: cell(region=region)[0] for region in regions} == regions


def test_values_are_clipped_and_rounded_to_their_lattice():
    by, measure = [], [{"of": "v", "bounds": [-2, 3], "step": 0.5}]
    values = [-9.0, -2.0, -1.75, -1.76, 0.1, 3.0, np.inf, -np.inf, None, np.nan]
    found = [AggregateSums.from_arrays({"v": [value]}, by=by, measures=measure) for value in values]
    assert [int(one.sums[0, 0]) for one in found] == [0, 0, 1, 0, 4, 10, 10, 0, 0, 0]
    assert [int(one.incomplete[0]) for one in found] == [0] * 8 + [1, 1]


@pytest.mark.parametrize(
    ("measure", "square"),
    [
        ({"bounds": [-2, 3], "step": 0.5}, lambda a: np.rint(100 * a**2)),
        ({"bounds": [-2, 3]}, lambda a: np.rint(2**30 * a**2)),
    ],
    ids=["exact", "rounded"],
)
def test_squares_are_summed_on_a_lattice_of_their_own(measure, square):
    values = np.array([-9.0, -2.0, -1.5, 0.5, 1.0, 3.0])
    found = AggregateSums.from_arrays({"v": values}, measures=[{"of": "v", **measure, "figures": ["variance"]}])
    steps = found.design.measures[0].steps
    places = np.rint((np.clip(values, -2, 3) + 2) / 5 * steps)
    assert [term.power for term in found.design.terms] == ["value", "square"]
    assert found.sums[:, 0].tolist() == [places.sum(), square(2 * places / steps - 1).sum()]


@MANY
@given(one=ROWS, other=ROWS)
def test_parts_add_up_to_the_whole_in_any_order(one, other):
    assert summed(one) + summed(other) == summed([*other, *one])


@MANY
@given(rows=ROWS, row=ROWS.filter(bool))
def test_a_row_more_changes_one_cell_by_at_most_each_lattice(rows, row):
    before, after = summed(rows), summed([*rows, row[0]])
    rows_more, incomplete = after.rows - before.rows, after.incomplete - before.incomplete
    assert rows_more.sum() + incomplete.sum() in (0, 1)
    assert (np.abs(after.sums - before.sums).sum(axis=1) <= [one.last for one in before.design.terms]).all()
    assert ((after.sums - before.sums)[:, rows_more == 0] == 0).all()


def test_it_is_a_value_that_shows_nothing():
    one = summed([("north", 30.0, dt.datetime(2025, 5, 1), 7.0, 1.0)])
    assert repr(one) == "AggregateSums(cells=24, measures=2)"
    assert copy.deepcopy(one) == one == pickle.loads(pickle.dumps(one))
    assert hash(copy.copy(one)) == hash(one)
    assert one != summed([])
    with pytest.raises(ValueError, match="read-only"):
        one.rows[0] = 7
    with pytest.raises(InvalidRequest, match="design: must be the same for both"):
        one + AggregateSums.from_arrays({}, by=[], measures=[])


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"region": ["north"]}, "columns: got 'age'; must be among the columns"),
        ({**columns_of([]), "age": [1.0]}, "columns: must have the same length"),
        ({**columns_of([]), "at": np.array([1.0])}, "must be one column of times"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, line):
    with pytest.raises(InvalidRequest, match=line):
        AggregateSums.from_arrays(columns, by=BY, measures=MEASURES)


@MANY
@given(rows=ROWS)
def test_distinct_units_are_those_of_complete_rows(rows):
    columns = columns_of(rows)
    by, units = BY[1:2], {"of": "region", "figures": ["units"]}
    found = AggregateSums.from_arrays(columns, by=by, measures=[MEASURES[0], units])
    frame = pd.DataFrame(columns).dropna(subset=["region"])
    one = {name: AggregateSums.from_arrays(columns_of([row]), by=by).rows for name, row in enumerate(rows)}
    cells = pd.Series({name: int(np.flatnonzero(counts)[0]) for name, counts in one.items()}, dtype=int)
    complete = frame[frame["spend"].notna()]
    exact = complete.groupby(cells[complete.index])["region"].nunique().reindex(range(4), fill_value=0)
    assert found.sums[1].tolist() == exact.tolist()
    assert found.rows.tolist() == cells[complete.index].value_counts().reindex(range(4), fill_value=0).tolist()
    alone = AggregateSums.from_arrays(columns, by=by, measures=[units])
    assert alone.rows.sum() == len(frame)
    assert not alone.incomplete.any()
