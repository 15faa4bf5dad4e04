"""Counts per label and pair of cells of two scores: the statistic of two classifiers on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import PAIR_CELLS
from spark_jobs.score_grid import cells_of, pair_cuts
from spark_jobs.statistics.arrays import DisjointCounts, as_doubles, read_only
from spark_jobs.statistics.score_counts import DEFAULT_CELLS, ScoreCounts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PairedScoreCounts(DisjointCounts):
    """Exact counts per label {0, 1} and cells of two scores; private: never released or logged, not even by ``repr``.

    Each score has ``PAIR_CELLS`` cells (``score_grid``), each at most a 64th as wide as its distance to the nearer end
    of [0, 1]. A row's label and both of its scores are read by the public rule of ``ScoreCounts``. A row that lacks one
    of these three values is dropped. No value in the data raises an error.

    Sensitivity: a row is counted in at most one cell, so that under ``Neighbours.ADD_REMOVE`` one row changes one count
    by 1; under ``Neighbours.REPLACE_ONE`` it removes 1 from one count and adds 1 to another.

    Args:
        keys: the cells that have rows, ``(label * PAIR_CELLS + first cell) * PAIR_CELLS + second cell``, each once.
        counts: the number of rows in each of these cells, at least 0.

    Raises:
        ValueError: a key is out of range, or both arrays are not of one length.
    """

    keys: Int64Array
    counts: Int64Array

    def __post_init__(self) -> None:
        keys, counts = (read_only(np.asarray(array)) for array in (self.keys, self.counts))
        if keys.shape != counts.shape or keys.ndim != 1:
            raise ValueError("keys and counts must be two arrays of one length")
        if keys.size and not 0 <= keys.min() <= keys.max() < 2 * PAIR_CELLS**2:
            raise ValueError("the keys belong to another grid")
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def from_arrays(cls, labels: ArrayLike, first: ArrayLike, second: ArrayLike) -> PairedScoreCounts:
        """The counts of rows given as three arrays of one length, of numbers, booleans, or objects that may be None.

        Example:
            >>> counts = PairedScoreCounts.from_arrays([0, 1, 1, None], [0.1, 0.5, None, 0.5], [0.2, 0.9, 0.5, 0.5])
            >>> counts.first.total, int(counts.second.positives.sum())
            (2, 1)

        Raises:
            InvalidRequest: an array is not a column of numbers, or the lengths differ.
        """
        label = as_doubles(labels, what="labels")
        scores = as_doubles(first, what="first"), as_doubles(second, what="second")
        for name, score in zip(("first", "second"), scores, strict=True):
            if score.size != label.size:
                raise InvalidRequest(name, None, "must have as many values as labels", "give one of each per row")
        kept = ((label == 0) | (label == 1)) & ~np.isnan(scores[0]) & ~np.isnan(scores[1])
        one, other = (cells_of(score[kept], PAIR_CELLS) for score in scores)
        keys, counts = np.unique(
            (label[kept].astype(np.int64) * PAIR_CELLS + one) * PAIR_CELLS + other, return_counts=True
        )
        return cls(keys=keys, counts=counts)

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        label: str | Column = "label",
        first: str | Column = "first",
        second: str | Column = "second",
    ) -> PairedScoreCounts:
        """The counts of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Args:
            df: the table.
            label: a column, or its name; boolean or numeric.
            first: the column of the first scores, or its name; boolean or numeric.
            second: the same of the second scores.

        Raises:
            InvalidRequest: a column is missing or neither numeric nor boolean.
        """
        from spark_jobs.statistics.spark.scores import count_score_pairs

        keys, counts = count_score_pairs(df, label=label, first=first, second=second)
        return cls(keys=keys, counts=counts)

    @cached_property
    def first(self) -> ScoreCounts:
        """The counts of the first scores as ``ScoreCounts``; a row's score counts as the start of its cell."""
        return self._one(self.keys // PAIR_CELLS)

    @cached_property
    def second(self) -> ScoreCounts:
        """The counts of the second scores as ``ScoreCounts``; a row's score counts as the start of its cell."""
        return self._one(self.keys // PAIR_CELLS**2 * PAIR_CELLS + self.keys % PAIR_CELLS)

    def _one(self, keys: Int64Array) -> ScoreCounts:
        label, cell = keys // PAIR_CELLS, keys % PAIR_CELLS
        return ScoreCounts.from_keys(label * DEFAULT_CELLS + pair_cuts(DEFAULT_CELLS)[cell], self.counts)

    def differences(self, of_first: FloatArray, of_second: FloatArray) -> FloatArray:
        """For each of ``keys``, ``of_first`` at the first score's cell minus ``of_second`` at the second's.

        Args:
            of_first: a number for each class, negatives first, and cell of the first score; shape (2, PAIR_CELLS).
            of_second: the same for the second score.
        """
        label, cells = self.keys // PAIR_CELLS**2, self.keys % PAIR_CELLS**2
        apart: FloatArray = of_first[label, cells // PAIR_CELLS] - of_second[label, cells % PAIR_CELLS]
        return apart

    def __repr__(self) -> str:
        return "PairedScoreCounts()"
