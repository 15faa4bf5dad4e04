"""Counts rows by cells of the label and the score: of one model, of one model by group, and of two models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import GroupedScoreCells, PairedScoreCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.statistics import GroupedScoreCounts, PairedScoreCounts, ScoreCounts
from spark_jobs.statistics.public_keys import key_places
from spark_jobs.statistics.score_counts import DEFAULT_CELLS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class _Scores:
    def inputs(self, statistic: Any, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        from spark_jobs.tables.scoring import label_and_score

        return label_and_score(scored, request)

    def key(self, statistic: Any, *inputs: Column) -> Column:
        from spark_jobs.statistics.spark.scores import score_key

        label, score = inputs
        return score_key(label, score)

    def size(self, statistic: Any) -> int:
        return 2 * DEFAULT_CELLS

    def build(self, statistic: Any, keys: Int64Array, counts: Int64Array) -> ScoreCounts:
        return ScoreCounts.from_keys(keys, counts)


class _GroupedScores:
    def inputs(self, statistic: GroupedScoreCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        from spark_jobs.contract.columns import group_need
        from spark_jobs.tables.expressions import read
        from spark_jobs.tables.scoring import label_and_score

        return (*label_and_score(scored, request), read(group_need(statistic.group_by), scored.schema).column)

    def key(self, statistic: GroupedScoreCells, *inputs: Column) -> Column:
        from spark_jobs.statistics.spark.scores import grouped_score_key

        label, score, group = inputs
        return grouped_score_key(label, score, group, key_places(statistic.groups))

    def size(self, statistic: GroupedScoreCells) -> int:
        return statistic.max_keys

    def build(self, statistic: GroupedScoreCells, keys: Int64Array, counts: Int64Array) -> GroupedScoreCounts:
        return GroupedScoreCounts.from_keys(keys, counts, statistic.groups)


class _PairedScores:
    def inputs(self, statistic: PairedScoreCells, scored: DataFrame, request: ReleaseRequest) -> tuple[Column, ...]:
        from spark_jobs.tables.scoring import label_and_score

        label, score = label_and_score(scored, request)
        return label, score, label_and_score(scored, request, statistic.model).score

    def key(self, statistic: Any, *inputs: Column) -> Column:
        from spark_jobs.statistics.spark.scores import pair_key

        return pair_key(*inputs)

    def size(self, statistic: PairedScoreCells) -> int:
        return statistic.max_keys

    def build(self, statistic: Any, keys: Int64Array, counts: Int64Array) -> PairedScoreCounts:
        return PairedScoreCounts(keys=keys, counts=counts)


SCORES, GROUPED_SCORES, PAIRED_SCORES = _Scores(), _GroupedScores(), _PairedScores()
"""The counters (``count_statistics.CellCounter``) of ``ScoreCells``, ``GroupedScoreCells`` and ``PairedScoreCells``."""
