from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from spark_jobs.contract import InvalidRequest, StreamRequest
from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.preflight import preflight
from tests.support.streams import HALLS, a_stream, of_hierarchy, of_states


def test_a_request_survives_json_and_yaml() -> None:
    for request in (a_stream(), of_states(), of_hierarchy()):
        assert StreamRequest.from_json(request.to_json()) == request
        assert StreamRequest.from_yaml(request.to_yaml()) == request


@pytest.mark.parametrize(
    "changes",
    [
        {"start": "2026-01-01T01:00:00+01:00"},
        {"start": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)},
        {"step": "60 minutes"},
        {"step": "3600 seconds"},
        {"steps": None, "end": "2026-01-02T00:00:00Z"},
        {"method": "local_level"},
        {"method": {"kind": "local_level", "season": 0}},
    ],
)
def test_spellings_of_one_stream_have_one_hash(changes: dict[str, Any]) -> None:
    assert a_stream(**changes).sha256 == a_stream().sha256


def test_the_charge_is_tied_to_everything_but_the_snapshot() -> None:
    later = a_stream(table={"path": "/lake/visits", "snapshot": {"path_version": "v2"}})
    assert later.charged_sha256 == a_stream().charged_sha256
    assert later.sha256 != a_stream().sha256
    for changes in ({"steps": 25}, {"time": "left"}, {"budget": {"epsilon": 2}}, {"method": "pegasus"}):
        assert a_stream(**changes).charged_sha256 != a_stream().charged_sha256


def test_steps_are_intervals_of_utc() -> None:
    request = a_stream(step="15 minutes", steps=8)
    assert request.step_begins(2) == dt.datetime(2026, 1, 1, 0, 30, tzinfo=dt.UTC)
    assert request.last_instant == dt.datetime(2026, 1, 1, 2, 0, tzinfo=dt.UTC)
    moments = (-1, 0, 14, 15, 31, 119, 120, 10_000)
    ended = [request.steps_before(request.first_instant + dt.timedelta(minutes=minutes)) for minutes in moments]
    assert ended == [0, 0, 0, 1, 2, 7, 8, 8]


def test_states_of_a_group_are_neighbours() -> None:
    request = of_hierarchy()
    assert request.levels == (("d", "c", "a", "b"), ("shed", "hall"), ("site",))
    assert request.names == ("site", "shed", "hall", "d", "c", "a", "b")
    assert request.states is not None
    assert request.states.children == ((2, 2), (2,))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"start": "2026-01-01T00:00:00"}, "start: got '2026-01-01T00:00:00'; must be an ISO 8601 time with a time"),
        ({"start": "soon"}, "start: got 'soon'; must be an ISO 8601 time"),
        ({"step": "1 month"}, "step: got '1 month'; must be a whole number of seconds, minutes, hours, days or weeks"),
        ({"step": "0 hours"}, "step: got '0 hours'; must be a whole number"),
        ({"steps": 0}, "steps: got 0"),
        ({"steps": None, "end": "2026-01-01T10:30:00Z"}, "step: got '1 hour'; must divide the time from"),
        ({"steps": None, "end": "2025-01-01T10:00:00Z"}, "step: got '1 hour'; must divide the time from"),
        ({"end": "2026-01-02T00:00:00Z"}, "end: got '2026-01-02T00:00:00Z'; must not be given together with steps"),
        ({"steps": 1_000_000, "step": "52 weeks"}, "steps: got 1000000; must end before the year 9999"),
        (
            {"method": {"kind": "local_level", "season": 25}},
            "method.season: got 25; must not be longer than the",
        ),
        (
            {"monitors": [{"kind": "low", "window": 25, "threshold": 5}]},
            "monitors[0].window: got 25; must be at most 24, because low needs a window (25 steps)",
        ),
        ({"method": {"kind": "local_level", "max_group": 3}}, "method.local_level.max_group: "),
        (
            {"method": {"kind": "pegasus", "prune_share": "0.1"}},
            "method.prune_share: got 0.1; needs states with",
        ),
        ({"method": {"kind": "pegasus", "group_share": 1}}, "method.pegasus.group_share: got '1'; must be above 0"),
        ({"method": "magic"}, "method: "),
        ({"budget": {"epsilon": 1, "delta": "1e-6"}}, "budget.delta: got '0.000001'; must be 0"),
        ({"max_per_step": 2}, "max_per_step: got 2; must be at most unit.max_rows, which is 1"),
        ({"kind": "release"}, "kind: "),
        ({"step": "999999999 weeks"}, "step: got '999999999 weeks'; must be a whole number"),
        ({"follow": {}}, "follow.delay: is required"),
        ({"follow": {"delay": "a while"}}, "follow.delay: got 'a while'; must be a whole number of seconds, minutes"),
        (
            {"follow": {"delay": "1 hour"}, "unit": {"column": "person", "max_rows": 3}, "max_per_step": 1},
            "max_per_step: got 1; must be left out of a stream that is followed",
        ),
        ({"follow": {"delay": "8000 weeks"}, "start": "9990-01-01T00:00:00Z"}, "steps: got 24; must end before"),
    ],
)
def test_a_bad_request_gets_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        a_stream(**changes)
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("parents", "line"),
    [
        ({**HALLS, "site": "hall"}, "states.parents: got 'hall'; must have no cycle"),
        ({name: HALLS[name] for name in HALLS if name != "b"}, "states.parents: got 'b'; must name the group of every"),
        ({**HALLS, "shed": "barn"}, "states.parents: got 'site'; must lead from every state to the same top group"),
        ({**HALLS, "d": "c"}, "states.parents: got 'd'; must put every state at the same depth"),
        ({**HALLS, "e": "hall"}, "states.parents: got 'e'; must name only states and groups of states"),
    ],
)
def test_a_bad_hierarchy_gets_one_line(parents: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        of_hierarchy(states={"column": "ward", "keys": ["a", "b", "c", "d"], "parents": parents})
    assert str(refused.value).startswith(line)


def test_a_stream_that_is_followed_says_when_its_steps_are_closed() -> None:
    request = a_stream(follow={"delay": "90 minutes"})
    assert request.closes(0) - request.first_instant == dt.timedelta(hours=2.5)
    moments = [request.first_instant + dt.timedelta(hours=hours) for hours in (-1, 0, 2.4, 2.5, 24, 25.5)]
    assert [request.steps_closed(moment) for moment in moments] == [0, 0, 0, 1, 22, 24]
    assert [request.steps_within_reach(moment) for moment in moments] == [2, 2, 4, 4, 24, 24]
    assert request.to_dict()["follow"] == {"delay": "90 minutes"}
    assert "follow" not in a_stream().to_dict(), "the hash of other streams is what it was"


def test_the_folder_that_is_followed_is_tied_to_the_charge() -> None:
    other = {"path": "/lake/visits", "snapshot": {"path_version": "v2"}}
    assert a_stream().charged_sha256 == a_stream(table=other).charged_sha256
    followed = {"follow": {"delay": "1 hour"}}
    assert a_stream(**followed).charged_sha256 != a_stream(table=other, **followed).charged_sha256


def test_a_hierarchy_takes_either_method() -> None:
    for method in ("local_level", "pegasus"):
        request = of_hierarchy(method=method)
        assert request.method.kind == method
        assert request.names[:3] == ("site", "shed", "hall")


@pytest.mark.parametrize(
    ("unit", "declared", "counts"),
    [
        ({"column": "person", "max_rows": 4}, None, None),
        ({"column": "person", "max_rows": 4}, 4, 4),
        ({"column": "person", "max_rows": 4}, 3, 3),
        ({"column": "person", "max_rows": 4}, 5, None),  # the first four still have to be found
        ({}, 1, None),
    ],
)
def test_a_declared_bound_counts_if_it_is_not_above_the_rows_that_are_paid_for(
    unit: dict[str, Any], declared: int | None, counts: int | None
) -> None:
    table = {"path": "/lake/visits", "snapshot": {"path_version": "v1"}, "rows_per_unit": declared}
    given = a_stream(unit=unit, table=table)
    assert given.declared_rows == counts
    assert ("rows_per_unit" in given.to_dict()["table"]) == (declared is not None), "old hashes stay as they were"


def test_the_epsilon_of_a_row_is_divided_by_the_rows_of_a_unit() -> None:
    request = a_stream(unit={"column": "person", "max_rows": 3})
    assert request.epsilon_per_row * 3 <= Decimal(1) < request.epsilon_per_row * 3 + Decimal("1e-20")
    assert request.rows_per_step == 3
    assert a_stream(unit={"column": "person", "max_rows": 3}, max_per_step=2).rows_per_step == 2


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (a_stream(budget={"epsilon": "1e-7"}), "budget.epsilon: got '0.0000001'; must be large enough"),
        (of_hierarchy(budget={"epsilon": "1e-5"}), "budget.epsilon: got '0.00001'; must be large enough"),
        (
            of_states(tuple(map(str, range(40_000))), steps=2000, method={"kind": "local_level", "season": 1000}),
            "states: got '120,640,000 numbers of state'; must need at most",
        ),
        (
            a_stream(follow={"delay": "1 hour"}, table={"name": "lake.visits", "snapshot": {"table_version": 3}}),
            "table: got 'catalog, table version 3'; must be a folder of parquet files, named by path_version",
        ),
        (
            a_stream(follow={"delay": "1 hour"}, unit={"column": "person", "max_rows": 3}),
            "unit.column: got 'person'; must be declared by the account's administrator to have at most 3 rows",
        ),
        (
            of_states(tuple(map(str, range(40_000))), steps=2000, follow={"delay": "50 days"}),
            "follow.delay: got '1,203 open steps of 40,000 states'; must keep at most",
        ),
        (
            a_stream(blocks=["2026-01-01T00..2026-01-01T22"], block_expression="hour(at)"),
            "blocks: got '2026-01-01T23'; is left out, although the stream reads it",
        ),
    ],
)
def test_what_cannot_be_released_is_refused_before_the_charge(request_: StreamRequest, line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        preflight(request_)
    assert str(refused.value).startswith(line)


def test_sound_streams_pass_every_check() -> None:
    covered = a_stream(blocks=["2026-01-01"], block_expression="day(at)")
    by_region = a_stream(blocks=["north"], block_expression="value(region)")
    for request in (a_stream(), of_states(), of_hierarchy(), covered, by_region):
        preflight(request)


@pytest.mark.parametrize(
    ("types", "line"),
    [
        ({"ward": "string"}, "time: got 'at'; must be a column of the table"),
        ({"at": "string", "ward": "string"}, "time: got 'at'; must be of type date or timestamp, not string"),
        ({"at": "timestamp", "ward": "double"}, "states.column: got 'ward'; must be of type"),
        ({"at": "timestamp", "ward": "int"}, "states.keys: got 'a'; must be a whole number"),
    ],
)
def test_columns_of_other_types_are_refused(types: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_columns(of_states(), types)
    assert str(refused.value).startswith(line)


def test_columns_of_the_right_types_pass() -> None:
    check_columns(of_states(), {"at": "date", "ward": "string"})
    check_columns(of_states(("1", "2")), {"at": "timestamp", "ward": "bigint"})
