"""``alarms.json`` of a stream: which conditions of its monitors hold after its newest step, and the newest alarms."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.values import Frozen

SUMMARY = "alarms.json"
MAX_LISTED = 100
"""The most alarms of the summary; ``alarms.parquet`` has all."""


class ListedAlarm(Frozen):
    """An alarm: consecutive steps at which a condition holds for every count that the noise leaves possible.

    Attributes:
        monitor: the index of the monitor in the request, from 0.
        condition: the monitor's condition in words.
        state: the name of the count for which it holds.
        first: the number of the first step.
        last: the number of the last step.
        since: the instant at which the first step begins; ISO 8601.
        figure: the noisy sum or change at the last step.
        in_force: whether the last step is the stream's newest.
    """

    monitor: Annotated[int, Field(ge=0)]
    condition: str
    state: str
    first: Annotated[int, Field(ge=0)]
    last: Annotated[int, Field(ge=0)]
    since: str
    figure: int
    in_force: bool

    def line(self) -> str:
        """The alarm in one line."""
        return f"{self.condition}: {self.state}, since {self.since}, noisy figure {self.figure:,}"


class StreamAlarms(Frozen):
    """The alarms of a stream, up to the newest step that its monitors have evaluated.

    Attributes:
        steps: how many steps the monitors have evaluated.
        watched: how many counts each monitor watches.
        holds: for each monitor, the number of counts for which its condition holds now.
        raised: how many alarms were raised so far.
        newest: the newest alarms, at most ``MAX_LISTED``; those in force come first.
    """

    format: Literal[1] = 1
    steps: Annotated[int, Field(ge=0)]
    watched: Annotated[int, Field(ge=0)]
    holds: tuple[Annotated[int, Field(ge=0)], ...]
    raised: Annotated[int, Field(ge=0)]
    newest: tuple[ListedAlarm, ...] = ()

    @property
    def in_force(self) -> int:
        """The number of pairs of a monitor and a count for which the condition holds now."""
        return sum(self.holds)

    def begun_from(self, step: int) -> tuple[ListedAlarm, ...]:
        """The listed alarms that began at a step of this number or a later one."""
        return tuple(alarm for alarm in self.newest if alarm.first >= step)

    def to_json(self) -> bytes:
        """The alarms as the bytes of ``alarms.json``."""
        return (json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n").encode()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**self.model_dump(mode="json"), "in_force": self.in_force}

    @classmethod
    def of(cls, fields: Any) -> Self:
        """The alarms in a result of ``to_dict``.

        Raises:
            InvalidRequest: ``fields`` is not such a result.
        """
        return cls.parse({name: value for name, value in dict(fields).items() if name != "in_force"})

    @classmethod
    def read(cls, store: ObjectStore, root: str) -> Self | None:
        """The alarms in the folder of a stream; None if it has no ``alarms.json``, or none that can be parsed.

        Raises:
            OSError: the store failed.
        """
        content = store.read(f"{root}/{SUMMARY}")
        try:
            return None if content is None else cls.of(json.loads(content))
        except (ValueError, TypeError, RecursionError):
            return None
