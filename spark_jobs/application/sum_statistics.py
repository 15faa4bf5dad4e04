"""Statistics that are sums over rows, computed with Spark.

A row of the table adds a few *lines* of numbers, each at one *place* of the statistic: its group, or a row of a matrix.
The result has one row for each place, with the sums of all lines at this place. So one pass of Spark can add up several
such statistics, together with the counts of other statistics. In the prepared table, a column for each statistic holds
what a row adds: a short vector of whole numbers, or a packed key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from spark_jobs.application.aggregates import AggregateSummation, KeyDiscovery
from spark_jobs.application.points import PointInputs, point_grid
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import (
    AggregateCells,
    CrossProductCells,
    DiscoverableCells,
    LabelledRowCells,
    PointSums,
    Statistic,
)
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.statistics import CrossProducts, LabelledRows, Moments
from spark_jobs.statistics.labelled_rows import NewtonSums

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class RowSummation(Protocol):
    """Sums one type of statistic over rows; a place of its result is a group, or a row of a matrix.

    Every row of the table adds a line of numbers at each of its places.
    """

    def inputs(self, statistic: Any, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """Columns that are read of the table with its scores; each is evaluated once per row."""
        ...

    def row(self, statistic: Any, *inputs: Column) -> list[Column]:
        """Columns that hold each row's vector or packed key; the first is null for a row that does not count."""
        ...

    def width(self, statistic: Any) -> int:
        """The number of these columns; where there are several, they are bigints."""
        ...

    def size(self, statistic: Any) -> int:
        """The number of places."""
        ...

    def places(self, statistic: Any, row: Sequence[Column]) -> list[Column]:
        """The places at which a row adds its lines, from 0 to ``size - 1``; null for a line that does not count."""
        ...

    def line(self, statistic: Any, row: Sequence[Column], place: Column) -> list[Column]:
        """The numbers that a row adds at a place; null if ``place`` is null, unless ``build`` passes over others."""
        ...

    def aggregates(self, statistic: Any, row: Sequence[Column], line: Sequence[Column]) -> list[Column]:
        """Counts and sums over lines, of bigint columns; lines that are null change none of them."""
        ...

    def build(self, statistic: Any, places: Int64Array, counts: Int64Array, sums: list[Int64Array]) -> Any:
        """The statistic with these numbers of lines and these sums at these places, and 0 at others."""
        ...


class RowPasses(Protocol):
    """Sums one type of statistic while its noise is drawn: in a pass per set of released coefficients, or by key."""

    def inputs(self, statistic: Any, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """As in ``RowSummation``."""
        ...

    def key(self, statistic: Any, *inputs: Column) -> Column:
        """A column that holds each row's vector, or its key; null for a row that does not count."""
        ...

    def later(self, statistic: Any, rows: DataFrame, key: str) -> Any:
        """The statistic of the rows whose vectors are in the column ``key``, read while the session is open."""
        ...


class _Vectors:
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


class _Products(_Vectors):
    def row(self, statistic: CrossProductCells, *inputs: Column) -> list[Column]:
        return [self.key(statistic, *inputs)]

    def width(self, statistic: CrossProductCells) -> int:
        return 1

    def size(self, statistic: CrossProductCells) -> int:
        return statistic.terms

    def places(self, statistic: CrossProductCells, row: Sequence[Column]) -> list[Column]:
        from pyspark.sql import functions as sf

        return [sf.when(row[0].isNotNull(), sf.lit(place)) for place in range(statistic.terms)]

    def line(self, statistic: CrossProductCells, row: Sequence[Column], place: Column) -> list[Column]:
        from pyspark.sql import functions as sf

        return [sf.get(row[0], place.cast("int"))]

    def aggregates(self, statistic: CrossProductCells, row: Sequence[Column], line: Sequence[Column]) -> list[Column]:
        from spark_jobs.statistics.spark.cross_products import products_of_line

        return products_of_line(line[0], row[0], statistic.terms)

    def build(
        self, statistic: CrossProductCells, places: Int64Array, counts: Int64Array, sums: list[Int64Array]
    ) -> CrossProducts:
        from spark_jobs.statistics.spark.cross_products import matrix_of_sums

        return CrossProducts(design=statistic, products=matrix_of_sums(places, sums))


class _LabelledRows(_Vectors):
    def later(self, statistic: LabelledRowCells, rows: DataFrame, key: str) -> LabelledRows:
        from spark_jobs.statistics.spark.labelled_rows import newton_sums

        def sums_at(position: Int64Array) -> NewtonSums:
            failpoint("before_pass")
            sums = NewtonSums(**newton_sums(rows, key, position))
            failpoint("after_pass")
            return sums

        return LabelledRows(design=statistic, sums_at=sums_at)


class _PointSums(PointInputs):
    def row(self, statistic: PointSums, *inputs: Column) -> list[Column]:
        return [self.key(statistic, *inputs)]

    def width(self, statistic: PointSums) -> int:
        return 1

    def size(self, statistic: PointSums) -> int:
        return statistic.lines

    def places(self, statistic: PointSums, row: Sequence[Column]) -> list[Column]:
        from spark_jobs.statistics.spark.points import group_of

        return [group_of(row[0], point_grid(statistic))]

    def line(self, statistic: PointSums, row: Sequence[Column], place: Column) -> list[Column]:
        from pyspark.sql import functions as sf

        return [sf.when(place.isNotNull(), row[0] % point_grid(statistic).stride)]

    def aggregates(self, statistic: PointSums, row: Sequence[Column], line: Sequence[Column]) -> list[Column]:
        from spark_jobs.statistics.spark.points import group_sums

        return group_sums(line[0], point_grid(statistic))

    def build(self, statistic: PointSums, places: Int64Array, counts: Int64Array, sums: list[Int64Array]) -> Moments:
        from spark_jobs.statistics.spark.points import by_group

        grid = point_grid(statistic)
        return Moments(**by_group(places, sums, grid), grid=grid)


ROW_SUMMATIONS: Mapping[type[Statistic], RowSummation] = {
    AggregateCells: AggregateSummation(),
    CrossProductCells: _Products(),
    PointSums: _PointSums(),
}
"""The summation of each type of statistic that is summed in the one pass."""
ROW_PASSES: Mapping[type[Statistic], RowPasses] = {
    DiscoverableCells: KeyDiscovery(),
    LabelledRowCells: _LabelledRows(),
}
"""That of each type of statistic whose passes depend on released coefficients, or whose keys are read as they are
noised."""
