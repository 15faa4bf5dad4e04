"""Exact statistics of private rows: value types, each with its sensitivity. Nothing here is released."""

from spark_jobs.statistics.cross_products import CrossProducts
from spark_jobs.statistics.moments import Moments
from spark_jobs.statistics.point_counts import PointCounts
from spark_jobs.statistics.residual_counts import ResidualCounts
from spark_jobs.statistics.score_counts import ScoreCounts
from spark_jobs.statistics.value_counts import ValueCounts

__all__ = ["CrossProducts", "Moments", "PointCounts", "ResidualCounts", "ScoreCounts", "ValueCounts"]
