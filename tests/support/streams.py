"""Requests of streams, with as little in them as a request may have."""

from __future__ import annotations

from typing import Any

from spark_jobs.contract.stream_request import StreamRequest

HALLS = {"a": "hall", "b": "hall", "c": "shed", "d": "shed", "hall": "site", "shed": "site"}


def a_stream(**changes: Any) -> StreamRequest:
    """A request for a day of hourly counts, with fields replaced."""
    fields = {
        "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        "time": "at",
        "start": "2026-01-01T00:00:00Z",
        "step": "1 hour",
        "steps": 24,
        "budget": {"epsilon": 1},
    }
    return StreamRequest.parse({**fields, **changes})


def of_states(keys: tuple[str, ...] = ("a", "b", "c", "d"), **changes: Any) -> StreamRequest:
    """The same for states of the column ``ward``."""
    return a_stream(states={"column": "ward", "keys": list(keys)}, **changes)


def of_hierarchy(**changes: Any) -> StreamRequest:
    """The same for four states in two groups of one site."""
    states = {"column": "ward", "keys": ["d", "a", "c", "b"], "parents": HALLS}
    return a_stream(**{"states": states, "method": "pegasus", **changes})
