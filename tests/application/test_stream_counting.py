"""The exact counts of a stream's steps: how far back a run reads."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.streams.counting import count_steps
from spark_jobs.contract.salt import SALT_VARIABLE
from spark_jobs.publishing.stream_statement import stream_assumptions, stream_rules, stream_statement
from tests.support.streams import a_stream

HOUR = dt.timedelta(hours=1)
UNIT = {"column": "person", "max_rows": 3}


def declared(rows: int | None) -> Any:
    table = {"path": "/lake/visits", "snapshot": {"path_version": "v1"}, "rows_per_unit": rows}
    return a_stream(unit=UNIT, table=table)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.verify
def test_with_a_declared_bound_earlier_steps_are_not_read(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Person 1 has five rows, more than was declared: who reads the earlier ones leaves the later ones out."""
    monkeypatch.setenv(SALT_VARIABLE, "a salt of many bytes")
    at = [(hour, 1) for hour in (0, 1, 2, 12, 13)] + [(hour, 2) for hour in (3, 12)]
    start = a_stream().first_instant
    rows = [(start + hour * HOUR, person) for hour, person in at]
    table = spark.createDataFrame(rows, "at timestamp, person int")
    counted = {
        rows: count_steps(table, declared(rows), first=12, steps=12).counts[:2, 0].tolist() for rows in (None, 3, 4)
    }
    assert counted == {None: [1, 0], 3: [2, 1], 4: [1, 0]}
    whole = [
        sum(int(np.sum(count_steps(table, declared(3), first=first, steps=12).counts)) for first in (0, 12)),
        int(np.sum(count_steps(table, declared(None), first=0, steps=24).counts)),
    ]
    assert whole == [7, 5]


@pytest.mark.parametrize("follow", [None, {"delay": "10 minutes"}])
def test_rules_quote_the_names_of_columns_so_that_any_name_can_be_read(follow: dict[str, str] | None) -> None:
    request = a_stream(
        time="at", states={"column": "is null", "keys": ["b"]}, unit={"column": "of", "max_rows": 3}, follow=follow
    )
    rules = " ".join(stream_rules(request))
    assert "its time, in UTC, in the column 'at'; a row without a time there, or with one outside the stream," in rules
    assert "that the column 'is null' names; a row with a null there" in rules
    assert "share a value of 'of', at most" in rules
    assert "a row without a value there is left out" in rules


def test_the_declaration_is_printed_as_an_assumption() -> None:
    plain, bounded = declared(None), declared(2)
    [line] = set(stream_assumptions(bounded)) - set(stream_assumptions(plain))
    assert "No value of person has more than 2 rows in the table: the administrator of the account declares it" in line
    assert "3 in all are used" in " ".join(stream_rules(plain))
    assert "3 in the steps that one run releases are used" in " ".join(stream_rules(bounded))
    assert "as its administrator declares" in stream_statement(bounded, "secure")
    assert "declares" not in stream_statement(plain, "secure")
