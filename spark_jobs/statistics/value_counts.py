"""Counts per cell of a public grid of values: the statistic of distribution functions and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.arrays import DisjointCounts, as_doubles, read_only
from spark_jobs.statistics.value_grid import LINEAR, LOG, ValueGrid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEFAULT_VALUE_CELLS = 32768


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ValueCounts(DisjointCounts):
    """Exact counts per cell of a value grid; private: never released or logged, and ``repr`` omits them.

    Each row is read by a public rule. The value is read as a double; a null or NaN drops the row; a value beyond the
    bounds, including an infinite one, counts at the nearer bound. No value in the data raises an error.

    Sensitivity: a row is counted in at most one cell, so that under ``Neighbours.ADD_REMOVE`` one row changes one cell
    by 1 (L1 distance at most 1) and under ``Neighbours.REPLACE_ONE`` at most two cells by 1 each (L1 at most 2). Counts
    of disjoint sets of rows can be added: ``whole == part + other_part``.

    Args:
        counts: the number of rows in each cell, at least 0; kept as a read-only int64 copy.
        grid: the cells.
        finer: a function that counts the same rows on another grid, in one more pass; private, too. It exists only for
            a logarithmic grid, whose cells are searched for bounds. None for other grids, and if the rows cannot be
            read again.

    Raises:
        InvalidRequest: the counts are not one whole number of at least 0 for each cell of the grid.
    """

    counts: Int64Array
    grid: ValueGrid
    finer: Callable[[ValueGrid], Int64Array] | None = None

    def __post_init__(self) -> None:
        array = np.asarray(self.counts)
        if array.shape != (self.grid.size,) or array.dtype.kind not in "iu" or (array < 0).any():
            raise InvalidRequest(
                "counts", None, f"must be one row of {self.grid.size} whole numbers of at least 0",
                "build the counts with from_arrays",
            )  # fmt: skip
        object.__setattr__(self, "counts", read_only(array))

    @classmethod
    def from_arrays(
        cls,
        values: ArrayLike,
        *,
        lower: float,
        upper: float,
        cells: int = DEFAULT_VALUE_CELLS,
        scale: str = LINEAR,
        unit: float | None = None,
        step: float | None = None,
    ) -> ValueCounts:
        """The counts of rows that are given as an array of numbers, booleans, or objects that may be None.

        Example:
            >>> statistic = ValueCounts.from_arrays([0.0, 2.5, None, 99.0], lower=0, upper=10, cells=4)
            >>> statistic.counts.tolist()
            [1, 1, 0, 1]

        Raises:
            InvalidRequest: the grid is invalid (``ValueGrid``), or the array is not a column of numbers.
        """
        grid = ValueGrid(lower=lower, upper=upper, cells=cells, scale=scale, unit=unit, step=step)
        value = as_doubles(values, what="values")
        value = value[~np.isnan(value)]

        def counted(on: ValueGrid) -> Int64Array:
            return np.bincount(on.cell(value), minlength=on.size).astype(np.int64)

        return cls(counts=counted(grid), grid=grid, finer=counted if grid.scale == LOG else None)

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        value: str | Column = "value",
        lower: float,
        upper: float,
        cells: int = DEFAULT_VALUE_CELLS,
        scale: str = LINEAR,
        unit: float | None = None,
        step: float | None = None,
    ) -> ValueCounts:
        """The counts of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Args:
            df: the table.
            value: a column, or its name; boolean or numeric.
            lower: the public lower bound of the grid (``ValueGrid``).
            upper: the public upper bound.
            cells: the largest number of cells, a power of two.
            scale: ``linear`` or ``log``.
            unit: for ``log``, the smallest size that is distinguished from 0.
            step: the distance of neighbouring values, if the cells are to be the values themselves.

        Raises:
            InvalidRequest: the grid is invalid, or the column is missing or neither numeric nor boolean.
        """
        from spark_jobs.statistics.spark.values import count_values

        grid = ValueGrid(lower=lower, upper=upper, cells=cells, scale=scale, unit=unit, step=step)
        return cls.from_keys(*count_values(df, value=value, grid=grid), grid=grid)

    @classmethod
    def from_keys(cls, keys: ArrayLike, counts: ArrayLike, *, grid: ValueGrid) -> ValueCounts:
        """The counts from cells and the number of rows in each of them; absent cells count 0.

        Raises:
            ValueError: a key is not a cell of the grid.
        """
        keys = np.asarray(keys, dtype=np.int64)
        if keys.size and not 0 <= keys.min() <= keys.max() < grid.size:
            raise ValueError("the keys belong to another grid")
        rows = np.zeros(grid.size, dtype=np.int64)
        np.add.at(rows, keys, np.asarray(counts, dtype=np.int64))
        return cls(counts=rows, grid=grid)

    @property
    def total(self) -> int:
        """The number of counted rows; private."""
        return int(self.counts.sum())

    def __add__(self, other: ValueCounts) -> ValueCounts:
        """The counts of both sets of rows together.

        Raises:
            InvalidRequest: the grids differ.
        """
        if not isinstance(other, ValueCounts):
            return NotImplemented
        if other.grid != self.grid:
            raise InvalidRequest("grid", None, "must be the same for both", "count both on one grid")
        first, second = self.finer, other.finer
        finer = None if first is None or second is None else lambda on: first(on) + second(on)
        return ValueCounts(counts=self.counts + other.counts, grid=self.grid, finer=finer)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueCounts):
            return NotImplemented
        return self.grid == other.grid and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.grid, self.counts.tobytes()))

    def __repr__(self) -> str:
        return f"ValueCounts(grid={self.grid})"
