"""The one pass of Spark: every statistic of a request, from the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from spark_jobs.application import count_statistics
from spark_jobs.application.count_statistics import count, prepare
from spark_jobs.application.unit_passes import squares_of_units
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.options import GroupedScoreCells, Options, ScoreCells, Statistic
from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.statistics import GroupedScoreCounts, ScoreCounts
from spark_jobs.statistics.unit_squares import OfCells
from tests.application.test_draw import request

pytestmark = pytest.mark.spark


class Remainders(Statistic):
    """A statistic of the tests' own: rows by the remainder of a column's value, negative ones not counted."""

    column: str = "number"
    modulus: int = 3


class RemainderOptions(Options):
    kind: Literal["remainders"]

    @property
    def statistic(self) -> Statistic:
        return Remainders()


class CountingRemainders:
    def inputs(self, statistic: Remainders, scored: Any, request: Any) -> tuple[Any, ...]:
        return (scored[statistic.column],)

    def key(self, statistic: Remainders, number: Any) -> Any:
        from pyspark.sql import functions as sf

        return sf.when(number >= 0, number % statistic.modulus)

    def size(self, statistic: Remainders) -> int:
        return statistic.modulus

    def build(self, statistic: Remainders, keys: Any, counts: Any) -> list[int]:
        return np.bincount(keys, weights=counts, minlength=statistic.modulus).astype(int).tolist()


ROWS = [
    (1, 0.2, 4, "a"),
    (0, 0.7, 5, "b"),
    (None, 0.5, 3, "b"),
    (1, None, -1, "c"),
    (1, 0.9, -7, "c"),
    (0, 0.7, 8, "b"),
]


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("lake") / "table"
    frame = spark.createDataFrame(ROWS, "visited int, score double, number int, person string")
    frame.write.parquet(str(folder / "v1"))
    return spark, folder


def counted(table: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Any:
    spark, folder = table
    monkeypatch.setattr(
        count_statistics, "CELL_COUNTERS", {**count_statistics.CELL_COUNTERS, Remainders: CountingRemainders()}
    )
    source = {"path": str(folder), "snapshot": {"path_version": "v1"}}
    diagnostics = ["roc_curve", RemainderOptions(kind="remainders")]
    asked = request(**{"table": source, "diagnostics": diagnostics, **changes})
    return count(prepare(spark, asked), asked)


def test_each_statistic_is_as_if_it_were_counted_alone(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted(table, monkeypatch)
    assert made[Remainders()] == [1, 1, 2]
    assert made[ScoreCells()] == ScoreCounts.from_arrays([1, 0, 1, 0], [0.2, 0.7, 0.9, 0.7])
    assert counted(table, monkeypatch, diagnostics=["roc_curve"])[ScoreCells()] == made[ScoreCells()]


@pytest.mark.parametrize("row_id", [None, "number"])
def test_a_row_that_counts_nowhere_takes_no_place_of_one_that_does(
    table: Any, monkeypatch: pytest.MonkeyPatch, row_id: str | None
) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    made = counted(table, monkeypatch, unit={"column": "person", "max_rows": 1}, row_id=row_id)
    assert made[ScoreCells()].positives.sum() == 2
    assert made[ScoreCells()].negatives.sum() <= 1
    assert sum(made[Remainders()]) == 2


@pytest.mark.parametrize("row_id", [None, "number"])
def test_squares_are_those_of_the_units_whose_rows_were_counted(
    table: Any, monkeypatch: pytest.MonkeyPatch, row_id: str | None
) -> None:
    """The weight of a cell is the number of a row of the one unit that has a row there: a and b two rows, c one."""
    spark, folder = table
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    asked = request(
        table={"path": str(folder), "snapshot": {"path_version": "v1"}},
        unit={"column": "person", "max_rows": 2},
        row_id=row_id,
    )
    rows = prepare(spark, asked)
    counts = count(rows, asked)[ScoreCells()]
    assert [counts.positives.sum(), counts.negatives.sum()] == [2, 2]
    weights = np.full((2, 2 * counts.cells), UNIT_STEPS)
    weights[1, : counts.cells] = 0  # negatives, the two rows of b
    # a and c have one positive each, b two negatives; the largest is a unit with two rows of the largest weight
    expected = [UNIT_STEPS + 2 * UNIT_STEPS // 4, 2 * UNIT_STEPS // 4]
    assert squares_of_units(rows, asked)(ScoreCells(), OfCells.of_all(weights)).tolist() == expected


def test_squares_are_those_of_units_by_group(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, folder = table
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    asked = request(
        table={"path": str(folder), "snapshot": {"path_version": "v1"}},
        unit={"column": "person", "max_rows": 2},
        diagnostics=[{"kind": "by_group", "group_by": "person", "groups": ["b", "c"], "kinds": ["auc"]}],
    )
    (statistic,) = asked.statistics
    rows = prepare(spark, asked)
    starts = 2 * SCORE_CELLS * np.arange(3)
    weights = OfCells(starts=starts, size=6 * SCORE_CELLS, values=np.array([[UNIT_STEPS, UNIT_STEPS // 2, 0]]))
    # both rows of b in the first group, the one of c in the second, and those of others in the last
    assert squares_of_units(rows, asked)(statistic, weights).tolist() == [UNIT_STEPS + UNIT_STEPS // 16]


@pytest.mark.parametrize("column", ["person", "number"])
def test_scores_are_counted_by_group(table: Any, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    keys: tuple[str | int, ...] = ("b", "a") if column == "person" else (8, 4)
    entry = {"kind": "by_group", "group_by": column, "groups": keys, "kinds": ["auc"]}
    made = counted(table, monkeypatch, diagnostics=[entry, "roc_curve"])
    groups = [row[3 if column == "person" else 2] for row in ROWS]
    expected = GroupedScoreCounts.from_arrays(*([row[i] for row in ROWS] for i in (0, 1)), groups, keys=keys)
    assert made[GroupedScoreCells(group_by=column, groups=keys)] == expected
    assert sum(expected.groups[1:], expected.groups[0]) == made[ScoreCells()]
