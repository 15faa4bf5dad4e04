"""Counts of steps and states, and the bound on a person's events."""

import datetime as dt
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import StateCounts
from spark_jobs.statistics.state_grid import StateGrid
from tests.suites.statistic import EVERY_KIND, StatisticSuite
from tests.support.state_rows import FIRST, GRID, HOUR, NASTY_TIMES, SALT, events_of, fields

PERSONS = st.sampled_from(["ada", "bob", 7, None])
MOMENTS = st.integers(-7_200_000_000, 14_400_000_000).map(lambda us: FIRST + dt.timedelta(microseconds=us))
ON_THE_DOT = st.integers(-4, 8).map(lambda half: FIRST + half * HOUR / 2)
TIMES = MOMENTS | ON_THE_DOT | st.sampled_from(NASTY_TIMES)
STATES = st.sampled_from(["a", "b", 17, "17", "elsewhere", "", None])
EVENTS = st.tuples(TIMES, STATES)
HISTORY = st.lists(st.tuples(ON_THE_DOT | MOMENTS, st.sampled_from(["a", "b"]), PERSONS), max_size=30)
BOUNDS = st.tuples(st.integers(1, 4), st.integers(1, 4)).map(
    lambda two: {"max_rows": max(two), "max_per_step": min(two)}
)


def counts_of(rows, grid=GRID):
    times, states = events_of(rows)
    return StateCounts.from_arrays(times, states, **fields(grid))


def bounded(rows, *, steps=4, first=FIRST, salt=SALT, **bound):
    times, states, persons = (np.array([row[i] for row in rows], dtype=object) for i in range(3))
    return StateCounts.from_arrays(
        times, states, first=first, step=HOUR, steps=steps, states=["a", "b"], units=persons, salt=salt,
        **bound,
    )  # fmt: skip


class TestStatistic(StatisticSuite):
    kind = StateCounts
    count = staticmethod(counts_of)
    rows, row = st.lists(EVENTS, max_size=40), EVENTS
    cells = staticmethod(lambda counts: dict(enumerate(counts.counts.ravel())))
    shown = (
        counts_of([(FIRST, "a")] * 123),
        "StateCounts(first=2026-01-31T22:00:00+00:00, steps=3, states=3)",
    )
    others = (
        counts_of([(FIRST, "a")] * 122),
        counts_of([(FIRST, "a")] * 123, StateGrid(first=FIRST, step=HOUR, steps=3, states=("a", "b", 18))),
        counts_of([(FIRST, "a")] * 123, StateGrid(first=FIRST, step=2 * HOUR, steps=3, states=("a", "b", 17))),
    )
    grids = (
        counts_of([]),
        counts_of([], StateGrid(first=FIRST, step=HOUR, steps=2, states=("a", "b", 17))),
        "grid: must be the same",
    )
    read_only = ("counts",)
    empty = ([], [(None, "a")], [(FIRST, None), (FIRST - HOUR, "a"), (FIRST + 3 * HOUR, "a"), (FIRST, "elsewhere")])

    @staticmethod
    def packed(counts):
        keys = np.flatnonzero(counts.counts)
        return keys, counts.counts.ravel()[keys], {"grid": counts.grid}


def test_a_step_contains_its_beginning_and_not_its_end():
    microsecond = dt.timedelta(microseconds=1)
    times = [FIRST - microsecond, FIRST, FIRST + HOUR - microsecond, FIRST + HOUR, FIRST + 3 * HOUR]
    assert counts_of([(time, "a") for time in times]).counts[:, 0].tolist() == [2, 1, 0]


def test_times_are_in_utc_whatever_their_type():
    kathmandu = dt.timezone(dt.timedelta(hours=5, minutes=45))
    alike = [FIRST, FIRST.replace(tzinfo=None), FIRST.astimezone(kathmandu), np.datetime64("2026-01-31T22:00:00", "ns")]
    assert counts_of([(time, "a") for time in alike]).counts[0, 0] == 4
    day = StateCounts.from_arrays(
        np.array(["2026-02-01", "NaT"], dtype="datetime64[D]"), first=FIRST, step=HOUR, steps=3
    )
    assert day.counts.tolist() == [[0], [0], [1]]


def by_hand(rows, *, steps, max_rows, max_per_step):
    """The counts, event by event; for events of different times."""
    counts = np.zeros((steps, 2), dtype=np.int64)
    taken, in_step = defaultdict(int), defaultdict(int)
    for time, state, person in sorted((row for row in rows if row[2] is not None), key=lambda row: row[0]):
        step = (time - FIRST) // HOUR
        if not 0 <= step < steps:
            continue
        in_step[str(person), step] += 1
        if in_step[str(person), step] > max_per_step:
            continue
        taken[str(person)] += 1
        if taken[str(person)] <= max_rows:
            counts[step, "ab".index(state)] += 1
    return counts


def at_distinct_times(rows):
    """The rows, each of equal time to another a microsecond later or more: which of two is first is not by hand."""
    distinct = {}
    for time, *rest in rows:
        while time in distinct:
            time += dt.timedelta(microseconds=1)
        distinct[time] = (time, *rest)
    return list(distinct.values())


@EVERY_KIND
@given(rows=HISTORY, bound=BOUNDS)
def test_the_first_events_of_a_person_are_counted_in_each_step_and_in_all(rows, bound):
    apart = at_distinct_times(rows)
    counted = bounded(apart, **bound)
    assert counted.counts.tolist() == by_hand(apart, steps=4, **bound).tolist()


def test_the_salt_decides_among_events_of_one_time():
    rows = [(FIRST, state, f"person {i}") for i in range(64) for state in "ab"]
    one, other = (bounded(rows, max_rows=1, salt=salt).counts[0] for salt in (b"one", b"other"))
    assert one.sum() == other.sum() == 64
    assert one.min() > 16
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"step": dt.timedelta(0)}, "step: got 0:00:00; must be longer than 0"),
        ({"steps": 0}, "steps: got '0 steps of 3 states'; must make from 1 to 67,108,864 counts in a run"),
        ({"steps": 2**25}, "steps: got '33554432 steps of 3 states'"),
        ({"steps": 10**6, "step": dt.timedelta(days=365)}, "steps: got 1000000; must end by the year 9999"),
        ({"states": ["a", "a"]}, "states: got '2 keys, 1 of them distinct'"),
        ({"states": None}, "states: must be given, because the events have states"),
        ({"max_rows": 3}, "max_rows: got 3; must be left out, because no column identifies persons"),
        ({"units": ["ada"], "max_rows": 0}, "max_rows: got 0; must be a whole number from 1 to 1000000"),
        ({"units": ["ada"], "max_rows": 2, "max_per_step": 3}, "max_per_step: got 3; must be a whole number from 1 to"),
        ({"units": ["ada", "bob"], "max_rows": 2}, "time: must have as many values as states and units"),
    ],
)
def test_grids_and_bounds_that_make_no_sense_are_refused_in_a_line(changes, line):
    with pytest.raises(InvalidRequest) as refused:
        StateCounts.from_arrays([FIRST], ["a"], **{**fields(GRID), **changes})
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


def test_counts_of_another_grid_are_refused():
    with pytest.raises(InvalidRequest, match="counts: must be 3 rows of 3 whole numbers"):
        StateCounts(counts=np.zeros((3, 2), dtype=np.int64), grid=GRID)
    with pytest.raises(ValueError, match="another grid"):
        StateCounts.from_keys([9], [1], grid=GRID)
