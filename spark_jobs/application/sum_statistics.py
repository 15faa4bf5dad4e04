"""Statistics that are sums over rows, with Spark: each row is a short vector of whole numbers, or a packed key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.application.points import PointInputs, point_grid
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import CrossProductCells, LabelledRowCells, PointSums, Statistic
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.statistics import CrossProducts, LabelledRows, Moments
from spark_jobs.statistics.labelled_rows import NewtonSums

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class RowSummation(Protocol):
    """Sums one type of statistic: the inputs of a row, the row's vector, and the statistic of all rows."""

    def inputs(self, statistic: Any, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """Columns that are read of the table with its scores; each is evaluated once per row."""
        ...

    def key(self, statistic: Any, *inputs: Column) -> Column:
        """A column that holds each row's vector, or its packed key; null for a row that does not count."""
        ...

    def sums(self, statistic: Any, rows: DataFrame, key: str) -> Any:
        """The statistic of the rows whose vectors are in the column ``key``.

        In one pass; ``LabelledRows`` makes a pass later, for each of its sums, while the session is open.
        """
        ...


class _Products:
    def inputs(
        self, statistic: CrossProductCells | LabelledRowCells, scored: DataFrame, request: ReleaseRequest
    ) -> tuple[Column, ...]:
        return tuple(self._inputs(statistic, scored, request))

    def _inputs(
        self, statistic: CrossProductCells | LabelledRowCells, scored: DataFrame, request: ReleaseRequest
    ) -> Iterator[Column]:
        from spark_jobs.contract.columns import amount_need, levels_need
        from spark_jobs.tables.expressions import amount_column
        from spark_jobs.tables.scoring import label_column, level_number

        schema = scored.schema
        for feature in statistic.features:
            yield amount_column(amount_need(feature.name, "features"), schema)
        for variable in statistic.categorical:
            yield level_number(levels_need(variable.column), variable.levels, schema)
        if isinstance(statistic, CrossProductCells):
            yield amount_column(amount_need(statistic.outcome.name, "outcome"), schema)
        else:
            yield label_column(request.needed_label, schema)

    def key(self, statistic: CrossProductCells | LabelledRowCells, *inputs: Column) -> Column:
        from spark_jobs.statistics.spark.cross_products import levels, number, row_of, sign

        numbers, places = inputs[: len(statistic.features)], inputs[len(statistic.features) : -1]
        terms = [number(value, feature) for value, feature in zip(numbers, statistic.features, strict=True)]
        for place, variable in zip(places, statistic.categorical, strict=True):
            terms += levels(place, len(variable.levels))
        outcome = inputs[-1]
        terms.append(number(outcome, statistic.outcome) if isinstance(statistic, CrossProductCells) else sign(outcome))
        return row_of(terms)

    def sums(self, statistic: Any, rows: DataFrame, key: str) -> Any:
        from spark_jobs.statistics.spark.cross_products import sums_of_rows

        return CrossProducts(design=statistic, products=sums_of_rows(rows, key, statistic))


class _LabelledRows(_Products):
    def sums(self, statistic: LabelledRowCells, rows: DataFrame, key: str) -> LabelledRows:
        from spark_jobs.statistics.spark.labelled_rows import newton_sums

        def sums_at(position: Int64Array) -> NewtonSums:
            failpoint("before_pass")
            sums = NewtonSums(**newton_sums(rows, key, position))
            failpoint("after_pass")
            return sums

        return LabelledRows(design=statistic, sums_at=sums_at)


class _PointSums(PointInputs):
    def sums(self, statistic: PointSums, rows: DataFrame, key: str) -> Moments:
        from spark_jobs.statistics.spark.points import sums_of_keys

        grid = point_grid(statistic)
        return Moments(**sums_of_keys(rows, key, grid), grid=grid)


ROW_SUMMATIONS: Mapping[type[Statistic], RowSummation] = {
    CrossProductCells: _Products(),
    LabelledRowCells: _LabelledRows(),
    PointSums: _PointSums(),
}
"""The summation of each type of statistic that is not counted in cells."""
