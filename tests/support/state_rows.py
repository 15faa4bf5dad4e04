"""Events of a stream, good and nasty."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

from spark_jobs.statistics.state_grid import StateGrid

HOUR = dt.timedelta(hours=1)
FIRST = dt.datetime(2026, 1, 31, 22, tzinfo=dt.UTC)
GRID = StateGrid(first=FIRST, step=HOUR, steps=3, states=("a", "b", 17))
SALT = b"0123456789abcdef"
NASTY_TIMES = [
    None,
    "2026-01-31",
    20260131,
    float("nan"),
    np.datetime64("NaT"),
    dt.datetime.min,
    dt.datetime.max,
    dt.date(2026, 2, 1),
    np.datetime64("2026-01-31T22:30"),
    np.datetime64(2**62, "us"),
    np.datetime64(-(2**63) + 1, "us"),
]


def events_of(rows: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Times and states, as columns of objects."""
    columns = np.empty((2, len(rows)), dtype=object)
    for i, row in enumerate(rows):
        columns[0, i], columns[1, i] = row
    return columns[0], columns[1]


def fields(grid: StateGrid) -> dict[str, Any]:
    """What ``from_arrays`` and ``from_dataframe`` take of a grid."""
    return {"first": grid.first, "step": grid.step, "steps": grid.steps, "states": grid.states}
