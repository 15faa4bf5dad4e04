"""The draw of figures of a ranking: the draw of a ROC curve, with public options."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.options import RankingFiguresSettings, RocCurveSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve
from spark_jobs.diagnostics.roc_curve.shared import curve_of_groups
from spark_jobs.statistics import ScoreCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class RankingDraw(Draw):
    """The draw of a ROC curve, and the options of the figures that are computed from it.

    Attributes:
        curve: the draw of the curve.
        depths: fractions of all rows for gains and lift.
        points: the number of recalls at which precision is given.
        costs: of a false positive and of a false negative.
    """

    curve: RocDraw
    depths: tuple[float, ...]
    points: int
    costs: tuple[float, float]

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        return self.curve.class_sizes


def measure_ranking(statistic: ScoreCounts, options: RankingFiguresSettings, terms: Terms) -> RankingDraw:
    """Draw the noise of the curve; see ``diagnostics.roc_curve`` for the guarantee."""
    return _from(measure_curve(statistic, RocCurveSettings(confidence=options.confidence), terms), options)


def ranking_of_groups(options: RankingFiguresSettings, shared: SharedGroups) -> RankingDraw:
    """The draw, taken from a measurement that several diagnostics share."""
    return _from(curve_of_groups(RocCurveSettings(confidence=options.confidence), shared), options)


def _from(curve: RocDraw, options: RankingFiguresSettings) -> RankingDraw:
    return RankingDraw(
        curve=curve,
        depths=options.depths,
        points=options.points,
        costs=(options.false_positive_cost, options.false_negative_cost),
        neighbours=curve.neighbours,
        guarantee=curve.guarantee,
        spendings=curve.spendings,
    )
