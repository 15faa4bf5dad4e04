"""Exact statistics of private rows: value types, each with its sensitivity. Nothing here is released."""

from spark_jobs.statistics.score_counts import ScoreCounts

__all__ = ["ScoreCounts"]
