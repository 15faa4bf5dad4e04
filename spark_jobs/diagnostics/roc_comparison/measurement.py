"""The random part of a comparison: a draw for each model's curve, and sums over the pairs of scores of each row.

The first model's curve may be that of a shared release, which other diagnostics have paid for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from spark_jobs.contract.grids import PAIR_CELLS
from spark_jobs.contract.options import EarlierCurve, RocComparisonSettings, RocCurveSettings
from spark_jobs.diagnostics._shared_groups.measurement import SharedGroups
from spark_jobs.diagnostics.class_sizes import ClassSizes
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.roc_comparison.placements import placements
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve
from spark_jobs.diagnostics.roc_curve.shared import curve_of_groups
from spark_jobs.mechanisms.meter import Spending
from spark_jobs.mechanisms.paired_sums import PairedSums, paired_sums
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.statistics import PairedScoreCounts, ScoreCounts

CURVE_SHARE = Decimal("0.25")
"""Share of the budget for each curve. The difference of the AUCs depends on their errors to second order alone."""
NEGLIGIBLE = 0.1
"""What rows without a second score may move a difference by, in standard deviations of the noise of its sums."""

SUMS = "number, sum and sum of squares of the placements' differences in each class"
FINER = 4
"""Times as many cells as a curve alone would have, if the signal is large: a finer curve places the rows better."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonDraw(Draw):
    """The draws of a comparison.

    Attributes:
        names: names of the models, the request's first.
        first, second: draws of the curves; the second is None if the other curve is an earlier release's.
        sums: noisy sums over the pairs of scores; None if the other curve is an earlier release's.
        compare_with: the earlier release's curve; None for two models on the same rows.
        first_is_shared: whether the first curve comes from a measurement that other diagnostics share. Then its rows
            may lack the second score, and its cost is no part of ``spendings``.
        first_of_pairs: draw of the first model's curve on the rows that have both scores, if it is not ``first``.
    """

    names: tuple[str, str]
    first: RocDraw
    second: RocDraw | None
    sums: PairedSums | None
    compare_with: EarlierCurve | None
    first_is_shared: bool = False
    first_of_pairs: RocDraw | None = None

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


def measure_rest(
    statistic: PairedScoreCounts, options: RocComparisonSettings, terms: Terms, shared: SharedGroups
) -> ComparisonDraw:
    """Draw what a comparison needs beside a shared release; ``epsilon``-DP, given that release.

    The steps are those of a comparison alone, but the first curve is drawn only if too many rows lack the second score,
    which noisy sizes decide. The cost of the shared release was paid before (adaptive composition).
    """
    settings = RocCurveSettings(confidence=options.confidence)
    return _measure_pair(statistic, options, terms, shared=curve_of_groups(settings, shared))


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


def _measure_pair(
    statistic: PairedScoreCounts, options: RocComparisonSettings, terms: Terms, *, shared: RocDraw | None = None
) -> ComparisonDraw:
    """Both curves, then the sums of their placements' differences; ``epsilon``-DP.

    The steps compose in sequence, and their costs add up to ``epsilon``: a curve for each model, from the counts of
    its scores, and ``mechanisms.paired_sums`` of the difference between both models' placements of a row, which
    depends on the row's cells and on the released curves alone. A row is counted once in each step. Which steps there
    are depends on released numbers alone. Both curves have as many points, a number that depends on the budget and
    the grid alone.
    """
    meter, neighbours, noise = terms.meter(), terms.neighbours, terms.noise
    spendings: list[Spending] = []

    def curve(counts: ScoreCounts, which: str, *, points: int | None) -> RocDraw:
        part = meter.spend_share(CURVE_SHARE, label=f"curve of the {which} model")
        settings = RocCurveSettings(confidence=options.confidence, thresholds=points)
        draw = measure_curve(counts, settings, Terms(epsilon=part, neighbours=neighbours, noise=noise), finer=FINER)
        spendings.extend(replace(spent, label=f"{which} model: {spent.label}") for spent in draw.spendings)
        return draw

    first = curve(statistic.first, "first", points=None) if shared is None else shared
    second, of_pairs = curve(statistic.second, "second", points=first.thresholds), None
    if shared is not None and not _nearly_of_pairs(shared, second, epsilon=float(meter.remaining)):
        of_pairs = curve(statistic.first, "first", points=first.thresholds)
    one, other = (placements(draw).of_rows for draw in (of_pairs or first, second))
    rest = meter.spend_rest(label=SUMS)
    sums = paired_sums(
        statistic.keys // PAIR_CELLS**2,
        statistic.differences(one, other),
        statistic.counts,
        epsilon=rest,
        neighbours=neighbours,
        noise=noise,
    )
    return ComparisonDraw(
        names=options.named,
        first=first,
        second=second,
        sums=sums,
        compare_with=None,
        first_is_shared=shared is not None,
        first_of_pairs=of_pairs,
        neighbours=neighbours,
        guarantee=noise.guarantee,
        spendings=(*spendings, Spending(label=SUMS, epsilon=rest)),
    )


def _nearly_of_pairs(shared: RocDraw, second: RocDraw, *, epsilon: float) -> bool:
    """Whether rows without a second score are so few that the shared curve can place the rows that have both.

    With a share m of a class, such rows move its distribution by m (F - M), where F is that of the rows with both
    scores and M theirs. The range of F - M is at most 1: where one of the two is ahead by a, the other cannot get ahead
    by more than 1 - a elsewhere. So the second-order term of a difference of areas (``difference``) is moved by at most
    the product of both shares; and by the noise of the other class's counts, over its size, with a standard deviation
    of at most m times the root of the sum of their variances. Both must be small beside the noise of the sums, at
    ``epsilon``.
    """
    counts = [[tree.counts().sum() for tree in (draw.negatives, draw.positives)] for draw in (shared, second)]
    of_all, of_pairs = np.maximum(counts, 1.0)
    without = np.clip(1 - of_pairs / of_all, 0.0, 1.0)
    spreads = math.sqrt(shared.negatives.range_variance(0, shared.cuts.size - 1)) / of_all
    reach = 2.5 * rows_changed(shared.neighbours) / epsilon / of_pairs.min()
    return bool(max(without.prod(), *(without * spreads[::-1])) <= NEGLIGIBLE * reach)
