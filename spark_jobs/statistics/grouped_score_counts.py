"""Counts per group, label and score cell: the statistic of diagnostics of a classifier by group."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics.arrays import DisjointCounts, as_doubles, read_only
from spark_jobs.statistics.public_keys import GroupKey, checked_keys, key_places, row_places
from spark_jobs.statistics.score_counts import DEFAULT_CELLS, ScoreCounts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GroupedScoreCounts(DisjointCounts):
    """Exact counts per group, label {0, 1} and score cell; private: never released or logged, and ``repr`` omits them.

    Labels and scores are read as ``ScoreCounts`` reads them. A row counts in the group of its key. If its key is
    missing or not listed, the row counts in an additional last group, so that every row with a label and a score is in
    one group.

    Sensitivity: that of ``ScoreCounts``. A row that is replaced may also leave one group and enter another; it still
    changes at most two counts.

    Args:
        keys: the groups, a public list.
        negatives, positives: the rows of each class by group and cell, shape (groups + 1, cells), the last row for
            keys that are not listed; kept as read-only int64 copies.

    Raises:
        InvalidRequest: the keys are not distinct short texts and whole numbers, or counts of a group are not valid.
    """

    keys: tuple[GroupKey, ...]
    negatives: Int64Array
    positives: Int64Array

    def __post_init__(self) -> None:
        checked_keys(self.keys, field="groups")
        if not self.negatives.shape == self.positives.shape == (len(self.keys) + 1, self.negatives.shape[-1]):
            raise InvalidRequest(
                "positives", None, "must have one row of cells for each group and one more, like negatives",
                "build the counts with from_arrays",
            )  # fmt: skip
        for name in ("negatives", "positives"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @classmethod
    def from_arrays(
        cls,
        labels: ArrayLike,
        scores: ArrayLike,
        groups: ArrayLike,
        *,
        keys: Iterable[GroupKey],
        cells: int = DEFAULT_CELLS,
    ) -> GroupedScoreCounts:
        """The counts of rows given as arrays of equal length; ``groups`` are texts, whole numbers or None.

        Raises:
            InvalidRequest: as of ``ScoreCounts.from_arrays``, or the groups are not one key for each row.
        """
        keys = tuple(keys)
        label, score = as_doubles(labels, what="labels"), as_doubles(scores, what="scores")
        places = row_places(groups, key_places(keys), field="groups")
        if not label.size == score.size == places.size:
            raise InvalidRequest(
                "groups", None, "must have as many values as labels and scores", "give one of each per row"
            )
        of_groups = [ScoreCounts.from_arrays(label[places == place], score[places == place], cells=cells)
                     for place in (*range(len(keys)), -1)]  # fmt: skip
        return cls(
            keys=keys,
            negatives=np.stack([counts.negatives for counts in of_groups]),
            positives=np.stack([counts.positives for counts in of_groups]),
        )

    @classmethod
    def from_dataframe(
        cls,
        df: DataFrame,
        *,
        label: str | Column = "label",
        score: str | Column = "score",
        group: str | Column = "group",
        keys: Iterable[GroupKey],
    ) -> GroupedScoreCounts:
        """The counts of a DataFrame's rows, equal to those of ``from_arrays``, in one pass of Spark.

        Raises:
            InvalidRequest: a column is missing or of another type, or the keys are not valid.
        """
        from spark_jobs.statistics.spark.scores import count_grouped_scores

        listed = tuple(keys)
        places = key_places(listed)
        return cls.from_keys(*count_grouped_scores(df, label=label, score=score, group=group, places=places), listed)

    @classmethod
    def from_keys(cls, packed: ArrayLike, counts: ArrayLike, keys: tuple[GroupKey, ...]) -> GroupedScoreCounts:
        """The counts from packed keys ``(place * 2 + label) * cells + cell`` and the number of rows of each.

        Raises:
            ValueError: a packed key belongs to another grid.
        """
        shape = (len(keys) + 1, 2, DEFAULT_CELLS)
        places = np.asarray(packed, dtype=np.int64)
        if places.size and not 0 <= places.min() <= places.max() < np.prod(shape):
            raise ValueError("the keys belong to another grid")
        every = np.zeros(int(np.prod(shape)), dtype=np.int64)
        np.add.at(every, places, np.asarray(counts, dtype=np.int64))
        both = every.reshape(shape)
        return cls(keys=keys, negatives=both[:, 0], positives=both[:, 1])

    @property
    def groups(self) -> tuple[ScoreCounts, ...]:
        """The counts of each group as ``ScoreCounts``; the last ones are of the rows without a listed group."""
        return tuple(
            ScoreCounts(negatives=negatives, positives=positives)
            for negatives, positives in zip(self.negatives, self.positives, strict=True)
        )

    def __add__(self, other: GroupedScoreCounts) -> GroupedScoreCounts:
        """The counts of both sets of rows together.

        Raises:
            InvalidRequest: the groups or the grids differ.
        """
        if not isinstance(other, GroupedScoreCounts):
            return NotImplemented
        if (other.keys, other.negatives.shape) != (self.keys, self.negatives.shape):
            raise InvalidRequest(
                "keys", None, "must be the same groups on the same grid", "count both with the same keys"
            )
        return GroupedScoreCounts(
            keys=self.keys, negatives=self.negatives + other.negatives, positives=self.positives + other.positives
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupedScoreCounts):
            return NotImplemented
        same = self.keys == other.keys and np.array_equal(self.negatives, other.negatives)
        return same and np.array_equal(self.positives, other.positives)

    def __hash__(self) -> int:
        return hash((self.keys, self.negatives.tobytes(), self.positives.tobytes()))

    def __repr__(self) -> str:
        return f"GroupedScoreCounts(groups={len(self.keys)}, cells={self.negatives.shape[-1]})"
