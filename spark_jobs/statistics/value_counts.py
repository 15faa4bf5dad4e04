"""Counts per cell of a public grid of values: what a distribution function and its quantiles are functions of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.statistics.arrays import as_doubles
from spark_jobs.statistics.value_grid import LINEAR, ValueGrid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEFAULT_VALUE_CELLS = 32768


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ValueCounts:
    """Exact counts per cell of a value grid. Private: not released, logged or shown; its ``repr`` has no count.

    Rows follow a public per-record rule. The value is read as a double; a null or NaN drops the row; a value beyond
    the bounds, infinite ones too, counts at the nearer bound. Data never raises.

    Sensitivity: a row is counted in one cell or in none, so under ``Neighbours.ADD_REMOVE`` one row changes one cell
    by 1 (L1 distance at most 1); under ``Neighbours.REPLACE_ONE`` at most two cells by 1 each (L1 at most 2). Counts of
    disjoint sets of rows add: ``whole == part + other_part``.

    Args:
        counts: rows per cell; whole numbers of at least 0, one for each cell, kept as a read-only int64 copy.
        grid: the cells.

    Raises:
        InvalidRequest: the counts are not one row of whole numbers of at least 0, as many as the grid has cells.
    """

    counts: Int64Array
    grid: ValueGrid

    def __post_init__(self) -> None:
        array = np.asarray(self.counts)
        if array.shape != (self.grid.size,) or array.dtype.kind not in "iu" or (array < 0).any():
            raise InvalidRequest(
                "counts",
                requirement=f"must be one row of {self.grid.size} whole numbers of at least 0",
                remedy="build the counts with from_arrays",
            )
        counts = array.astype(np.int64)  # a private copy, which the caller cannot modify
        counts.flags.writeable = False
        object.__setattr__(self, "counts", counts)

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
    ) -> ValueCounts:
        """The counts of rows given as an array of numbers, booleans, or objects that may be None.

        Example:
            >>> statistic = ValueCounts.from_arrays([0.0, 2.5, None, 99.0], lower=0, upper=10, cells=4)
            >>> statistic.counts.tolist()
            [1, 1, 0, 1]

        Raises:
            InvalidRequest: the grid does not fit (``ValueGrid``), or the array is not one column of numbers.
        """
        grid = ValueGrid(lower=lower, upper=upper, cells=cells, scale=scale, unit=unit)
        value = as_doubles(values, what="values")
        return cls(counts=np.bincount(grid.cell(value[~np.isnan(value)]), minlength=grid.size), grid=grid)

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
    ) -> ValueCounts:
        """The counts of a DataFrame's rows, the same as ``from_arrays`` gives on them, in one pass of Spark.

        Args:
            df: the table.
            value: a column, or its name; boolean or numeric.
            lower: public bound of the grid, as in ``ValueGrid``; so are the others.
            upper: the other bound.
            cells: at most so many cells, a power of two.
            scale: ``linear`` or ``log``.
            unit: of a logarithmic grid.

        Raises:
            InvalidRequest: the grid does not fit, or the column is missing or neither numeric nor boolean.
        """
        from spark_jobs.statistics.spark.values import count_values

        grid = ValueGrid(lower=lower, upper=upper, cells=cells, scale=scale, unit=unit)
        return cls.from_keys(*count_values(df, value=value, grid=grid), grid=grid)

    @classmethod
    def from_keys(cls, keys: ArrayLike, counts: ArrayLike, *, grid: ValueGrid) -> ValueCounts:
        """The counts from cells and how many rows each has; absent cells count 0.

        Raises:
            ValueError: a key is no cell of the grid.
        """
        keys = np.asarray(keys, dtype=np.int64)
        if keys.size and not 0 <= keys.min() <= keys.max() < grid.size:
            raise ValueError("the keys were made for another grid")
        rows = np.zeros(grid.size, dtype=np.int64)
        np.add.at(rows, keys, np.asarray(counts, dtype=np.int64))
        return cls(counts=rows, grid=grid)

    @property
    def total(self) -> int:
        """Rows counted: private, like each of the counts."""
        return int(self.counts.sum())

    @staticmethod
    def l1_sensitivity(neighbours: Neighbours) -> int:
        """How far apart, in L1 distance, one row can move the counts: 1 if it is added or removed, 2 if replaced."""
        return 1 if neighbours is Neighbours.ADD_REMOVE else 2

    def __add__(self, other: ValueCounts) -> ValueCounts:
        """The counts of both sets of rows together.

        Raises:
            InvalidRequest: they are on different grids.
        """
        if not isinstance(other, ValueCounts):
            return NotImplemented
        if other.grid != self.grid:
            raise InvalidRequest("grid", requirement="must be the same for both", remedy="count both on one grid")
        return ValueCounts(counts=self.counts + other.counts, grid=self.grid)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ValueCounts):
            return NotImplemented
        return self.grid == other.grid and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.grid, self.counts.tobytes()))

    def __repr__(self) -> str:
        return f"ValueCounts(grid={self.grid})"
