"""The random part of a comparison: a draw for each model's curve, and sums over the pairs of scores of each row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from spark_jobs.contract.options import PAIR_CELLS, EarlierCurve, RocComparisonSettings, RocCurveSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.roc_comparison.placements import placements
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve, points_for
from spark_jobs.diagnostics.roc_curve.shared import curve_of_groups
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.paired_sums import PairedSums, paired_sums
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts

CURVE_SHARE = Decimal("0.25")
"""Share of the budget for each curve. The difference of the AUCs depends on their errors to second order alone."""


SUMS = "number, sum and sum of squares of the placements' differences in each class"
FINER = 4
"""Times as many cells as a curve alone would have, if the signal is large: a finer curve places the rows better."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonDraw(Draw):
    """The draws of a comparison.

    Attributes:
        names: of the models, the request's first.
        first, second: draws of the curves; the second is None if the other curve is an earlier release's.
        sums: noisy sums over the pairs of scores; None likewise.
        compare_with: the earlier release's curve; None for two models on the same rows.
    """

    names: tuple[str, str]
    first: RocDraw
    second: RocDraw | None
    sums: PairedSums | None
    compare_with: EarlierCurve | None

    @property
    def class_sizes(self) -> ClassSizes | None:
        """The noisy sizes of both classes; None for a pair of models, whose rows have both scores."""
        return self.first.class_sizes if self.second is None else None


def measure_comparison(
    statistic: PairedScoreCounts | ScoreCounts, options: RocComparisonSettings, terms: Terms
) -> ComparisonDraw:
    """Draw the noise of a comparison; ``epsilon``-DP for one row added, removed or replaced.

    Args:
        statistic: exact counts of both models' scores together, or of one model's for a comparison with an earlier
            release; private.
        options: the settings.
        terms: budget, relation and noise; all of the budget is spent.
    """
    if isinstance(statistic, ScoreCounts):
        return _measure_one(statistic, options, terms)
    return _measure_pair(statistic, options, terms)


def _measure_one(statistic: ScoreCounts, options: RocComparisonSettings, terms: Terms) -> ComparisonDraw:
    """One curve, with as many points as the earlier one; ``epsilon``-DP by ``roc_curve.measurement.measure_curve``."""
    return _with_earlier(measure_curve(statistic, _as_earlier(options), terms), options)


def read_shared(options: RocComparisonSettings, shared: SharedGroups) -> ComparisonDraw:
    """The draw of a comparison with an earlier release, from a measurement that several diagnostics share."""
    return _with_earlier(curve_of_groups(_as_earlier(options), shared), options)


def _as_earlier(options: RocComparisonSettings) -> RocCurveSettings:
    """The settings of a curve with as many points as the earlier one."""
    if options.compare_with is None:
        raise ValueError("counts of one model are compared with an earlier release: give compare_with")
    return RocCurveSettings(confidence=options.confidence, thresholds=len(options.compare_with.curve.fpr) - 1)


def _with_earlier(curve: RocDraw, options: RocComparisonSettings) -> ComparisonDraw:
    return ComparisonDraw(
        names=options.named,
        first=curve,
        second=None,
        sums=None,
        compare_with=options.compare_with,
        neighbours=curve.neighbours,
        guarantee=curve.guarantee,
        spendings=curve.spendings,
    )


def _measure_pair(statistic: PairedScoreCounts, options: RocComparisonSettings, terms: Terms) -> ComparisonDraw:
    """Both curves, then the sums of their placements' differences; ``epsilon``-DP.

    Three steps compose in sequence, and their costs add up to ``epsilon``: a curve for each model, from the counts of
    its scores, and ``mechanisms.paired_sums`` of the difference between both models' placements of a row, which
    depends on the row's cells and on the released curves alone. A row is counted once in each step. Both curves have
    as many points, a number that depends on the budget and the grid alone.
    """
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    parts = [meter.spend_share(CURVE_SHARE, label=f"curve of the {which} model") for which in ("first", "second")]
    curve = RocCurveSettings(confidence=options.confidence)
    points = points_for(curve, epsilon=float(parts[0]), grid=statistic.first.cells)
    curve = RocCurveSettings(confidence=options.confidence, thresholds=points)
    first, second = (
        measure_curve(counts, curve, Terms(epsilon=part, neighbours=neighbours, noise=noise), finer=FINER)
        for counts, part in zip((statistic.first, statistic.second), parts, strict=True)
    )
    values = statistic.differences(placements(first).of_rows, placements(second).of_rows)
    rest = meter.spend_rest(label=SUMS)
    sums = paired_sums(
        statistic.keys // PAIR_CELLS**2, values, statistic.counts, epsilon=rest, neighbours=neighbours, noise=noise
    )
    return ComparisonDraw(
        names=options.named,
        first=first,
        second=second,
        sums=sums,
        compare_with=None,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=(*_labelled("first", first), *_labelled("second", second), Spending(label=SUMS, epsilon=rest)),
    )


def _labelled(which: str, draw: RocDraw) -> tuple[Spending, ...]:
    return tuple(replace(spending, label=f"{which} model: {spending.label}") for spending in draw.spendings)
