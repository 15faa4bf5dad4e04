"""Exact statistics of private rows, as value types with known sensitivities. None of them is released."""

from typing import TYPE_CHECKING

from spark_jobs.lazy import lazy_exports

if TYPE_CHECKING:
    from spark_jobs.statistics.aggregate_sums import AggregateSums as AggregateSums
    from spark_jobs.statistics.cross_products import CrossProducts as CrossProducts
    from spark_jobs.statistics.grouped_score_counts import GroupedScoreCounts as GroupedScoreCounts
    from spark_jobs.statistics.labelled_rows import LabelledRows as LabelledRows
    from spark_jobs.statistics.moments import Moments as Moments
    from spark_jobs.statistics.paired_scores import PairedScoreCounts as PairedScoreCounts
    from spark_jobs.statistics.point_counts import PointCounts as PointCounts
    from spark_jobs.statistics.residual_counts import ResidualCounts as ResidualCounts
    from spark_jobs.statistics.score_counts import ScoreCounts as ScoreCounts
    from spark_jobs.statistics.state_counts import StateCounts as StateCounts
    from spark_jobs.statistics.value_counts import ValueCounts as ValueCounts
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "aggregate_sums": "AggregateSums",
            "cross_products": "CrossProducts",
            "grouped_score_counts": "GroupedScoreCounts",
            "labelled_rows": "LabelledRows",
            "moments": "Moments",
            "paired_scores": "PairedScoreCounts",
            "point_counts": "PointCounts",
            "residual_counts": "ResidualCounts",
            "score_counts": "ScoreCounts",
            "state_counts": "StateCounts",
            "value_counts": "ValueCounts",
        },
    )
