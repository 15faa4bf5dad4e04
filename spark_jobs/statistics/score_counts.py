"""Counts per label and score cell: the statistic of all diagnostics of classifiers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.score_grid import cells_of, places_on
from spark_jobs.statistics.arrays import DisjointCounts, as_doubles, read_only
from spark_jobs.statistics.grid import require_score_cells

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DEFAULT_CELLS = SCORE_CELLS


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScoreCounts(DisjointCounts):
    """Exact counts per label {0, 1} and score cell; private: never released or logged, and ``repr`` omits them.

    The cells are those of the refined grid, which is finer towards 0 and 1, or cells of equal width whose number is a
    power of two (``score_grid``). A score's cell is computed exactly: the rows in cells ``i`` and above are those whose
    score is at least the start of cell ``i``, as in scikit-learn at that threshold.

    Each row is read by a public rule. Label and score are read as doubles. A row is dropped if its label is null, NaN
    or neither 0 nor 1, or if its score is null or NaN. A score outside [0, 1], including an infinite one, counts at the
    nearer end. No value in the data raises an error.

    Sensitivity: a row is counted in at most one cell, so that under ``Neighbours.ADD_REMOVE`` one row changes one cell
    by 1 (L1 and L2 distance at most 1); under ``Neighbours.REPLACE_ONE`` it removes 1 from one cell and adds 1 to
    another (L1 at most 2, L2 at most sqrt 2). Counts of disjoint sets of rows can be added:
    ``whole == part + other_part``.

    Args:
        negatives: the number of rows with label 0 in each cell; an integer array of length ``cells``, kept as a
            read-only int64 copy.
        positives: the number of rows with label 1 in each cell, likewise.
        steps: a public number such that every score is ``j / steps`` for a whole number j, if the scale of the scores
            has a step; None if scores may be any numbers.

    Raises:
        InvalidRequest: the arrays are not two rows of whole numbers of at least 0, or their length is neither that of
            the refined grid nor a power of two from 2 to 2^20.
    """

    negatives: Int64Array
    positives: Int64Array
    steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("negatives", "positives"):
            object.__setattr__(self, name, _frozen_counts(getattr(self, name), name))
        require_score_cells(self.negatives.size)
        if self.positives.size != self.negatives.size:
            raise InvalidRequest(
                "positives", f"{self.positives.size} cells", "must have as many cells as negatives",
                "count both classes on one grid",
            )  # fmt: skip

    @classmethod
    def from_arrays(
        cls, labels: ArrayLike, scores: ArrayLike, *, cells: int = DEFAULT_CELLS, scale: ScoreScale | None = None
    ) -> ScoreCounts:
        """The counts of rows given as two arrays of equal length, of numbers, booleans, or objects that may be None.

        Args:
            labels: the label of each row.
            scores: the score of each row.
            cells: the number of cells of [0, 1].
            scale: the scale of the scores, if they do not lie in [0, 1]. Diagnostics then need ``scale.place(t)`` in
                place of a threshold t on that scale.

        Example:
            >>> counts = ScoreCounts.from_arrays([0, 1, 1, None, 2], [0.1, 0.5, 7.0, 0.5, 0.5], cells=4)
            >>> counts.negatives.tolist(), counts.positives.tolist()
            ([1, 0, 0, 0], [0, 0, 1, 1])

        Raises:
            InvalidRequest: ``cells`` is neither that of the refined grid nor a power of two from 2 to 2^20, or an array
                is not a column of numbers.
        """
        cells = require_score_cells(cells)
        label = as_doubles(labels, what="labels")
        score = as_doubles(scores, what="scores")
        if label.size != score.size:
            raise InvalidRequest("scores", None, "must have as many values as labels", "give one of each per row")
        steps = None if scale is None or scale.step is None else scale.steps
        if scale is not None:
            score = places_on(scale, score)
        kept = ((label == 0) | (label == 1)) & ~np.isnan(score)
        keys = label[kept].astype(np.int64) * cells + cells_of(score[kept], cells)
        return replace(cls._from_packed(np.bincount(keys, minlength=2 * cells)), steps=steps)

    @classmethod
    def from_dataframe(
        cls, df: DataFrame, *, label: str | Column = "label", score: str | Column = "score", cells: int = DEFAULT_CELLS
    ) -> ScoreCounts:
        """The counts of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Args:
            df: the table.
            label: a column, or its name; boolean or numeric.
            score: a column, or its name; boolean or numeric.
            cells: the number of cells of [0, 1], that of the refined grid or a power of two from 2 to 2^20.

        Raises:
            InvalidRequest: ``cells`` is invalid, or a column is missing or neither numeric nor boolean.
        """
        from spark_jobs.statistics.spark.scores import count_scores

        return cls.from_keys(*count_scores(df, label=label, score=score, cells=cells), cells=cells)

    @classmethod
    def from_keys(cls, keys: ArrayLike, counts: ArrayLike, *, cells: int = DEFAULT_CELLS) -> ScoreCounts:
        """The counts from packed keys ``label * cells + cell`` and the number of rows of each key; absent keys count 0.

        Raises:
            InvalidRequest: ``cells`` is neither that of the refined grid nor a power of two from 2 to 2^20.
            ValueError: a key is outside ``[0, 2 * cells)``, so that the keys belong to another grid.
        """
        cells = require_score_cells(cells)
        keys = np.asarray(keys, dtype=np.int64)
        if keys.size and not 0 <= keys.min() <= keys.max() < 2 * cells:
            raise ValueError("the keys belong to another grid")
        both = np.zeros(2 * cells, dtype=np.int64)
        np.add.at(both, keys, np.asarray(counts, dtype=np.int64))
        return cls._from_packed(both)

    @classmethod
    def _from_packed(cls, both: Int64Array) -> ScoreCounts:
        cells = both.size // 2
        return cls(negatives=both[:cells], positives=both[cells:])

    @property
    def cells(self) -> int:
        """The number of cells of [0, 1]."""
        return int(self.negatives.size)

    @property
    def total(self) -> int:
        """The number of counted rows; private."""
        return int(self.negatives.sum() + self.positives.sum())

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        """The counts of both sets of rows together.

        Raises:
            InvalidRequest: the grids differ.
        """
        if not isinstance(other, ScoreCounts):
            return NotImplemented
        if other.cells != self.cells:
            raise InvalidRequest("cells", other.cells, f"must be {self.cells}", "count both on one grid")
        steps = self.steps if self.steps == other.steps else None
        negatives, positives = self.negatives + other.negatives, self.positives + other.positives
        return ScoreCounts(negatives=negatives, positives=positives, steps=steps)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScoreCounts):
            return NotImplemented
        return np.array_equal(self.negatives, other.negatives) and np.array_equal(self.positives, other.positives)

    def __hash__(self) -> int:
        return hash((self.negatives.tobytes(), self.positives.tobytes()))

    def __repr__(self) -> str:
        return f"ScoreCounts(cells={self.cells})"


def _frozen_counts(values: ArrayLike, what: str) -> Int64Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 0).any():
        raise InvalidRequest(
            what, None, "must be one row of whole numbers of at least 0", "build the counts with from_arrays"
        )
    return read_only(array)
