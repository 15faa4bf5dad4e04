"""Counts of events per step and state: the statistic of streams."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.arrays import DisjointCounts, read_only
from spark_jobs.statistics.public_keys import GroupKey, is_key, row_places
from spark_jobs.statistics.state_grid import EventBound, StateGrid, as_microseconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StateCounts(DisjointCounts):
    """Exact counts of events per step and state; private: never released or logged, and ``repr`` omits them.

    Each event is read by a public rule. It is not counted if its time is missing or before the first step or after the
    last one, if its state is not among the public ones, or, where persons are bounded, if it has no person. No value in
    the data raises an error.

    Sensitivity: an event is counted in at most one cell, so that under ``Neighbours.ADD_REMOVE`` one event changes one
    count by 1 (L1 distance at most 1) and under ``Neighbours.REPLACE_ONE`` at most two counts by 1 each (L1 at most 2).
    All events of a person together change the counts by at most ``max_rows`` times as much (``EventBound``). For a
    stream whose steps are counted at different times, see ``UsedRows``. Counts of disjoint sets of events can be added,
    unless persons are bounded.

    Args:
        counts: the number of events, at least 0, shape (steps, states); kept as a read-only int64 copy.
        grid: the steps and states.

    Raises:
        InvalidRequest: the counts are not one whole number of at least 0 for each cell of the grid.
    """

    counts: Int64Array
    grid: StateGrid

    def __post_init__(self) -> None:
        array = np.asarray(self.counts)
        shape = self.grid.steps, self.grid.width
        if array.shape != shape or array.dtype.kind not in "iu" or (array < 0).any():
            raise InvalidRequest(
                "counts", None, f"must be {shape[0]} rows of {shape[1]} whole numbers of at least 0",
                "build the counts with from_arrays",
            )  # fmt: skip
        object.__setattr__(self, "counts", read_only(array))

    @classmethod
    def from_arrays(
        cls,
        times: ArrayLike,
        in_states: ArrayLike | None = None,
        *,
        first: dt.datetime,
        step: dt.timedelta,
        steps: int,
        states: Iterable[GroupKey] | None = None,
        units: ArrayLike | None = None,
        max_rows: int | None = None,
        max_per_step: int | None = None,
        salt: bytes = b"",
    ) -> StateCounts:
        """The counts of events that are given as arrays.

        Args:
            times: ``datetime64``, or objects that may be None: datetimes (without a zone, in UTC) and dates.
            in_states: the state of each event, a text or whole number; None for a stream that is not divided.
            first: the beginning of the first step.
            step: the length of a step.
            steps: the number of steps.
            states: the public list of states; required with ``in_states``, and never derived from them.
            units: the person of each event, a text or whole number; None if every event is protected by itself.
            max_rows: with ``units``: how many events of a person are counted in these steps together.
            max_per_step: how many events of a person are counted in each step; None for ``max_rows``.
            salt: secret bytes that order a person's events of one time.

        Example:
            >>> hours = np.array(["2026-01-01T00:10", "2026-01-01T01:10", "NaT"], dtype="datetime64[us]")
            >>> statistic = StateCounts.from_arrays(
            ...     hours,
            ...     ["a", "b", "b"],
            ...     first=dt.datetime(2026, 1, 1),
            ...     step=dt.timedelta(hours=1),
            ...     steps=2,
            ...     states=["a", "b"],
            ... )
            >>> statistic.counts.tolist()
            [[1, 0], [0, 1]]

        Raises:
            InvalidRequest: the grid or the bound is invalid, or the arrays are not columns of equal length.
        """
        grid = _grid(first=first, step=step, steps=steps, states=states, divided=in_states is not None)
        bound = _bound(max_rows=max_rows, max_per_step=max_per_step, salt=salt, by=units is not None)
        events = KnownEvents.of(times, in_states, units, grid)
        place, at = events.places, events.steps
        if bound is not None and events.units is not None:
            counted = bound.kept(events.units, events.times, place, at)
            place, at = place[counted], at[counted]
        keys, counts = np.unique(at * grid.width + place, return_counts=True)
        return cls.from_keys(keys, counts, grid=grid)

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        time: str | Column = "time",
        state: str | Column | None = None,
        first: dt.datetime,
        step: dt.timedelta,
        steps: int,
        states: Iterable[GroupKey] | None = None,
        unit: str | Column | None = None,
        max_rows: int | None = None,
        max_per_step: int | None = None,
        salt: bytes = b"",
    ) -> StateCounts:
        """The counts of a DataFrame's events, equal to those of ``from_arrays``, by one query of Spark.

        No more than one row for each cell that occurs is collected. Without ``unit``, the query is one pass that sorts
        nothing. With ``unit``, the events of these steps are sorted once, within partitions.

        Args:
            df: the table.
            time: a column, or its name: a timestamp with or without a zone (then in UTC), or a date.
            state: a column of texts, whole numbers or booleans, or its name; None for a stream that is not divided.
            first: the beginning of the first step.
            step: the length of a step.
            steps: the number of steps.
            states: the public list of states.
            unit: a column that identifies the person, or its name; None if every event is protected by itself.
            max_rows: with ``unit``: how many events of a person are counted in these steps together.
            max_per_step: how many events of a person are counted in each step; None for ``max_rows``.
            salt: secret bytes that order a person's events of one time.

        Raises:
            InvalidRequest: the grid or the bound is invalid, or a column is missing or of another type.
        """
        from spark_jobs.statistics.spark.states import count_states

        grid = _grid(first=first, step=step, steps=steps, states=states, divided=state is not None)
        bound = _bound(max_rows=max_rows, max_per_step=max_per_step, salt=salt, by=unit is not None)
        return cls.from_keys(*count_states(df, time=time, state=state, unit=unit, grid=grid, bound=bound), grid=grid)

    @classmethod
    def from_keys(cls, keys: ArrayLike, counts: ArrayLike, *, grid: StateGrid) -> StateCounts:
        """The counts from packed keys ``step * states + state`` and the number of events of each; absent keys count 0.

        Raises:
            ValueError: a key is not a cell of the grid.
        """
        keys = np.asarray(keys, dtype=np.int64)
        if keys.size and not 0 <= keys.min() <= keys.max() < grid.size:
            raise ValueError("the keys belong to another grid")
        cells = np.zeros(grid.size, dtype=np.int64)
        np.add.at(cells, keys, np.asarray(counts, dtype=np.int64))
        return cls(counts=cells.reshape(grid.steps, grid.width), grid=grid)

    @property
    def total(self) -> int:
        """The number of counted events; private."""
        return int(self.counts.sum())

    def __add__(self, other: StateCounts) -> StateCounts:
        """The counts of both sets of events together.

        Raises:
            InvalidRequest: the grids differ.
        """
        if not isinstance(other, StateCounts):
            return NotImplemented
        if other.grid != self.grid:
            raise InvalidRequest("grid", None, "must be the same for both", "count both on one grid")
        return StateCounts(counts=self.counts + other.counts, grid=self.grid)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateCounts):
            return NotImplemented
        return self.grid == other.grid and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.grid, self.counts.tobytes()))

    def __repr__(self) -> str:
        return f"StateCounts(first={self.grid.first.isoformat()}, steps={self.grid.steps}, states={self.grid.width})"


def _grid(
    *, first: dt.datetime, step: dt.timedelta, steps: int, states: Iterable[GroupKey] | None, divided: bool
) -> StateGrid:
    listed = None if states is None else tuple(states)
    if divided and listed is None:
        raise InvalidRequest(
            "states", None, "must be given, because the events have states",
            "give the public list of states, which is never derived from the events",
        )  # fmt: skip
    if not divided and listed is not None and len(listed) > 1:
        raise InvalidRequest(
            "states", len(listed), "must be left out, because the events have no states", "leave it out"
        )
    return StateGrid(first=first, step=step, steps=steps, states=listed)


def _bound(*, max_rows: int | None, max_per_step: int | None, salt: bytes, by: bool) -> EventBound | None:
    """The bound of a person's events; None if every event is protected by itself."""
    if by and max_rows is None:
        raise InvalidRequest(
            "max_rows", None, "must be given, because a column identifies persons",
            "give the number of events of one person that are counted",
        )  # fmt: skip
    if not by and (max_rows is not None or max_per_step is not None):
        raise InvalidRequest(
            "max_rows" if max_rows is not None else "max_per_step", max_per_step if max_rows is None else max_rows,
            "must be left out, because no column identifies persons",
            "leave max_rows and max_per_step out, or name the column",
        )  # fmt: skip
    if max_rows is None:
        return None
    return EventBound(max_rows=max_rows, max_per_step=max_rows if max_per_step is None else max_per_step, salt=salt)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KnownEvents:
    """The events that have a time in the steps, a listed state and, where persons are named, a person; private.

    Attributes:
        times: the time of each event, in microseconds since 1970.
        places: the index of each event's state in the list.
        steps: the step of each event.
        units: the person of each event; None if every event is protected by itself.
    """

    times: Int64Array
    places: Int64Array
    steps: Int64Array
    units: list[object] | None

    @classmethod
    def of(cls, times: ArrayLike, in_states: ArrayLike | None, units: ArrayLike | None, grid: StateGrid) -> KnownEvents:
        """The known events among those that are given as arrays.

        Raises:
            InvalidRequest: the arrays are not columns of equal length.
        """
        time = as_microseconds(times)
        place = np.zeros(time.size, dtype=np.int64)
        if in_states is not None:
            place = row_places(in_states, grid.places, field="state")
        owners = None if units is None else np.asarray(units, dtype=object)
        if not time.size == place.size == (time.size if owners is None else owners.size):
            raise InvalidRequest(
                "time", None, "must have as many values as states and units", "give one of each per event"
            )
        at = grid.step_of(time)
        known = (place >= 0) & (at >= 0) & (at < grid.steps)
        if owners is not None:
            known &= np.fromiter(map(is_key, owners), np.bool_, count=owners.size)
        kept = None if owners is None else owners[known].tolist()
        return cls(times=time[known], places=place[known], steps=at[known], units=kept)
