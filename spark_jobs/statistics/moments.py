"""Exact sums of points per group: the sufficient statistics of least-squares lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.arrays import read_only
from spark_jobs.statistics.point_counts import PointCounts
from spark_jobs.statistics.point_grid import DEFAULT_POINT_CELLS, Bound, PointGrid
from spark_jobs.statistics.public_keys import GroupKey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SUMS = ("n", "x", "y", "xx", "xy")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Moments:
    """Exact sums of points per group; private: never released or logged, and ``repr`` omits them.

    Rows are read as by ``PointCounts``. All sums are whole numbers: positions are in half steps of the grid, even
    numbers from 0 to ``2 * (cells - 1)``. Nothing overflows below 2^35 rows.

    Sensitivity: a row that is added or removed changes, in one group, ``n`` by 1, ``x`` and ``y`` by less than
    ``2 * cells``, and ``xx`` and ``xy`` by less than ``4 * cells^2``. Sums of disjoint sets of rows can be added.

    Args:
        n: the number of rows with a point in each group; shape (groups,), like all other arrays.
        x, y: the sums of x and of y over these rows.
        xx, xy: the sums of x * x and of x * y over these rows.
        unusable: the number of rows without a point.
        grid: the box, its cells and the groups.

    Raises:
        InvalidRequest: an array does not consist of one whole number of at least 0 for each group.
    """

    n: Int64Array
    x: Int64Array
    y: Int64Array
    xx: Int64Array
    xy: Int64Array
    unusable: Int64Array
    grid: PointGrid

    def __post_init__(self) -> None:
        for name in (*SUMS, "unusable"):
            array = np.asarray(getattr(self, name))
            if array.shape != (self.grid.groups,) or array.dtype.kind not in "iu" or (array < 0).any():
                raise InvalidRequest(
                    name, None, f"must be {self.grid.groups} whole numbers of at least 0",
                    "build the sums with from_points",
                )  # fmt: skip
            object.__setattr__(self, name, read_only(array))

    @classmethod
    def from_points(cls, points: PointCounts) -> Moments:
        """The exact sums of counted points.

        Example:
            >>> moments = Moments.from_points(PointCounts.from_arrays([0.1, 0.9], [0.1, 0.6], cells=2))
            >>> tuple(int(getattr(moments, name)[0]) for name in ("n", "x", "y", "xx", "xy"))
            (2, 2, 2, 4, 4)
        """
        x, y = 2 * points.x_cell, 2 * points.y_cell
        terms = {"n": np.ones_like(x), "x": x, "y": y, "xx": x * x, "xy": x * y}
        sums = {name: np.zeros(points.grid.groups, dtype=np.int64) for name in SUMS}
        for name, term in terms.items():
            np.add.at(sums[name], points.group, term * points.count)
        return cls(**sums, unusable=points.unusable, grid=points.grid)

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        keys: Iterable[GroupKey] | None = None,
        lower: Bound = 0.0,
        upper: Bound = 1.0,
        cells: int = DEFAULT_POINT_CELLS,
    ) -> Moments:
        """The sums over rows that are given as arrays; arguments and errors as in ``PointCounts.from_arrays``."""
        return cls.from_points(
            PointCounts.from_arrays(x, y, groups=groups, keys=keys, lower=lower, upper=upper, cells=cells)
        )

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        x: str | Column = "x",
        y: str | Column = "y",
        group: str | Column | None = None,
        keys: Iterable[GroupKey] | None = None,
        lower: Bound = 0.0,
        upper: Bound = 1.0,
        cells: int = DEFAULT_POINT_CELLS,
    ) -> Moments:
        """The sums of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Only one row for each group is collected. Arguments and errors as in ``PointCounts.from_dataframe``.
        """
        from spark_jobs.statistics.spark.points import sum_points

        grid = PointGrid.between(lower, upper, cells=cells, keys=keys)
        return cls(**sum_points(df, x=x, y=y, group=group, grid=grid), grid=grid)

    @property
    def keys(self) -> tuple[GroupKey, ...] | None:
        """The public list of groups; None for a single unnamed group."""
        return self.grid.keys

    @property
    def cells(self) -> int:
        """The number of cells of an axis."""
        return self.grid.cells

    @property
    def usable(self) -> Int64Array:
        """The number of rows with a point in each group; private."""
        return self.n

    def with_every_row(self) -> Moments:
        """The sums with every row, where rows without a point are placed in the middle of the box.

        If group sizes are public, every row of a group must count in ``n``: otherwise replacing a row by one without a
        point would change ``n``.
        """
        middle, rows = self.grid.cells - 1, self.unusable
        return Moments(
            n=self.n + rows,
            x=self.x + middle * rows,
            y=self.y + middle * rows,
            xx=self.xx + middle * middle * rows,
            xy=self.xy + middle * middle * rows,
            unusable=np.zeros_like(rows),
            grid=self.grid,
        )

    def __add__(self, other: Moments) -> Moments:
        """The sums of both sets of rows together.

        Raises:
            InvalidRequest: the grids differ.
        """
        if not isinstance(other, Moments):
            return NotImplemented
        if other.grid != self.grid:
            raise InvalidRequest("grid", None, "must be the same for both", "sum both on one grid")
        sums = {name: getattr(self, name) + getattr(other, name) for name in (*SUMS, "unusable")}
        return Moments(**sums, grid=self.grid)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        return self.grid == other.grid and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in (*SUMS, "unusable")
        )

    def __hash__(self) -> int:
        return hash((self.grid, *(getattr(self, name).tobytes() for name in (*SUMS, "unusable"))))

    def __repr__(self) -> str:
        return f"Moments(cells={self.cells}, groups={self.grid.groups})"
