"""Rows lie in the blocks that Spark says and that Python says, and never in two."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from spark_jobs.contract.expressions.blocks import BlockExpression
from spark_jobs.tables.expressions import filter_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EDGES = [
    dt.datetime(2026, 11, 20, 23, 59, 59, 999999),
    dt.datetime(2026, 11, 21),
    dt.datetime(2026, 11, 21, 0, 59, 59, 999999),
    dt.datetime(2026, 11, 21, 23, 59, 59, 999999),
    dt.datetime(2026, 11, 22),
    dt.datetime(2026, 12, 1),
    dt.datetime(2027, 1, 1),
]
FORMATS = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}


@pytest.fixture(scope="module")
def visits(spark: SparkSession) -> DataFrame:
    rows = [
        (number, at.isoformat(" "), region) for number, (at, region) in enumerate(zip(EDGES, "ababcab", strict=True))
    ]
    listed = ", ".join(f"({n}, timestamp '{at}', date '{at[:10]}', '{region}', {n % 3})" for n, at, region in rows)
    return spark.sql(
        f"select * from values {listed}, (7, null, null, null, null) as t(n, at, day, region, code)"
    ).cache()


def rows_of(visits: DataFrame, expression: BlockExpression, *blocks: str) -> set[int]:
    kept = visits.where(filter_column(expression.predicate(blocks), visits.schema))
    return {row.n for row in kept.select("n").collect()}


@pytest.mark.parametrize("by", list(FORMATS))
def test_each_moment_lies_in_one_block_by_time(visits: DataFrame, by: str) -> None:
    expression = BlockExpression.parse(f"{by}(at)")
    names = {at.strftime(FORMATS[by]) for at in EDGES}
    found = {name: rows_of(visits, expression, name) for name in names}
    assert found == {
        name: {number for number, at in enumerate(EDGES) if at.strftime(FORMATS[by]) == name} for name in names
    }
    assert rows_of(visits, expression, *names) == set(range(len(EDGES))), "a row without a moment lies in none"


def test_dates_lie_in_the_block_of_their_first_moment(visits: DataFrame) -> None:
    assert rows_of(visits, BlockExpression.parse("day(day)"), "2026-11-21") == {1, 2, 3}
    assert rows_of(visits, BlockExpression.parse("month(day)"), "2026-11", "2027-01") == {0, 1, 2, 3, 4, 6}


@pytest.mark.parametrize(
    ("column", "block", "rows"), [("region", "a", {0, 2, 5}), ("code", "1", {1, 4}), ("n", "3", {3})]
)
def test_values_are_compared_as_they_are_written(visits: DataFrame, column: str, block: str, rows: set[int]) -> None:
    assert rows_of(visits, BlockExpression.parse(f"value({column})"), block) == rows


def test_value_that_looks_like_sql_is_a_value(visits: DataFrame) -> None:
    assert rows_of(visits, BlockExpression.parse("value(region)"), "x') OR (1 = 1", "a\\' OR 1=1 --") == set()
