"""Counts per group and cell of a box: the statistic of lines through points."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.arrays import DisjointCounts, as_doubles, read_only
from spark_jobs.statistics.point_grid import DEFAULT_POINT_CELLS, Bound, PointGrid
from spark_jobs.statistics.public_keys import GroupKey, row_places

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PointCounts(DisjointCounts):
    """Exact counts of points per group and cell; private: never released or logged, and ``repr`` omits them.

    Each row is read by a public rule. A row whose group is null or not among the public keys is not counted. In other
    rows, x and y are read as doubles. If one of them is null or NaN, the row counts as a member of its group without a
    point (``unusable``); values beyond the bounds, including infinite ones, count at the nearer bound. A cell contains
    the points that are nearest to one place of the lattice, and all of them count as points at this place
    (``PointGrid``). No value in the data raises errors.

    Sensitivity: a row is counted in one cell of one group, or as one unusable row, or not at all, so that under
    ``Neighbours.ADD_REMOVE`` one row changes one number by 1 and under ``Neighbours.REPLACE_ONE`` at most two numbers
    by 1 each. Counts of disjoint sets of rows can be added: ``whole == part + other_part``.

    Args:
        group: for each cell that has points, the index of its group in the grid's list; shape (k,).
        x_cell, y_cell: the indices of these cells.
        count: the number of points in each of them, at least 1. The four arrays are sorted by group, x and y, without
            repetition.
        unusable: the number of rows without a point in each group; shape (groups,).
        grid: the box, its cells and the groups.

    Raises:
        InvalidRequest: the arrays are not as described.
    """

    group: Int64Array
    x_cell: Int64Array
    y_cell: Int64Array
    count: Int64Array
    unusable: Int64Array
    grid: PointGrid

    def __post_init__(self) -> None:
        for name in ("group", "x_cell", "y_cell", "count", "unusable"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 0).any():
                raise _misshapen(name)
            object.__setattr__(self, name, read_only(array))
        sizes = {array.size for array in (self.group, self.x_cell, self.y_cell, self.count)}
        if len(sizes) > 1 or self.unusable.size != self.grid.groups:
            raise _misshapen("group")
        beyond = (self.x_cell >= self.grid.cells) | (self.y_cell >= self.grid.cells) | (self.group >= self.grid.groups)
        if beyond.any() or (self.count < 1).any() or (np.diff(self._packed()) <= 0).any():
            raise _misshapen("group")

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
    ) -> PointCounts:
        """The counts of rows that are given as arrays of equal length.

        Args:
            x: numbers, booleans, or objects that may be None.
            y: likewise.
            groups: the group of each row, a text or whole number; None for a single group.
            keys: the public list of groups; required with ``groups``, and never derived from them.
            lower: the public lower bounds: one for both axes, or a pair (x, y).
            upper: the public upper bounds, likewise.
            cells: the number of cells of each axis, a power of two from 2 to 8,192.

        Example:
            >>> points = PointCounts.from_arrays([0.1, 0.9, 7.0, None], [0.2, 0.8, 0.8, 0.5], cells=4)
            >>> points.x_cell.tolist(), points.y_cell.tolist(), points.count.tolist(), points.unusable.tolist()
            ([0, 3], [1, 2], [1, 2], [1])

        Raises:
            InvalidRequest: the grid is invalid (``PointGrid``), or the arrays are not columns of equal length.
        """
        grid = PointGrid.between(lower, upper, cells=cells, keys=keys)
        columns = as_doubles(x, what="x"), as_doubles(y, what="y")
        place = _places(groups, grid, rows=columns[0].size)
        if not columns[0].size == columns[1].size == place.size:
            raise InvalidRequest("y", None, "must have as many values as x and groups", "give one of each per row")
        known = place >= 0
        x_value, y_value, place = columns[0][known], columns[1][known], place[known]
        usable = ~(np.isnan(x_value) | np.isnan(y_value))
        packed = np.full(place.size, grid.stride - 1)
        packed[usable] = grid.places_of(x_value[usable], grid.x) * grid.cells + grid.places_of(y_value[usable], grid.y)
        packed_keys, counts = np.unique(place * grid.stride + packed, return_counts=True)
        return cls.from_keys(packed_keys, counts, grid=grid)

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
    ) -> PointCounts:
        """The counts of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        The number of collected rows is that of the distinct pairs of group and cell, so at most the number of rows.

        Args:
            df: the table.
            x: a column, or its name; boolean or numeric.
            y: likewise.
            group: a column of texts or whole numbers, or its name; None for a single group.
            keys: as in ``from_arrays``.
            lower: as in ``from_arrays``.
            upper: as in ``from_arrays``.
            cells: as in ``from_arrays``.

        Raises:
            InvalidRequest: the grid is invalid, or a column is missing or has another type.
        """
        from spark_jobs.statistics.spark.points import count_points

        grid = PointGrid.between(lower, upper, cells=cells, keys=keys)
        return cls.from_keys(*count_points(df, x=x, y=y, group=group, grid=grid), grid=grid)

    @classmethod
    def from_keys(cls, keys: ArrayLike, counts: ArrayLike, *, grid: PointGrid) -> PointCounts:
        """The counts from packed keys ``group * stride + x_cell * cells + y_cell`` and the number of rows of each key.

        The last key of a group, ``group * stride + cells^2``, stands for its rows without a point. Absent keys count 0.

        Raises:
            ValueError: a key is outside ``[0, grid.size)``, so that the keys belong to another grid.
        """
        packed, place = np.unique(np.asarray(keys, dtype=np.int64), return_inverse=True)
        if packed.size and not 0 <= packed[0] <= packed[-1] < grid.size:
            raise ValueError("the keys belong to another grid")
        rows = np.zeros(packed.size, dtype=np.int64)
        np.add.at(rows, place, np.asarray(counts, dtype=np.int64))
        group, cell = np.divmod(packed, grid.stride)
        unusable = np.zeros(grid.groups, dtype=np.int64)
        without = (cell == grid.stride - 1) & (rows > 0)
        unusable[group[without]] = rows[without]
        kept = (cell < grid.stride - 1) & (rows > 0)
        x_cell, y_cell = np.divmod(cell[kept], grid.cells)
        return cls(group=group[kept], x_cell=x_cell, y_cell=y_cell, count=rows[kept], unusable=unusable, grid=grid)

    def _packed(self) -> Int64Array:
        packed: Int64Array = self.group * self.grid.stride + self.x_cell * self.grid.cells + self.y_cell
        return packed

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
        rows = np.zeros(self.grid.groups, dtype=np.int64)
        np.add.at(rows, self.group, self.count)
        return rows

    @property
    def total(self) -> int:
        """The number of rows of all groups; private."""
        return int(self.count.sum() + self.unusable.sum())

    def points(self, group: int = 0) -> tuple[Int64Array, Int64Array]:
        """The points of one group in half steps (``PointGrid``), one for each row with a point; sorted."""
        start, end = np.searchsorted(self.group, [group, group + 1])
        own = slice(start, end)
        x, y = (np.repeat(2 * cell[own], self.count[own]) for cell in (self.x_cell, self.y_cell))
        return x, y

    def __add__(self, other: PointCounts) -> PointCounts:
        """The counts of both sets of rows together.

        Raises:
            InvalidRequest: the grids differ.
        """
        if not isinstance(other, PointCounts):
            return NotImplemented
        if other.grid != self.grid:
            raise InvalidRequest("grid", None, "must be the same for both", "count both on one grid")
        both = PointCounts.from_keys(
            np.concatenate([self._packed(), other._packed()]),
            np.concatenate([self.count, other.count]),
            grid=self.grid,
        )
        return PointCounts(
            group=both.group,
            x_cell=both.x_cell,
            y_cell=both.y_cell,
            count=both.count,
            unusable=self.unusable + other.unusable,
            grid=self.grid,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PointCounts):
            return NotImplemented
        return (
            self.grid == other.grid
            and np.array_equal(self._packed(), other._packed())
            and np.array_equal(self.count, other.count)
            and np.array_equal(self.unusable, other.unusable)
        )

    def __hash__(self) -> int:
        return hash((self.grid, self._packed().tobytes(), self.count.tobytes(), self.unusable.tobytes()))

    def __repr__(self) -> str:
        return f"PointCounts(cells={self.cells}, groups={self.grid.groups})"


def _places(groups: ArrayLike | None, grid: PointGrid, *, rows: int) -> Int64Array:
    if groups is None and grid.keys is not None:
        raise InvalidRequest("keys", None, "must be left out, because the rows have no groups", "leave it out")
    if groups is not None and grid.keys is None:
        raise InvalidRequest(
            "keys", None, "must be given, because the rows have groups",
            "give the public list of groups, which is never derived from the rows",
        )  # fmt: skip
    if groups is None:
        return np.zeros(rows, dtype=np.int64)
    return row_places(groups, grid.places, field="groups")


def _misshapen(name: str) -> InvalidRequest:
    return InvalidRequest(
        name, None, "must be one row of whole numbers of at least 0, cells of the grid in ascending order",
        "build the counts with from_arrays",
    )  # fmt: skip
