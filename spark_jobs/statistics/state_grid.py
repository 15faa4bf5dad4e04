"""The cells of a stream: steps of equal length and the states of a public list; and how events of a person are bounded.

Time is a whole number of microseconds since 1970 in UTC: a timestamp without a zone is read in UTC, a date as its
midnight. A step contains its beginning and not its end.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import BoolArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.base import MAX_KEYS
from spark_jobs.statistics.public_keys import GroupKey, checked_keys, key_places

MAX_EVENTS = 1_000_000
"""The largest bound on the events of a person, as in a release."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_FAR = 2**62
"""A time beyond all years from 1 to 9999."""
_MISSING = np.iinfo(np.int64).min
"""The time of an event without one; no step contains it."""


@dataclass(frozen=True, kw_only=True)
class StateGrid:
    """Steps of equal length in UTC, and the states of a public list; fixed independently of the data.

    Attributes:
        first: the beginning of the first step; without a zone, in UTC.
        step: the length of a step, at least a microsecond.
        steps: the number of steps, at least 1.
        states: texts and whole numbers, where 17 and "17" are the same; None for a stream that is not divided.

    Raises:
        InvalidRequest: the steps do not lie within the years 1 to 9999, the states are not distinct short keys, or
            there are more than 2^26 cells.
    """

    first: dt.datetime
    step: dt.timedelta
    steps: int
    states: tuple[GroupKey, ...] | None = None

    def __post_init__(self) -> None:
        first = self.first if self.first.tzinfo is not None else self.first.replace(tzinfo=dt.UTC)
        object.__setattr__(self, "first", first.astimezone(dt.UTC))
        if self.states is not None:
            object.__setattr__(self, "states", checked_keys(self.states, field="states"))
        if self.step < _MICROSECOND:
            raise InvalidRequest(
                "step", self.step, "must be longer than 0", "give the length of a step, such as an hour"
            )
        if not (_is_whole(self.steps) and 1 <= self.steps * self.width <= MAX_KEYS):
            raise InvalidRequest(
                "steps", f"{self.steps} steps of {self.width} states",
                f"must make from 1 to {MAX_KEYS:,} counts in a run, one for each step and state",
                "count fewer steps in a run",
            )  # fmt: skip
        try:
            self.first + self.steps * self.step
        except OverflowError:
            raise InvalidRequest("steps", self.steps, "must end by the year 9999", "count fewer steps") from None

    @property
    def width(self) -> int:
        """The number of states."""
        return 1 if self.states is None else len(self.states)

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.steps * self.width

    @cached_property
    def start(self) -> int:
        """The beginning of the first step, in microseconds since 1970."""
        return (self.first - _EPOCH) // _MICROSECOND

    @cached_property
    def length(self) -> int:
        """The length of a step in microseconds."""
        return self.step // _MICROSECOND

    @cached_property
    def places(self) -> dict[str, int]:
        """The index of each state in the list, by its text; empty for a stream that is not divided."""
        return key_places(self.states or ())

    def step_of(self, times: Int64Array) -> Int64Array:
        """The step of each time, negative before the first and from ``steps`` on after the last one."""
        return np.floor_divide(np.clip(times, -_FAR, _FAR) - self.start, self.length)


@dataclass(frozen=True, kw_only=True, repr=False)
class EventBound:
    """The bound on a person's counted events, with the salt that breaks ties; the salt is secret, and so is the object.

    A person's events in a step are ordered by time; ties are broken by a hash with the salt. The first ``max_per_step``
    events of each step are candidates. Of the candidates, in the order of steps, the first ``max_rows`` are counted in
    the steps that are counted together, or fewer if events of the person were counted in earlier steps (``UnitUse``).

    Neighbours and stability. Let two tables differ by all events of one person. Which events are counted depends on a
    person's own events alone, so the counts differ by at most ``max_rows`` in 1-norm, and by at most ``2 max_rows`` if
    the events are replaced.

    Attributes:
        max_rows: the largest number of counted events of a person.
        max_per_step: the largest number of counted events of a person in one step.
        salt: secret bytes.

    Raises:
        InvalidRequest: the bounds are not whole numbers with 1 <= max_per_step <= max_rows.
    """

    max_rows: int
    max_per_step: int
    salt: bytes

    def __post_init__(self) -> None:
        if not (_is_whole(self.max_rows) and 1 <= self.max_rows <= MAX_EVENTS):
            raise InvalidRequest(
                "max_rows", self.max_rows, f"must be a whole number from 1 to {MAX_EVENTS}",
                "give the number of events that a person may have in the whole stream",
            )  # fmt: skip
        if not (_is_whole(self.max_per_step) and 1 <= self.max_per_step <= self.max_rows):
            raise InvalidRequest(
                "max_per_step", self.max_per_step, f"must be a whole number from 1 to max_rows, {self.max_rows}",
                "leave it out, or give a smaller number",
            )  # fmt: skip

    @cached_property
    def secret(self) -> str:
        """A digest of the salt, which orders events of one time."""
        return hashlib.sha256(b"dp-diagnostics events\0" + self.salt).hexdigest()

    def tie(self, unit: object, time: int, place: int) -> str:
        """The hash that orders the events of a person at one time, the same in Spark and in numpy."""
        return hashlib.sha256("\n".join((self.secret, str(unit), str(time), str(place))).encode()).hexdigest()

    @cached_property
    def unit_key(self) -> bytes:
        """The key of the hashes under which the used rows of persons are recorded (``UnitUse``)."""
        return hmac.digest(self.salt, b"dp-diagnostics units", "sha256")

    def kept(
        self,
        units: list[object],
        times: Int64Array,
        places: Int64Array,
        steps: Int64Array,
        used: Int64Array | None = None,
    ) -> BoolArray:
        """Whether each event is counted, if ``used`` events of its person were counted before; by default none."""
        _, unit = np.unique(np.array([str(one) for one in units]), return_inverse=True)
        ties = np.array([self.tie(*event) for event in zip(units, times.tolist(), places.tolist(), strict=True)])
        order = np.lexsort((places, ties, times, unit)) if unit.size else np.zeros(0, dtype=np.intp)
        unit, step = unit[order], steps[order]
        candidate = _rank(unit, step) < self.max_per_step
        among: Int64Array = np.cumsum(candidate) - candidate
        new = np.append(True, unit[1:] != unit[:-1])[: unit.size]
        before = among - np.maximum.accumulate(np.where(new, among, 0)) if unit.size else among
        room: Int64Array | int = self.max_rows if used is None else self.max_rows - used[order]
        kept = np.zeros(unit.size, dtype=np.bool_)
        kept[order] = candidate & (before < room)
        return kept


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _rank(*keys: Int64Array) -> Int64Array:
    """The number of rows before each row that have the same keys, where equal rows are neighbours."""
    size = keys[0].size
    at = np.arange(size)
    new = np.zeros(size, dtype=np.bool_)
    for key in keys:
        new |= np.append(True, key[1:] != key[:-1])[:size]
    return at - np.maximum.accumulate(np.where(new, at, 0)) if size else at


def as_microseconds(times: ArrayLike) -> Int64Array:
    """Times as microseconds since 1970 in UTC: of ``datetime64`` or of objects that may be None; others are missing.

    Raises:
        InvalidRequest: the array is not one-dimensional, or its type is neither a time nor object.
    """
    array = np.asarray(times)
    if array.ndim != 1 or array.dtype.kind not in "MO":
        raise InvalidRequest(
            "time", f"{array.ndim} dimensions of {array.dtype}", "must be one column of times",
            "convert the column first",
        )  # fmt: skip
    if array.dtype.kind == "O":
        return np.fromiter(map(_microseconds, array), np.int64, count=array.size)
    # a missing time of numpy is this number
    return array.astype("datetime64[us]").astype(np.int64)


def _microseconds(time: object) -> int:
    if isinstance(time, np.datetime64):
        return int(time.astype("datetime64[us]").astype(np.int64))
    if isinstance(time, dt.datetime) and time == time:
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
        return (zoned - _EPOCH) // _MICROSECOND
    if isinstance(time, dt.date) and time == time:
        return (dt.datetime(time.year, time.month, time.day, tzinfo=dt.UTC) - _EPOCH) // _MICROSECOND
    return _MISSING
