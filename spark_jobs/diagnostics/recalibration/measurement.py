"""The draw of a recalibration: the noisy sums of groups of scores, with public options."""

from __future__ import annotations

from dataclasses import dataclass

from spark_jobs.contract.options import RecalibrationSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups, measure_shared
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms.cells import NoisyCells
from spark_jobs.mechanisms.group_sums import NoisyGroups
from spark_jobs.statistics import ScoreCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class RecalibrationDraw(Draw):
    """The noisy sums of groups of scores, with the settings of the figures that are computed from them.

    Attributes:
        groups: the noisy sums.
        clip: scores are clipped to [clip, 1 - clip] before their log-odds are taken.
        confidence: nominal level of intervals.
        located: the noisy histograms that placed the groups.
    """

    groups: NoisyGroups
    clip: float
    confidence: float
    located: tuple[NoisyCells, ...] = ()

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes."""
        positives, negatives, _ = self.groups.values().sum(axis=-1)
        return ClassSizes(negatives=float(negatives), positives=float(positives), variance=self.groups.size_variance())


def measure_recalibration(statistic: ScoreCounts, options: RecalibrationSettings, terms: Terms) -> RecalibrationDraw:
    """Draw the noise for this diagnostic alone, as a shared measurement is drawn; guarantee: ``_shared_groups``."""
    return recalibration_of_groups(options, measure_shared(statistic, (options,), terms))


def recalibration_of_groups(options: RecalibrationSettings, shared: SharedGroups) -> RecalibrationDraw:
    """The draw, taken from a measurement that several diagnostics share."""
    return RecalibrationDraw(
        **shared.origin,
        groups=shared.groups,
        clip=options.clip,
        confidence=options.confidence,
        located=shared.located,
    )
