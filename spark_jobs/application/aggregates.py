"""The inputs and sums of tables of aggregates, for the one pass over a table, and of discovered keys, for another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import AggregateCells, Dimension, DiscoverableCells
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.statistics import AggregateSums, SumsByKey, UnitRowCounts
from spark_jobs.statistics.key_batch import KeyBatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class AggregateSummation:
    """Sums rows by cell, and counts values in cells (``sum_statistics.RowSummation``).

    A row has one line at the key of its cell, and, for each measure with quantiles, a line that only counts at the key
    of its value.
    """

    def inputs(self, statistic: AggregateCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """A column for each dimension, and one for each measure."""
        from pyspark.sql import functions as sf

        from spark_jobs.contract.columns import amount_need
        from spark_jobs.tables.expressions import amount_column

        of_dimensions = [_of_dimension(dimension, scored.schema) for dimension in statistic.by]
        measures = [
            # one row of each unit becomes 1 once it is known which rows are used (``with_units``)
            sf.lit(float(request.rows_of_unit == 1))
            if one.counts_units
            else amount_column(amount_need(one.of, "measures"), scored.schema)
            for one in statistic.measures
        ]
        return (*of_dimensions, *measures)

    def row(self, statistic: AggregateCells, *inputs: Column) -> list[Column]:
        """The cell of a row, null for none, and its measures' lattice points, in a column each."""
        from spark_jobs.statistics.spark.aggregates import row_of

        return row_of(inputs, statistic)

    def width(self, statistic: AggregateCells) -> int:
        """One for the cell and one for each measure."""
        return 1 + len(statistic.measures)

    def size(self, statistic: AggregateCells) -> int:
        """The number of keys of cells plus the number of keys of values in them."""
        return statistic.cell_keys + statistic.value_keys

    def places(self, statistic: AggregateCells, row: Sequence[Column]) -> list[Column]:
        """The key of the row's cell, and the key of each of its values whose quantiles are requested."""
        from spark_jobs.statistics.spark.aggregates import keys_of_row

        return keys_of_row(row, statistic)

    def line(self, statistic: AggregateCells, row: Sequence[Column], place: Column) -> list[Column]:
        """The row's numbers that are summed, the same at every place: ``build`` takes the sums of cells alone."""
        from spark_jobs.statistics.spark.aggregates import terms_of_row

        return terms_of_row(row, statistic)

    def aggregates(self, statistic: AggregateCells, row: Sequence[Column], line: Sequence[Column]) -> list[Column]:
        """The sum of each number."""
        from pyspark.sql import functions as sf

        return [sf.sum(number) for number in line]

    def build(
        self, statistic: AggregateCells, places: Int64Array, counts: Int64Array, sums: list[Int64Array]
    ) -> AggregateSums:
        """The statistic with these rows and sums at these keys."""
        from spark_jobs.statistics.spark.aggregates import by_key

        return AggregateSums(design=statistic, **by_key(places, counts, sums, statistic))


class UnitRowCounter:
    """Counts units by how many rows they have (``count_statistics.CellCounter``)."""

    def inputs(self, statistic: UnitRowCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """A column for each dimension, and a 1 per row, which ``unit_rows`` sums to the number of a unit's rows."""
        from pyspark.sql import functions as sf

        of_dimensions = (_of_dimension(dimension, scored.schema) for dimension in statistic.by)
        return (*of_dimensions, sf.lit(1).cast("bigint"))

    def key(self, statistic: UnitRowCells, *inputs: Column) -> Column:
        """The cell of a unit; null for a row that belongs to no unit."""
        from pyspark.sql import functions as sf

        from spark_jobs.statistics.spark.unit_rows import cell_of_rows, has_groups

        *values, rows = inputs
        return sf.when(has_groups(values, statistic), cell_of_rows(rows, statistic))

    def size(self, statistic: UnitRowCells) -> int:
        """The number of cells."""
        return statistic.cells

    def build(self, statistic: UnitRowCells, keys: Int64Array, counts: Int64Array) -> UnitRowCounts:
        """The counts of units by cell."""
        return UnitRowCounts.from_keys(keys, counts, design=statistic)


class KeyDiscovery:
    """Reads rows, and sums of measures, by key when the noise is drawn (``sum_statistics.RowPasses``)."""

    def inputs(self, statistic: DiscoverableCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """The column of keys, and one for each measure."""
        return AggregateSummation().inputs(statistic, scored, request)

    def key(self, statistic: DiscoverableCells, *inputs: Column) -> Column:
        """The key of a row and its measures' lattice points, packed; null for a row without a key."""
        from spark_jobs.statistics.spark.discovered_keys import key_row_of

        return key_row_of(inputs[0], inputs[1:], statistic)

    def later(self, statistic: DiscoverableCells, rows: DataFrame, key: str) -> SumsByKey:
        """The sums by key, to which each unit contributes one row per key."""
        from spark_jobs.statistics.spark.discovered_keys import key_batches, one_row_of_a_unit
        from spark_jobs.tables.contribution import PLACE, UNIT

        def batches() -> Iterator[KeyBatch]:
            failpoint("before_pass")
            kept = one_row_of_a_unit(rows, key, UNIT, PLACE) if PLACE in rows.columns else rows
            yield from key_batches(kept, key, statistic, min_units=statistic.min_units)
            failpoint("after_pass")

        return SumsByKey(design=statistic, batches=batches)


def _of_dimension(dimension: Dimension, schema: StructType) -> Column:
    from spark_jobs.contract.column_types import Kind
    from spark_jobs.contract.columns import dimension_need
    from spark_jobs.statistics.spark.columns import listed_place
    from spark_jobs.statistics.spark.states import microseconds
    from spark_jobs.tables.expressions import amount_column, field_of, quoted, read

    need = dimension_need(dimension)
    if dimension.edges is not None:
        return amount_column(need, schema)
    typed = read(need, schema)
    if dimension.places is not None:
        return listed_place(typed.column, dimension.places, whole=typed.kind is Kind.INTEGER)
    if dimension.keys is not None:
        return typed.column
    from pyspark.sql import functions as sf

    field = field_of(need, schema)
    return microseconds(sf.col(quoted(field.name)), field.dataType)
