"""The exact counts of a stream's steps: how far back a run reads."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from spark_jobs.application.streams.advance import start_state
from spark_jobs.application.streams.counting import count_steps
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.column_checks import check_columns
from spark_jobs.wording.streams import stream_assumptions, stream_rules, stream_statement
from tests.support.streams import a_stream

HOUR = dt.timedelta(hours=1)
UNIT = {"column": "person", "max_rows": 3}


def declared(rows: int | None, **changes: Any) -> Any:
    table = {"path": "/lake/visits", "snapshot": {"path_version": "v1"}, "rows_per_unit": rows}
    return a_stream(**{"unit": UNIT, "table": table, **changes})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.verify
def test_a_run_reads_its_own_steps_and_goes_on_from_what_was_used(spark: Any) -> None:
    """Person 1 has five rows, more than are declared: only a stream that keeps what it used leaves two of them out."""
    at = [(hour, 1) for hour in (0, 1, 2, 12, 13)] + [(hour, 2) for hour in (3, 12)]
    start = a_stream().first_instant
    rows = [(start + hour * HOUR, person) for hour, person in at]
    table = spark.createDataFrame(rows, "at timestamp, person int")
    totals = {}
    for name, request in (("declared", declared(3)), ("kept", declared(None, capacity=9))):
        use, cells = start_state(request).use, []
        for first in (0, 12):
            counted = count_steps(table, request, first=first, steps=12, use=use, unit_salt=b"a salt of many bytes")
            use = counted.use
            cells.append(counted.cells[:, 0])
        totals[name] = [int(one.sum()) for one in cells]
    assert totals == {"declared": [4, 3], "kept": [4, 1]}


@pytest.mark.parametrize("of", ["float", "double"])
def test_units_whose_text_depends_on_a_version_of_java_are_refused(of: str) -> None:
    types = {"at": "timestamp", "person": of}
    with pytest.raises(InvalidRequest, match=r"unit.column: got 'person'; must not be of type (float|double)"):
        check_columns(declared(None, capacity=9), types)
    check_columns(declared(3), types)


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
    fact = declared(None, table={**plain.table.model_dump(mode="json", exclude_none=True), "units": 7})
    [line] = set(stream_assumptions(bounded)) - set(stream_assumptions(plain))
    assert "No value of person has more than 2 rows in the table, in all its versions together: the" in line
    assert "3 in the whole stream are used" in " ".join(stream_rules(plain))
    assert "3 in the steps that one run releases are used" in " ".join(stream_rules(bounded))
    assert "as its administrator declares" in stream_statement(bounded, "secure")
    assert "declares" not in stream_statement(plain, "secure")
    assert not any("only gains rows" in line for line in stream_assumptions(fact)), "rows may be erased"
    assert any("never has more than 7 values of person" in line for line in stream_assumptions(fact))
