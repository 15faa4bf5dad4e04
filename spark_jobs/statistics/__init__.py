"""Exact statistics of private rows: value types, each with its sensitivity. Nothing here is released."""

from spark_jobs.statistics.score_counts import ScoreCounts
from spark_jobs.statistics.value_counts import ValueCounts

__all__ = ["ScoreCounts", "ValueCounts"]
