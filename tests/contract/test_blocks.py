from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import (
    MAX_BLOCKS,
    MAX_CONSECUTIVE,
    BlockBy,
    BlockExpression,
    expand_ranges,
)
from spark_jobs.contract.expressions.filters import check_filter

UTC = dt.UTC


@pytest.mark.parametrize(
    ("text", "by", "column", "values"),
    [
        ("day(visited_at)", "day", "visited_at", None),
        (" hour ( a column ) ", "hour", "a column", None),
        ("value(region)", "value", "region", None),
        ("value(region: north, south)", "value", "region", ("north", "south")),
    ],
)
def test_expression_is_read_from_text_and_written_back(text: str, by: str, column: str, values: object) -> None:
    expression = BlockExpression.parse(text)
    assert (expression.by.value, expression.column, expression.values) == (by, column, values)
    assert BlockExpression.parse(str(expression)) == expression
    assert BlockExpression.parse(expression.model_dump(mode="json")) == expression


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day", "must have a form such as 'day(visited_at)'"),
        ("day()", "must have a form such as"),
        ("week(d)", "name one of value, year, month, day, hour and a column"),
        ("day(d: 1, 2)", "are allowed only in an expression by value"),
        ("value(r: a, a)", "must be distinct"),
        ("value(r: a, )", "values"),
    ],
)
def test_other_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        BlockExpression.parse(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("day(d)", "2026-11-31"),
        ("day(d)", "2026-1-1"),
        ("day(d)", "2026-11"),
        ("day(d)", "2026-11-21 "),
        ("day(d)", "1-01-01"),
        ("day(d)", "all"),
        ("month(d)", "2026-13"),
        ("hour(d)", "2026-11-21T24"),
        ("year(d)", "9999"),
        ("value(r: a, b)", "c"),
    ],
)
def test_only_values_of_the_expression_are_blocks(expression: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match="blocks: got "):
        BlockExpression.parse(expression).require([name])
    with pytest.raises(InvalidRequest, match="blocks: got "):
        BlockExpression.parse(expression).predicate([name])


def test_too_many_blocks_are_refused() -> None:
    expression = BlockExpression.parse("value(r)")
    with pytest.raises(InvalidRequest, match=f"must be at most {MAX_BLOCKS} in one release"):
        expression.require(str(number) for number in range(MAX_BLOCKS + 1))


intervals = st.tuples(st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2100, 1, 1)), st.integers(1, 30))


@given(st.sampled_from([by for by in BlockBy if by is not BlockBy.VALUE]), intervals)
def test_blocks_cover_an_interval_once_and_their_predicate_is_the_interval(by: BlockBy, interval: tuple) -> None:
    """Whichever interval of whole blocks: as many blocks as it is long, and one range of moments, its own."""
    expression = BlockExpression(by=by, column="at")
    start = {
        BlockBy.HOUR: lambda at: at.replace(minute=0, second=0, microsecond=0),
        BlockBy.DAY: lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0),
        BlockBy.MONTH: lambda at: dt.datetime(at.year, at.month, 1),
        BlockBy.YEAR: lambda at: dt.datetime(at.year, 1, 1),
    }[by](interval[0])
    months = {BlockBy.MONTH: interval[1], BlockBy.YEAR: 12 * interval[1]}.get(by)
    if months is None:
        end = start + interval[1] * dt.timedelta(**{f"{by.value}s": 1})
    else:
        end = dt.datetime(start.year + (start.month - 1 + months) // 12, (start.month - 1 + months) % 12 + 1, 1)
    names = expression.covering(start.replace(tzinfo=UTC), end.replace(tzinfo=UTC))
    assert len(set(names)) == len(names) == interval[1]
    assert expression.predicate(reversed(names)) == (
        f"((CAST(`at` AS TIMESTAMP) >= TIMESTAMP '{start}' AND CAST(`at` AS TIMESTAMP) < TIMESTAMP '{end}'))"
    )


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (dt.datetime(2026, 11, 21, tzinfo=UTC), dt.datetime(2026, 11, 21, tzinfo=UTC), "that is not empty"),
        (dt.datetime(2026, 11, 22, tzinfo=UTC), dt.datetime(2026, 11, 21, tzinfo=UTC), "that is not empty"),
        (dt.datetime(2026, 11, 21), dt.datetime(2026, 11, 22), "has a time zone"),
        (dt.datetime(2026, 11, 21, 1, tzinfo=UTC), dt.datetime(2026, 11, 22, 1, tzinfo=UTC), "must consist of whole"),
        (dt.datetime(2026, 11, 21, tzinfo=UTC), dt.datetime(2026, 11, 22, 1, tzinfo=UTC), "must consist of whole"),
        (
            dt.datetime(1990, 1, 1, tzinfo=UTC),
            dt.datetime(2026, 1, 1, tzinfo=UTC),
            f"at most {MAX_CONSECUTIVE} of them",
        ),
    ],
)
def test_interval_that_is_not_of_whole_blocks_is_refused(start: dt.datetime, end: dt.datetime, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        BlockExpression.parse("day(d)").covering(start, end)
    assert message in str(refused.value)


def test_interval_is_taken_in_utc() -> None:
    zone = dt.timezone(dt.timedelta(hours=2))
    start = dt.datetime(2026, 11, 21, 2, tzinfo=zone)
    assert BlockExpression.parse("day(d)").covering(start, start + dt.timedelta(days=1)) == ("2026-11-21",)


def test_values_have_no_intervals() -> None:
    with pytest.raises(
        InvalidRequest, match="must be blocks by time, because a data interval is given; name the blocks that are read"
    ):
        BlockExpression.parse("value(r)").covering(
            dt.datetime(2026, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 2, tzinfo=UTC)
        )


@given(st.lists(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=20), min_size=1, max_size=5))
def test_any_value_makes_a_predicate_of_the_allow_list(values: list[str]) -> None:
    """No value ends its literal early; what is read back is the value."""
    from spark_jobs.contract.expressions.parser import parse

    predicate = BlockExpression(by=BlockBy.VALUE, column="the `odd` column").predicate(values)
    check_filter(predicate)
    parsed = parse(predicate)
    assert {literal.value for literal in parsed.values} == set(values)  # type: ignore[union-attr]
    assert parsed.part.part.name == "the `odd` column"  # type: ignore[union-attr]


def test_more_blocks_are_named_where_each_follows_the_one_before() -> None:
    daily = BlockExpression.parse("day(at)")
    years = daily.covering(dt.datetime(2016, 1, 1, tzinfo=UTC), dt.datetime(2026, 1, 1, tzinfo=UTC))
    assert len(years) == 3653
    daily.require(years)
    assert daily.predicate(years).count("TIMESTAMP '") == 2
    with pytest.raises(InvalidRequest, match=f"must be at most {MAX_BLOCKS} in one release"):
        daily.require(years[::2])


RANGES = {
    BlockBy.YEAR: (["2024", "2025", "2026"], "2024..2026"),
    BlockBy.MONTH: (["2025-11", "2025-12", "2026-01"], "2025-11..2026-01"),
    BlockBy.DAY: (["2024-02-28", "2024-02-29", "2024-03-01"], "2024-02-28..2024-03-01"),
    BlockBy.HOUR: (["2025-12-31T22", "2025-12-31T23", "2026-01-01T00"], "2025-12-31T22..2026-01-01T00"),
}


@pytest.mark.parametrize("by", RANGES)
def test_range_is_its_blocks_and_they_are_written_as_one(by: BlockBy) -> None:
    names, written = RANGES[by]
    expression = BlockExpression.parse(f"{by}(at)")
    assert expand_ranges([written]) == expression.expand([written]) == tuple(names)
    assert expression.compact(reversed(names)) == (written,)
    assert expression.compact([names[0], names[2]]) == (names[0], names[2])
    assert expression.compact(names[:2]) == tuple(names[:2])


@settings(max_examples=50)
@given(st.sets(st.integers(0, 90), min_size=1))
def test_days_are_written_in_one_form_that_is_read_back(days: set[int]) -> None:
    daily = BlockExpression.parse("day(at)")
    names = tuple((dt.date(2024, 1, 31) + dt.timedelta(days=day)).isoformat() for day in sorted(days))
    written = daily.compact(names)
    assert daily.expand(written) == names
    assert daily.compact(daily.expand(written)) == written


@pytest.mark.parametrize(
    "written",
    ["2026-03..2026-01", "2026-01-01..2026-02-30", "2026-01..2026-02-01", "2026..2027..2028", "..2026", "1800..1900"],
)
def test_what_is_no_range_names_no_blocks(written: str) -> None:
    by = {4: "year", 7: "month", 10: "day"}.get(len(written.partition("..")[0]), "year")
    with pytest.raises(InvalidRequest, match="must be"):
        BlockExpression.parse(f"{by}(at)").require(expand_ranges([written]))


def test_range_of_too_many_is_refused_before_it_is_made() -> None:
    for ranges in (["1900-01-01T00..9998-12-31T23"], ["1990-01-01..2009-12-31", "2010-01-01..2029-12-31"]):
        with pytest.raises(InvalidRequest, match=f"at most {MAX_CONSECUTIVE} in all"):
            expand_ranges(ranges)


def test_value_is_never_a_range() -> None:
    years = BlockExpression.parse("value(year)")
    assert years.compact(["2024", "2025", "2026"]) == ("2024", "2025", "2026")
    assert years.expand(["2024..2026"]) == ("2024..2026",)
    with pytest.raises(InvalidRequest, match="must not have the form of a range of times"):
        BlockExpression.parse("value(years: 2024..2026)")
