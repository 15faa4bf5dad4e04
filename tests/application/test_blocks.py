"""The application counts the rows of the charged blocks and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import ScoreCells
from spark_jobs.wording.rules import rules
from tests.application.test_draw import request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS = {"2026-11-20": 3, "2026-11-21": 5, "2026-11-22": 7}


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Some rows of each day, and two of no day."""
    path = tmp_path_factory.mktemp("visits")
    rows = [f"(0, 0.5D, timestamp '{day} 12:00:00')" for day, many in DAYS.items() for _ in range(many)]
    rows += ["(1, 0.5D, null)"] * 2
    listed = spark.sql(f"select * from values {', '.join(rows)} as t(visited, score, at)")
    listed.write.parquet(str(path / "v1"))
    return {"path": str(path), "snapshot": {"path_version": "v1"}}


def counted(spark: SparkSession, table: dict[str, Any], **changes: Any) -> int:
    asked = request(table=table, block_expression="day(at)", **changes)
    statistic = count(prepare(spark, asked), asked)[ScoreCells()]
    return int(statistic.positives.sum() + statistic.negatives.sum())


@pytest.mark.parametrize(
    "blocks", [["2026-11-20"], ["2026-11-21", "2026-11-22"], ["2026-11-20", "2026-11-22"], ["2026-11-23"]]
)
@pytest.mark.sampled
def test_only_rows_of_the_charged_blocks_are_counted(
    spark: SparkSession, table: dict[str, Any], blocks: list[str]
) -> None:
    assert counted(spark, table, blocks=blocks) == sum(DAYS.get(block, 0) for block in blocks)


def test_all_is_every_row_and_a_filter_comes_on_top(spark: SparkSession, table: dict[str, Any]) -> None:
    assert counted(spark, table) == sum(DAYS.values()) + 2
    assert counted(spark, table, blocks=["2026-11-21"], where="visited = 1") == 0


def test_blocks_that_nothing_explains_are_refused_and_rules_name_those_that_are_read(
    spark: SparkSession, table: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match="block_expression: is required if blocks are named"):
        prepare(spark, request(table=table, blocks=["2026-11-21"]))
    told = rules(request(table=table, blocks=["2026-11-21"], block_expression="day(at)"))
    assert any("in the charged blocks 2026-11-21 of day(at), in UTC" in line for line in told)
