"""The random part of a comparison: one draw for each model's curve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from spark_jobs.contract.options import RocCurveOptions
from spark_jobs.contract.privacy import Neighbours, exact_sum
from spark_jobs.diagnostics.roc_curve import measurement as roc
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.statistics import ScoreCounts

HALF = Decimal("0.5")


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """The draws of both curves.

    Attributes:
        first, second: of the models, in the order of the request.
    """

    first: roc.Measurement
    second: roc.Measurement

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """What each part of both draws cost."""
        return tuple(
            replace(spending, label=f"{which} model: {spending.label}")
            for which, draw in (("first", self.first), ("second", self.second))
            for spending in draw.spendings
        )

    @property
    def epsilon(self) -> Decimal:
        """What all of it cost."""
        return exact_sum(*(spending.epsilon for spending in self.spendings))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {"first": self.first.to_dict(), "second": self.second.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Measurement:
        """The measurement that ``to_dict`` described."""
        return cls(**{name: roc.Measurement.from_dict(fields[name]) for name in ("first", "second")})


def measure(
    statistic: tuple[ScoreCounts, ScoreCounts],
    *,
    epsilon: Cost,
    neighbours: Neighbours,
    noise: Noise,
    confidence: float,
) -> Measurement:
    """Draw the noise of both curves; ``epsilon``-DP for one row added, removed or replaced.

    Each curve has half of the budget, which ``roc_curve.measure`` keeps to; a row is in both, so they compose in
    sequence. Both curves have as many points, a number that depends on the budget and the grid alone.

    Args:
        statistic: exact counts of both models' scores, on one grid; private.
        epsilon: what the release may cost; all of it is spent.
        neighbours: the relation.
        noise: where the noise comes from.
        confidence: nominal level of bands and intervals.

    Raises:
        RequestRefused: an option is out of its bounds.
    """
    meter = BudgetMeter(epsilon)
    parts = (
        meter.spend_share(HALF, label="curve of the first model"),
        meter.spend_rest(label="curve of the second model"),
    )
    options = RocCurveOptions(kind="roc_curve", confidence=confidence)
    points = roc.points_for(options, epsilon=float(parts[0]), grid=statistic[0].cells)
    first, second = (
        roc.measure(counts, epsilon=part, neighbours=neighbours, noise=noise, thresholds=points, confidence=confidence)
        for counts, part in zip(statistic, parts, strict=True)
    )
    return Measurement(first=first, second=second)
