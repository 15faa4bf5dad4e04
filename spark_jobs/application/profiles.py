"""The inputs and counts of a profile, for the one pass over a table (``count_statistics.CellCounter``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.profile import ProfileCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics import ProfileCounts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ProfileCounter:
    """Counts the rows by the cells of a column, or of two; methods are those of a ``CellCounter``."""

    def inputs(self, statistic: ProfileCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """For each column, its value, and whether it holds a text that is not a value of its type."""
        from pyspark.sql import functions as sf

        from spark_jobs.contract.columns import profile_need
        from spark_jobs.statistics.spark.states import microseconds
        from spark_jobs.tables.expressions import as_double, field_of, quoted, read
        from spark_jobs.tables.texts import UNPARSED

        texts = scored.schema[UNPARSED].dataType.fieldNames() if UNPARSED in scored.columns else ()  # type: ignore[attr-defined]
        columns = []
        for column in statistic.columns:
            need = profile_need(column)
            field, typed = field_of(need, scored.schema), read(need, scored.schema)
            if column.start is not None:
                value = microseconds(sf.col(quoted(field.name)), field.dataType)
            else:
                value = typed.column if column.values is not None else as_double(typed)
            unparsed = sf.col(UNPARSED).getField(field.name) if field.name in texts else sf.lit(False)
            columns += [value, sf.coalesce(unparsed, sf.lit(False))]
        return tuple(columns)

    def key(self, statistic: ProfileCells, *inputs: Column) -> Column:
        """The cell of a row."""
        from spark_jobs.statistics.spark.profiles import profile_key

        return profile_key(list(zip(inputs[::2], inputs[1::2], strict=True)), statistic)

    def size(self, statistic: ProfileCells) -> int:
        """The number of cells."""
        return statistic.max_keys

    def build(self, statistic: ProfileCells, keys: Int64Array, counts: Int64Array) -> ProfileCounts:
        """The counts of rows by cell."""
        return ProfileCounts.from_keys(keys, counts, design=statistic)
