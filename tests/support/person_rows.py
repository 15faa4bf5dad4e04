"""Versions of a table whose rows come late, vanish and return, with a state for each person.

The state of a row names its person, so that the counts of states are what each person gave.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain, Position
from spark_jobs.application.streams.counting import Counted
from spark_jobs.statistics.state_grid import EventBound, StateGrid
from spark_jobs.statistics.unit_use import UnitUse
from spark_jobs.statistics.used_rows import UsedRows
from tests.support.stream_lab import StreamRunner

HOUR = dt.timedelta(hours=1)
PERSONS = ("ada", "bob", "cleo", "dan", "eve")
Rows = tuple[tuple[int, str], ...]
"""The step and the person of each row of a version."""


def used(rows: Rows, *, first: int, steps: int, start: dt.datetime, use: UnitUse, bound: EventBound) -> UsedRows:
    """The rows of a version that a stream counts in some steps of an hour."""
    grid = StateGrid(first=start + first * HOUR, step=HOUR, steps=steps, states=PERSONS)
    times = np.array([start + step * HOUR + (at % 60) * HOUR / 60 for at, (step, _) in enumerate(rows)], dtype=object)
    persons = np.array([person for _, person in rows], dtype=object)
    return UsedRows.from_arrays(times, persons, persons, grid=grid, bound=bound, use=use)


@dataclass
class VersionRunner(StreamRunner):
    """Counts the rows of the version that a request names, by the arrays' half of what Spark does.

    Attributes:
        versions: the rows of each version.
        read: the versions that were read, with the first step and the step after the last.
    """

    versions: dict[str, Rows] = field(default_factory=dict)
    read: list[tuple[str, int, int]] = field(default_factory=list)

    def count(self, chain: ObjectChain, position: Position, until: int, announcer: Announcer) -> Counted:
        request, name = chain.request, str(chain.request.table.snapshot.path_version)
        self.read.append((name, position.next, until))
        assert position.state.use is not None
        bound = EventBound(max_rows=request.unit.max_rows, max_per_step=request.rows_per_step, salt=chain.unit_salt)
        counted = used(
            self.versions[name],
            first=position.next,
            steps=until - position.next,
            start=request.first_instant,
            use=position.state.use,
            bound=bound,
        )
        return Counted(cells=counted.counts.counts, use=counted.use)


def of_versions(**changes: Any) -> dict[str, Any]:
    """The fields of a lab's request for these persons."""
    return {
        "states": {"column": "person", "keys": list(PERSONS)},
        "unit": {"column": "person", "max_rows": 3},
        "steps": 8,
        **changes,
    }
