"""The two values and the group of a row, as a packed key of its group and cell; for counts and for sums of points."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from spark_jobs.contract.options import PointCells, PointSums
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics.point_grid import PointGrid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PointStatistic = PointCells | PointSums


class PointInputs:
    """Reads the two values and the group of a row, and packs them into a key (``PointCounts.from_keys``)."""

    def inputs(self, statistic: PointStatistic, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        """Columns that are read of the table: x, y, and the group if the request has groups."""
        from spark_jobs.contract.columns import amount_need, group_need
        from spark_jobs.tables.expressions import amount_column, read

        point = tuple(amount_column(amount_need(getattr(statistic, axis), axis), scored.schema) for axis in "xy")
        if statistic.group_by is None:
            return point
        return (*point, read(group_need(statistic.group_by), scored.schema).column)

    def key(self, statistic: PointStatistic, *inputs: Column) -> Column:
        """The packed key of a row, or null for a row of a group that is not listed."""
        from spark_jobs.statistics.spark.points import point_key

        x, y, *group = inputs
        return point_key(x, y, group[0] if group else None, point_grid(statistic))


@lru_cache(maxsize=8)
def point_grid(statistic: PointStatistic) -> PointGrid:
    """The public grid on which points are counted; the same for every group."""
    (x_lower, x_upper), (y_lower, y_upper) = statistic.x_bounds, statistic.y_bounds
    return PointGrid.between((x_lower, y_lower), (x_upper, y_upper), cells=statistic.cells, keys=statistic.groups)
