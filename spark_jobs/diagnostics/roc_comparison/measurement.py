"""The random part of a comparison: one draw for each model's curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from spark_jobs.contract.options import RocComparisonSettings, RocCurveSettings
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.diagnostics.roc_curve.measurement import RocDraw, measure_curve, points_for
from spark_jobs.statistics import ScoreCounts

HALF = Decimal("0.5")
BothCounts = tuple[ScoreCounts, ScoreCounts]
"""Exact counts of both models' scores on the same rows and one grid."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonDraw(Draw):
    """The draws of both curves.

    Attributes:
        first, second: of the models, in the order of the request.
    """

    first: RocDraw
    second: RocDraw


def measure_both(statistic: BothCounts, options: RocComparisonSettings, terms: Terms) -> ComparisonDraw:
    """Draw the noise of both curves; ``epsilon``-DP for one row added, removed or replaced.

    Each curve has half of the budget, which ``roc_curve.measurement.measure_curve`` keeps to; a row is in both, so they
    compose in sequence. Both curves have as many points, a number that depends on the budget and the grid alone.

    Args:
        statistic: exact counts of both models' scores; private.
        options: the settings.
        terms: budget, relation and noise; all of the budget is spent.
    """
    meter = terms.meter()
    parts = (
        meter.spend_share(HALF, label="curve of the first model"),
        meter.spend_rest(label="curve of the second model"),
    )
    curve = RocCurveSettings(confidence=options.confidence)
    points = points_for(curve, epsilon=float(parts[0]), grid=statistic[0].cells)
    curve = RocCurveSettings(confidence=options.confidence, thresholds=points)
    first, second = (
        measure_curve(counts, curve, Terms(epsilon=part, neighbours=terms.neighbours, noise=terms.noise))
        for counts, part in zip(statistic, parts, strict=True)
    )
    return ComparisonDraw(
        first=first,
        second=second,
        neighbours=terms.neighbours,
        guarantee=terms.noise.guarantee,
        spendings=tuple(
            replace(spending, label=f"{which} model: {spending.label}")
            for which, draw in (("first", first), ("second", second))
            for spending in draw.spendings
        ),
    )
