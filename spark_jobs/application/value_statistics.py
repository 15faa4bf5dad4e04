"""Counts of a column of numbers, with Spark: on its public grid, and again on a grid between released bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import ValueCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.statistics import ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Values:
    """Counts the rows of a column by the cells of a public grid; methods are those of a ``CellCounter``."""

    def inputs(self, statistic: ValueCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """The column as doubles."""
        from spark_jobs.contract.columns import value_need
        from spark_jobs.tables.expressions import as_double, read

        return (as_double(read(value_need(statistic.column), scored.schema)),)

    def key(self, statistic: ValueCells, *inputs: Column) -> Column:
        """The cell of a row."""
        from spark_jobs.statistics.spark.values import value_key

        (value,) = inputs
        return value_key(value, self._grid(statistic))

    def size(self, statistic: ValueCells) -> int:
        """The number of cells."""
        return self._grid(statistic).size

    def build(self, statistic: ValueCells, keys: Int64Array, counts: Int64Array) -> ValueCounts:
        """The counts of rows by cell."""
        return ValueCounts.from_keys(keys, counts, grid=self._grid(statistic))

    @staticmethod
    def _grid(statistic: ValueCells) -> ValueGrid:
        return ValueGrid(**statistic.grid)


class SearchedValues(Values):
    """Counts that may be needed again on a released grid, for which the key of a row is its value."""

    def key(self, statistic: ValueCells, *inputs: Column) -> Column:
        """The value of a row that counts."""
        from pyspark.sql import functions as sf

        (value,) = inputs
        return sf.when(~sf.isnan(value), value)

    def cell(self, statistic: ValueCells, key: Column) -> Column:
        """The cell of a row on the public grid, by its key."""
        return super().key(statistic, key)

    def with_rows(self, counts: ValueCounts, rows: DataFrame, name: str) -> ValueCounts:
        """The counts, with a function that counts the rows on another grid, by their values in the column ``name``."""
        from spark_jobs.statistics.spark.values import count_values
        from spark_jobs.tables.contribution import WEIGHT

        def again(grid: ValueGrid) -> Int64Array:
            failpoint("before_pass")
            weight = WEIGHT if WEIGHT in rows.columns else None
            cells = count_values(rows, value=name, grid=grid, weight=weight)
            failpoint("after_pass")
            return ValueCounts.from_keys(*cells, grid=grid).counts

        return replace(counts, finer=again)


SEARCHED = SearchedValues()
