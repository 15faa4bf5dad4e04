"""The request of a stream: a count of rows for every state and step of time, paid for by one charge.

Everything in the request is fixed by the charge except the table's snapshot: every run reads the newest version of the
table, and no run reads an earlier version than the run before (``version_order``). A stream that is followed reads each
row once, when it arrives, and its snapshot is fixed as well.

*Contribution bound.* Where a column identifies units, a stream keeps, in its encrypted state, the exact number of rows
of each unit that it has used. It uses at most ``unit.max_rows`` rows of each unit in all, whatever rows the table
loses, regains or gets late (``statistics.unit_use`` has the proof). The state has room for a public number of units
(``places``): the number that the administrator of the table declares, or the request's ``capacity``, beyond which rows
of new units are not counted. Under ADD_REMOVE neighbours a ``capacity`` doubles the cost, as the absence of one unit
gives its place to another.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from contextlib import suppress
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.contract.binding import MAX_UNITS
from spark_jobs.contract.bound_columns import ColumnName
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.streams import MAX_MONITORS, LocalLevelMethod, StreamMethodOptions, StreamMonitor
from spark_jobs.contract.privacy import KEPT_DIGITS, Neighbours, share
from spark_jobs.contract.stream_states import EVERYTHING, TOTAL, StreamStates
from spark_jobs.contract.table_request import TableRequest, canonical, canonical_sha256
from spark_jobs.contract.values import Frozen

MAX_STEPS = 1_000_000
MAX_ROWS_KEPT = 65_535
"""The most rows of a unit whose use a stream can keep: its state has two bytes for each unit."""
_STEP = re.compile(r"(?P<number>[1-9][0-9]{0,8}) (?P<unit>second|minute|hour|day|week)s?", re.ASCII)
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_YEARS = (1900, 9999)
_LONGEST = 8100 * 366 * 86_400
"""Seconds between these years, and more."""


class Follow(Frozen):
    """How a stream treats rows that arrive while it is followed.

    Attributes:
        delay: how long after its end a step is closed, such as ``10 minutes``. Only the clock closes a step: a
            watermark, which follows the largest time among the rows, would depend on a single person's row.
    """

    delay: str

    @field_validator("delay", mode="before")
    @classmethod
    def _one_spelling(cls, value: Any) -> str:
        return _spelled(value)

    @property
    def after(self) -> dt.timedelta:
        """The delay as a ``timedelta``."""
        return step_length(self.delay)


class StreamRequest(TableRequest):
    """A stream of counts.

    Attributes:
        kind: ``count_stream``.
        time: the column of a row's time, a date or a timestamp in UTC; a row without a time, or with one outside the
            stream, is dropped.
        start: the first instant of the first step; ISO 8601 with a time zone, kept in UTC.
        step: the length of a step, such as ``1 hour`` or ``15 minutes``.
        steps: the number of steps; instead of it, ``end`` may be given, the instant at which the last step ends.
        states: the states that are counted separately; None counts all rows together.
        method: how counts become estimates, with its options.
        max_per_step: the most rows of a unit that are used in one step; None for as many as ``unit.max_rows``.
        capacity: the number of units whose used rows the stream keeps track of; None for the number of units that the
            administrator of the table declares. Once there are more units, rows of the later units are not counted.
        monitors: conditions that the report watches, at no cost.
        follow: how rows that arrive while the stream is followed are treated; None for a stream that is not followed:
            its runs read a table that is complete up to the steps that they release.
    """

    kind: Literal["count_stream"] = "count_stream"
    time: ColumnName
    start: str
    step: str
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)]
    states: StreamStates | None = None
    method: StreamMethodOptions = LocalLevelMethod()
    max_per_step: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    capacity: Annotated[int | None, Field(ge=1, le=MAX_UNITS, exclude_if=lambda value: value is None)] = None
    monitors: Annotated[tuple[StreamMonitor, ...], Field(max_length=MAX_MONITORS, exclude_if=operator.not_)] = ()
    # a stream that is not followed has the hash that it had before the field existed
    follow: Annotated[Follow | None, Field(exclude_if=lambda value: value is None)] = None

    @model_validator(mode="before")
    @classmethod
    def _end_as_steps(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = {**data}
        end = data.pop("end", None)
        if isinstance(data.get("method"), str):
            data["method"] = {"kind": data["method"]}
        if end is None:
            return data
        if data.get("steps") is not None:
            raise InvalidRequest("end", end, "must not be given together with steps", "leave one of them out")
        if not {"start", "step"} <= set(data):
            return data
        first, last = instant(data["start"], field="start"), instant(end, field="end")
        length = step_length(data["step"])
        steps, rest = divmod(last - first, length)
        if rest or steps < 1:
            raise InvalidRequest(
                "step", step_text(length),
                f"must divide the time from {_text(first)} to {_text(last)} into whole steps",
                "change the step, start or end",
            )  # fmt: skip
        return {**data, "steps": steps}

    @field_validator("start", mode="before")
    @classmethod
    def _in_utc(cls, value: Any) -> str:
        return _text(instant(value, field=""))

    @field_validator("step", mode="before")
    @classmethod
    def _one_spelling(cls, value: Any) -> str:
        return _spelled(value)

    @model_validator(mode="after")
    def _check_stream(self) -> Self:
        try:
            _ = self.closes(self.steps - 1)
        except OverflowError:
            raise InvalidRequest(
                "steps", self.steps, f"must end before the year {_YEARS[1]}", "name fewer steps"
            ) from None
        if self.budget.rho is not None:
            raise InvalidRequest(
                "budget.rho", str(self.budget.rho), "must be left out: a stream has pure privacy", "give an epsilon"
            )
        if self.budget.delta != 0:
            raise InvalidRequest(
                "budget.delta", str(self.budget.delta), "must be 0: a stream has pure privacy", "leave it out"
            )
        if self.max_per_step is not None and self.max_per_step > self.unit.max_rows:
            raise InvalidRequest(
                "max_per_step", self.max_per_step, f"must be at most unit.max_rows, which is {self.unit.max_rows}",
                "leave it out, or allow more rows in all",
            )  # fmt: skip
        if self.capacity is not None and (self.unit.column is None or self.follow is not None):
            raise InvalidRequest(
                "capacity", self.capacity,
                "must be left out if the stream is followed or its unit has no column, because such a stream does not "
                "count the rows of each unit", "leave it out",
            )  # fmt: skip
        if self.places is not None and self.unit.max_rows > MAX_ROWS_KEPT:
            raise InvalidRequest(
                "unit.max_rows", self.unit.max_rows,
                f"must be at most {MAX_ROWS_KEPT:,} in a stream that keeps what it has used of each unit",
                "lower unit.max_rows",
            )  # fmt: skip
        if self.follow is not None and self.max_per_step is not None:
            raise InvalidRequest(
                "max_per_step", self.max_per_step,
                "must be left out of a stream that is followed, because such a stream reads each row only once",
                "leave it out, or leave out follow",
            )  # fmt: skip
        try:
            self.method.check(self.steps, len(self.levels))
        except InvalidRequest as refused:
            raise refused.within("method") from None
        for number, monitor in enumerate(self.monitors):
            try:
                monitor.check(self.steps)
            except InvalidRequest as refused:
                raise refused.within(f"monitors[{number}]") from None
        return self

    @property
    def first_instant(self) -> dt.datetime:
        """The first instant of the stream."""
        return instant(self.start, field="start")

    @property
    def step_length(self) -> dt.timedelta:
        """The length of a step."""
        return step_length(self.step)

    @property
    def last_instant(self) -> dt.datetime:
        """The instant at which the last step ends."""
        return self.step_begins(self.steps)

    def step_begins(self, number: int) -> dt.datetime:
        """The instant at which the step of this number, counted from 0, begins."""
        return self.first_instant + number * self.step_length

    def steps_before(self, moment: dt.datetime) -> int:
        """The number of steps that have ended by ``moment``."""
        return max(0, min(self.steps, (moment - self.first_instant) // self.step_length))

    def closes(self, number: int) -> dt.datetime:
        """The instant at which the step of this number, counted from 0, is closed."""
        return self.step_begins(number + 1) + self._delay

    def steps_closed(self, moment: dt.datetime) -> int:
        """The number of steps that are closed by ``moment``."""
        return self.steps_before(moment - self._delay)

    def steps_within_reach(self, moment: dt.datetime) -> int:
        """The number of steps whose rows a followed stream accepts at ``moment``: one more than have begun."""
        return min(self.steps, self.steps_before(moment) + 2)

    @property
    def _delay(self) -> dt.timedelta:
        return dt.timedelta(0) if self.follow is None else self.follow.after

    @property
    def leaf_names(self) -> tuple[str, ...]:
        """The names of the states, in the order in which they are counted."""
        return (EVERYTHING,) if self.states is None else self.states.levels[0]

    @property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The names of each level of the hierarchy, the states first."""
        return ((EVERYTHING,),) if self.states is None else self.states.levels

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all counts that are released, the top of a hierarchy first."""
        return (EVERYTHING,) if self.states is None else self.states.names

    @property
    def has_total(self) -> bool:
        """Whether the total is a sum of released counts rather than one of them: for states without groups."""
        return len(self.names) > 1 and len(self.levels) == 1

    @property
    def watched_names(self) -> tuple[str, ...]:
        """The names of the counts that monitors watch: a derived total, if there is one, then all released counts."""
        return (TOTAL, *self.names) if self.has_total else self.names

    @property
    def epsilon_per_row(self) -> Decimal:
        """The epsilon at which the mechanism runs, for one row: the budget's divided by ``rows_paid``."""
        rows = self.rows_paid
        return self.budget.epsilon if rows == 1 else share(self.budget.epsilon, rows, digits=KEPT_DIGITS)

    @property
    def rows_paid(self) -> int:
        """The most rows, added, removed or replaced, by which the counted rows of neighbouring tables differ.

        Under ADD_REMOVE with a capacity it is twice ``unit.max_rows``: the absence of a unit gives its place to exactly
        one other unit, whose rows count instead.
        """
        displaced = self.capacity is not None and self.neighbours is Neighbours.ADD_REMOVE
        return self.unit.max_rows * (2 if displaced else 1)

    @property
    def places(self) -> int | None:
        """For how many units the state keeps the number of rows used; None if it does not keep these numbers."""
        if self.unit.column is None or self.follow is not None:
            return None
        return self.table.units if self.capacity is None else self.capacity

    @property
    def rows_per_step(self) -> int:
        """The most rows of a unit that are used in one step."""
        return self.unit.max_rows if self.max_per_step is None else self.max_per_step

    @property
    def declared_rows(self) -> int | None:
        """The declared bound on a unit's rows in the table; None if the guarantee does not rest on it.

        The guarantee rests on this fact where units have a column and the state does not keep their used rows.
        """
        declared = None if self.unit.column is None or self.places is not None else self.table.rows_per_unit
        return None if declared is None or declared > self.unit.max_rows else declared

    @cached_property
    def charged_sha256(self) -> str:
        """The hash that the charge is tied to: of everything but the snapshot, which differs between runs.

        The order of versions is left out too, as the table's administrator adds later versions to it. A stream that is
        followed always reads one folder, so that its snapshot is part of the hash.
        """
        if self.follow is not None:
            return self.sha256
        table = {**self.table.model_dump(mode="json"), "snapshot": None}
        table.pop("version_order", None)
        return canonical_sha256({**self.canonical_fields, "table": canonical(table)})


def instant(given: Any, *, field: str) -> dt.datetime:
    """An instant in UTC, to the second.

    Raises:
        InvalidRequest: ``given`` is not an ISO 8601 time with a time zone, in whole seconds.
    """
    utc = None
    with suppress(ValueError, OverflowError):
        moment = dt.datetime.fromisoformat(given) if isinstance(given, str) else given
        if isinstance(moment, dt.datetime) and moment.tzinfo is not None and moment.microsecond == 0:
            utc = moment.astimezone(dt.UTC)
    if utc is None or not _YEARS[0] <= utc.year < _YEARS[1]:
        raise InvalidRequest(
            field, given, "must be an ISO 8601 time with a time zone, in whole seconds",
            "write it like 2026-01-01T00:00:00Z",
        )  # fmt: skip
    return utc


def step_length(given: Any) -> dt.timedelta:
    """The length of a step from its text.

    Raises:
        InvalidRequest: ``given`` is not a whole number of seconds, minutes, hours, days or weeks.
    """
    match = _STEP.fullmatch(given.strip()) if isinstance(given, str) else None
    seconds = 0 if match is None else int(match["number"]) * _SECONDS[match["unit"]]
    if not 1 <= seconds <= _LONGEST:
        raise InvalidRequest(
            "step", given, "must be a whole number of seconds, minutes, hours, days or weeks",
            "write it like '1 hour' or '15 minutes'",
        )  # fmt: skip
    return dt.timedelta(seconds=seconds)


def _spelled(given: Any) -> str:
    """The one text of a length, whatever unit it is given in; a refusal names no field."""
    try:
        return step_text(step_length(given))
    except InvalidRequest as refused:
        raise InvalidRequest.from_dict({**refused.to_dict(), "field": ""}) from None


def step_text(length: dt.timedelta) -> str:
    """The canonical text of a step's length: a whole number of the largest possible unit."""
    seconds = int(length.total_seconds())
    unit, size = next((unit, size) for unit, size in reversed(_SECONDS.items()) if seconds % size == 0)
    number = seconds // size
    return f"{number} {unit}{'s' if number > 1 else ''}"


def _text(moment: dt.datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
