"""Rows by cell of one column of a table, or of two together: the statistic of a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.profile import ProfileCells, ProfileColumn, ProfileOptions
from spark_jobs.statistics.aggregate_sums import groups_of
from spark_jobs.statistics.arrays import as_doubles, read_only


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ProfileCounts:
    """Exact rows of each cell; private: never released or logged, and ``repr`` omits them.

    Every row is in exactly one cell of a column: the cell of its value if there is one. Three further kinds of rows
    have cells too: rows without a value, rows with a text that is no value of the column's type, and rows with a value
    that is not listed or out of bounds. No value in the data raises an error.

    Sensitivity: a row that is added or removed changes one count by 1; one that is replaced changes two.

    Args:
        design: the columns and their cells; public.
        counts: the number of rows in each cell; shape (cells,).

    Raises:
        InvalidRequest: the counts are not whole numbers of at least 0, one for each cell.
    """

    design: ProfileCells
    counts: Int64Array

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.shape != (self.design.max_keys,) or counts.dtype.kind not in "iu" or (counts < 0).any():
            raise InvalidRequest(
                "counts", None, f"must be {self.design.max_keys} whole numbers of at least 0", "use from_arrays"
            )
        object.__setattr__(self, "counts", read_only(counts))

    @classmethod
    def from_keys(cls, keys: Int64Array, counts: Int64Array, *, design: ProfileCells) -> ProfileCounts:
        """The counts from cells and the number of rows in each of them; absent cells count 0."""
        every = np.zeros(design.max_keys, dtype=np.int64)
        every[keys] = counts
        return cls(design=design, counts=every)

    @classmethod
    def from_arrays(
        cls,
        columns: Mapping[str, ArrayLike],
        *,
        of: Sequence[Mapping[str, Any]],
        pairs: Sequence[tuple[str, str]] = (),
        bins: int = 128,
    ) -> tuple[ProfileCounts, ...]:
        """The counts of each column, and of each pair, over rows that are given as arrays of equal length.

        Args:
            columns: an array for each column, by its name.
            of: the columns to count, each with its public values, bounds or periods, as in a request.
            pairs: the pairs of columns to count together.
            bins: the largest number of bins of a numeric column, or of periods of a column of times.

        Example:
            >>> rows = {"region": ["n", "s", "n", "x", None], "age": [3, 50, None, 12, 7]}
            >>> age, region = ProfileCounts.from_arrays(
            ...     rows, of=[{"column": "age", "bounds": [0, 40], "step": 10}, {"column": "region", "values": ["n"]}]
            ... )
            >>> age.counts.tolist(), region.counts.tolist()
            ([1, 2, 0, 0, 0, 0, 1, 1, 0], [2, 2, 1, 0])

        Raises:
            InvalidRequest: the profile is not valid, a column is missing, or its type is not suitable.
        """
        options = ProfileOptions.parse({"kind": "profile", "columns": list(of), "pairs": pairs, "bins": bins})
        for one in options.columns:
            if one.column not in columns:
                raise InvalidRequest("columns", one.column, "must be one of the arrays", "correct the name")
        counted = []
        for design in options.statistics:
            cell: Any = 0
            for one, labels in zip(design.columns, design.keys, strict=True):
                cell = cell * len(labels) + cells_of(columns[one.column], one, design)
            counts = np.bincount(cell, minlength=design.max_keys)
            counted.append(cls(design=design, counts=counts.astype(np.int64)))
        return tuple(counted)


def cells_of(values: ArrayLike, column: ProfileColumn, design: ProfileCells) -> Int64Array:
    """The cell of each row in ``column``, as one of the design's columns."""
    dimension = column.dimension(design.bins)
    array = np.asarray(values)
    if array.dtype.kind == "b" or (array.dtype.kind == "O" and any(isinstance(one, bool) for one in array)):
        array = np.array(
            [str(one).lower() if isinstance(one, (bool, np.bool_)) else one for one in array], dtype=object
        )
    group, listed = groups_of(array, dimension), len(dimension.labels)
    if len(design.columns) > 1:
        return np.where(group < 0, listed, group)
    if dimension.edges is not None:
        numbers = as_doubles(array, what=column.column)
        rest = np.where(np.isnan(numbers), 2, np.where(numbers < dimension.edges[0], 0, 1))
    else:
        # a value that differs from itself is a NaN, or a time that is missing
        rest = np.array([int(one is None or one != one) for one in array.tolist()], dtype=np.int64)
    return np.where(group < 0, listed + rest, group)
