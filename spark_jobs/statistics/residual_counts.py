"""Joint counts of fitted values and residuals, in cells that refine every grid of a residual plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.arrays import DisjointCounts, as_doubles, read_only
from spark_jobs.statistics.residual_grid import (
    AXIS,
    RESIDUAL_KEYS,
    axis_cells,
    grid_cuts,
    require_bins,
    require_doublings,
    require_unit,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ResidualCounts(DisjointCounts):
    """Exact joint counts of fitted values and residuals; private: never released or logged, and ``repr`` omits them.

    The fitted value and the residual of a row are each assigned to a cell of an axis, by sign and size ``|z| / unit``:
    the sizes up to 1/2 are divided into 64 equal cells, and so is each doubling ``(2^(e-1), 2^e]``, e = 0, ..., 60. A
    cell is open towards 0 and closed at its outer end; the cell at 0 is closed at both ends; 0 counts as positive. So
    every grid of ``m x m`` equal cells on ``[-unit 2^k, unit 2^k]``, m a power of two up to 256, is a union of cells,
    where k may differ between the axes: one pass over the rows suffices for both the search for bounds and the
    histogram within them.

    Each row is read by a public rule. Numbers are read as doubles; a row with a null or NaN is not counted; sizes above
    ``unit * 2^60``, including infinite ones, count in the outermost cell. No value in the data raises an error.

    Sensitivity: a row is counted in at most one cell, so that under ``Neighbours.ADD_REMOVE`` one row changes one cell
    by 1 (L1 distance at most 1) and under ``Neighbours.REPLACE_ONE`` at most two cells by 1 each (L1 at most 2). The
    model of the fitted values must be public or already released: coefficients that were fitted to these rows without
    privacy change with one row, and so do all residuals. Counts of disjoint sets of rows can be added.

    Args:
        fitted_cells, residual_cells: the pairs of cells that occur, each from 0 for the lowest numbers to ``AXIS - 1``;
            distinct and sorted. Shape (k,).
        counts: the number of rows in each of these pairs, at least 1; shape (k,). Arrays are kept as read-only int64
            copies.
        unit: the smallest size that matters; sizes up to ``unit`` are divided into cells of width ``unit / 128``;
            public.

    Raises:
        InvalidRequest: the unit is not a number between 2^-1000 and 2^1000, or the arrays are not as described.
    """

    fitted_cells: Int64Array
    residual_cells: Int64Array
    counts: Int64Array
    unit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", require_unit(self.unit))
        arrays = [np.asarray(getattr(self, name)) for name in ("fitted_cells", "residual_cells", "counts")]
        if any(array.ndim != 1 or array.size != arrays[0].size or array.dtype.kind not in "iu" for array in arrays):
            raise _misfit("must be three arrays of whole numbers of equal length")
        fitted, residual, counts = (read_only(array) for array in arrays)
        inside = (fitted >= 0) & (fitted < AXIS) & (residual >= 0) & (residual < AXIS)
        if not inside.all() or (np.diff(fitted * AXIS + residual) <= 0).any() or (counts < 1).any():
            raise _misfit("must be of sorted, distinct cells, with at least one row each")
        for name, array in zip(("fitted_cells", "residual_cells", "counts"), (fitted, residual, counts), strict=True):
            object.__setattr__(self, name, array)

    @classmethod
    def from_arrays(cls, fitted: ArrayLike, residuals: ArrayLike, *, unit: float = 1.0) -> ResidualCounts:
        """The counts of rows given as two arrays of equal length, of numbers, booleans, or objects that may be None.

        Example:
            >>> statistic = ResidualCounts.from_arrays([1.0, 3.0, None, 2.0], [0.5, -0.5, 0.0, 9.0])
            >>> cells, overflow = statistic.grid(2, 2, 2, 2)
            >>> cells.tolist(), overflow
            ([[0, 0], [1, 1]], 1)

        Raises:
            InvalidRequest: the unit is invalid, or the arrays are not two columns of numbers.
        """
        unit = require_unit(unit)
        value, residual = as_doubles(fitted, what="fitted"), as_doubles(residuals, what="residuals")
        if value.size != residual.size:
            raise InvalidRequest("residuals", None, "must have as many values as fitted", "give one of each per row")
        kept = ~(np.isnan(value) | np.isnan(residual))
        keys = axis_cells(value[kept], unit) * AXIS + axis_cells(residual[kept], unit)
        return cls.from_keys(keys, np.ones(keys.size, dtype=np.int64), unit=unit)

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        fitted: str | Column = "fitted",
        residual: str | Column = "residual",
        unit: float = 1.0,
    ) -> ResidualCounts:
        """The counts of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Args:
            df: the table.
            fitted: a column, or its name; boolean or numeric.
            residual: a column, or its name; boolean or numeric.
            unit: the smallest size that matters; sizes up to ``unit`` are divided into cells of width ``unit / 128``;
                public.

        Raises:
            InvalidRequest: the unit is invalid, or a column is missing or neither numeric nor boolean.
        """
        from spark_jobs.statistics.spark.residuals import count_residuals

        return cls.from_keys(*count_residuals(df, fitted=fitted, residual=residual, unit=unit), unit=unit)

    @classmethod
    def from_keys(cls, keys: ArrayLike, counts: ArrayLike, *, unit: float = 1.0) -> ResidualCounts:
        """The counts from packed keys ``fitted cell * AXIS + residual cell`` and the number of rows of each key.

        Keys may be in any order and may be repeated; keys without rows are omitted.

        Raises:
            InvalidRequest: the unit is invalid.
            ValueError: a key is outside ``[0, RESIDUAL_KEYS)``.
        """
        array = np.asarray(keys, dtype=np.int64)
        if array.size and not 0 <= array.min() <= array.max() < RESIDUAL_KEYS:
            raise ValueError("the keys belong to another grid")
        distinct, place = np.unique(array, return_inverse=True)
        rows = np.zeros(distinct.size, dtype=np.int64)
        np.add.at(rows, place, np.asarray(counts, dtype=np.int64))
        distinct, rows = distinct[rows != 0], rows[rows != 0]
        return cls(fitted_cells=distinct // AXIS, residual_cells=distinct % AXIS, counts=rows, unit=unit)

    @property
    def total(self) -> int:
        """The number of counted rows; private."""
        return int(self.counts.sum())

    def axis_counts(self) -> tuple[Int64Array, Int64Array]:
        """The number of rows in each axis cell of fitted values, and of residuals: two arrays of length ``AXIS``."""
        fitted, residual = np.zeros(AXIS, dtype=np.int64), np.zeros(AXIS, dtype=np.int64)
        np.add.at(fitted, self.fitted_cells, self.counts)
        np.add.at(residual, self.residual_cells, self.counts)
        return fitted, residual

    def table(self, fitted_cuts: Int64Array, residual_cuts: Int64Array) -> Int64Array:
        """The number of rows in each cell of a table whose rows and columns are intervals of axis cells.

        Args:
            fitted_cuts: the cuts between the intervals of fitted values, in axis cells; ascending from 0 to ``AXIS``,
                so that every row of the data is in some interval. See ``cut_at``.
            residual_cuts: the cuts between the intervals of residuals, likewise.

        Returns:
            Counts of shape (fitted intervals, residual intervals).
        """
        place = tuple(
            np.searchsorted(cuts, cells, side="right") - 1
            for cuts, cells in ((fitted_cuts, self.fitted_cells), (residual_cuts, self.residual_cells))
        )
        rows = np.zeros((fitted_cuts.size - 1, residual_cuts.size - 1), dtype=np.int64)
        np.add.at(rows, place, self.counts)
        return rows

    def grid(self, k_fitted: int, k_residual: int, m_fitted: int, m_residual: int) -> tuple[Int64Array, int]:
        """The number of rows in each cell of a grid on ``[-unit 2^k, unit 2^k]``, and the number of rows outside.

        Args:
            k_fitted: k of the fitted values; 0 to 60.
            k_residual: k of the residuals; 0 to 60.
            m_fitted: the number of equal cells of the axis of fitted values; a power of two up to 256.
            m_residual: the number of equal cells of the axis of residuals, likewise.

        Returns:
            Counts of shape (m_fitted, m_residual), from the lowest numbers to the highest; and the number of rows
            outside.

        Raises:
            InvalidRequest: a parameter is out of bounds.
        """
        cuts = [
            grid_cuts(require_doublings(k), require_bins(m))
            for k, m in ((k_fitted, m_fitted), (k_residual, m_residual))
        ]
        inside = self.table(*cuts)[1:-1, 1:-1]
        return inside, self.total - int(inside.sum())

    def __add__(self, other: ResidualCounts) -> ResidualCounts:
        """The counts of both sets of rows together.

        Raises:
            InvalidRequest: the units differ.
        """
        if not isinstance(other, ResidualCounts):
            return NotImplemented
        if other.unit != self.unit:
            raise InvalidRequest("unit", None, "must be the same for both", "count both in one unit")
        both = np.concatenate([self._keys, other._keys])
        return ResidualCounts.from_keys(both, np.concatenate([self.counts, other.counts]), unit=self.unit)

    @property
    def _keys(self) -> Int64Array:
        return self.fitted_cells * AXIS + self.residual_cells

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResidualCounts):
            return NotImplemented
        return (
            self.unit == other.unit
            and np.array_equal(self._keys, other._keys)
            and np.array_equal(self.counts, other.counts)
        )

    def __hash__(self) -> int:
        return hash((self.unit, self._keys.tobytes(), self.counts.tobytes()))

    def __repr__(self) -> str:
        return f"ResidualCounts(unit={self.unit!r})"


def _misfit(bound: str) -> InvalidRequest:
    return InvalidRequest("counts", None, bound, "build the counts with from_arrays")
