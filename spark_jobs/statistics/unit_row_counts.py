"""Counts of units by their number of rows: the statistic for the private choice of a bound on that number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.statistics.aggregate_sums import groups_of
from spark_jobs.statistics.arrays import read_only

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnitRowCounts:
    """Exact numbers of units by their number of rows; private: never released or logged, and ``repr`` omits them.

    Rows without a unit do not count, and neither do rows that lack a group in one of the dimensions; a unit that has
    only such rows is not counted. No value in the data raises an error.

    Sensitivity: a unit with all its rows that is added or removed changes one count by 1; one that is replaced changes
    two.

    Args:
        design: dimensions and candidates; public.
        counts: for each candidate, the number of units whose rows are at most this candidate and more than the
            candidate before it; as the last entry, the number of units with more rows than the largest candidate. Shape
            (candidates + 1,).

    Raises:
        InvalidRequest: the counts are not whole numbers of at least 0, one for each cell.
    """

    design: UnitRowCells
    counts: Int64Array

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.shape != (self.design.cells,) or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise InvalidRequest(
                "counts", None, f"must be {self.design.cells} whole numbers of at least 0", "use from_arrays"
            )
        object.__setattr__(self, "counts", read_only(counts))

    def __add__(self, other: UnitRowCounts) -> UnitRowCounts:
        """The counts of two tables that have no unit in common."""
        if other.design != self.design:
            raise InvalidRequest("design", None, "must be the same for both", "count both by one design")
        return replace(self, counts=self.counts + other.counts)

    @classmethod
    def from_keys(cls, keys: Int64Array, counts: Int64Array, *, design: UnitRowCells) -> UnitRowCounts:
        """The counts from cells and the number of units in each of them; absent cells count 0."""
        every = np.zeros(design.cells, dtype=np.int64)
        every[keys] = counts
        return cls(design=design, counts=every)

    @classmethod
    def from_rows(cls, rows: ArrayLike, *, design: UnitRowCells) -> UnitRowCounts:
        """The counts of units with these numbers of rows, each at least 1."""
        cells = np.searchsorted(np.array(design.candidates), np.asarray(rows, dtype=np.int64))
        return cls(design=design, counts=np.bincount(cells, minlength=design.cells).astype(np.int64))

    @classmethod
    def from_arrays(
        cls,
        columns: Mapping[str, ArrayLike],
        units: ArrayLike,
        *,
        largest: int,
        by: Sequence[Mapping[str, Any]] = (),
    ) -> UnitRowCounts:
        """The counts of rows that are given as arrays of equal length.

        Args:
            columns: the columns of the dimensions, by their names.
            units: the unit of each row; None and NaN stand for no unit.
            largest: the largest candidate.
            by: dimensions, as in a request.

        Example:
            >>> UnitRowCounts.from_arrays({}, ["a", "b", "a", "a", None], largest=3).counts.tolist()
            [1, 0, 1, 0]
        """
        design = UnitRowCells.parse({"by": [dict(one) for one in by], "largest": largest})
        owners = np.asarray(units)
        counted = np.array([one is not None and one == one for one in owners.tolist()], dtype=bool)
        for dimension in design.by:
            counted &= groups_of(columns[dimension.column], dimension) >= 0
        _, rows = np.unique(owners[counted], return_counts=True)
        return cls.from_rows(rows, design=design)

    @classmethod
    def from_dataframe(
        cls, df: DataFrame, unit: str, *, largest: int, by: Sequence[Mapping[str, Any]] = ()
    ) -> UnitRowCounts:
        """The counts of a DataFrame's rows; ``unit`` names the column of units, the rest is as in ``from_arrays``."""
        from spark_jobs.statistics.spark.unit_rows import counts_of_table

        design = UnitRowCells.parse({"by": [dict(one) for one in by], "largest": largest})
        return cls.from_keys(*counts_of_table(df, unit, design), design=design)
