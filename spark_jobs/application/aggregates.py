"""The inputs and sums of tables of aggregates, for the one pass over a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import AggregateCells, Dimension
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics import AggregateSums

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


class AggregateSummation:
    """Sums rows by cell; a row has one line, in its cell (``sum_statistics.RowSummation``)."""

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

    def key(self, statistic: AggregateCells, *inputs: Column) -> Column:
        """The cell of a row with its places on lattices; null for a row in no cell."""
        from spark_jobs.statistics.spark.aggregates import row_of

        return row_of(inputs, statistic)

    def size(self, statistic: AggregateCells) -> int:
        """The number of cells."""
        return statistic.cells

    def places(self, statistic: AggregateCells, key: Column) -> list[Column]:
        """The row's cell."""
        from spark_jobs.statistics.spark.aggregates import cell_of

        return [cell_of(key)]

    def line(self, statistic: AggregateCells, key: Column, place: Column) -> Column:
        """The row as ``key`` has it."""
        from pyspark.sql import functions as sf

        return sf.when(place.isNotNull(), key)

    def aggregates(self, statistic: AggregateCells, key: Column, line: Column) -> list[Column]:
        """Rows, complete rows, and sums of places."""
        from spark_jobs.statistics.spark.aggregates import cell_sums

        return cell_sums(line, statistic)

    def build(self, statistic: AggregateCells, places: Int64Array, sums: list[Int64Array]) -> AggregateSums:
        """The statistic with these sums in these cells."""
        from spark_jobs.statistics.spark.aggregates import by_cell

        return AggregateSums(design=statistic, **by_cell(places, sums, statistic))


def _of_dimension(dimension: Dimension, schema: StructType) -> Column:
    from spark_jobs.contract.columns import dimension_need
    from spark_jobs.statistics.spark.states import microseconds
    from spark_jobs.tables.expressions import amount_column, field_of, quoted, read

    need = dimension_need(dimension)
    if dimension.edges is not None:
        return amount_column(need, schema)
    typed = read(need, schema)
    if dimension.values is not None:
        return typed.column
    from pyspark.sql import functions as sf

    field = field_of(need, schema)
    return microseconds(sf.col(quoted(field.name)), field.dataType)
