"""How the share of a cap that is left goes down, and how long it lasts at the latest rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from dp_operators.budget.composition import Limits, fraction_spent
from dp_operators.budget.values import exact_budget
from spark_jobs.contract.privacy import Budget

RATE_DAYS = 30
"""The latest days whose charges make the rate."""


@dataclass(frozen=True, kw_only=True)
class BurnDown:
    """The share of its cap that one block has left, day by day.

    Charges that were given back are left out, and every share is one of today's cap: the past is shown as if the cap
    had always been what it is.

    Attributes:
        since: the first day.
        today: the last day (UTC).
        start: the share left before the first day.
        points: the share left at the end of each day with a charge, in order.
        left: the share left now.
        rate: the share spent a day, on average over the last ``RATE_DAYS`` days, or since the first day if that is
            later.
    """

    since: date
    today: date
    start: float
    points: tuple[tuple[date, float], ...]
    left: float
    rate: float

    @classmethod
    def of(cls, limits: Limits, spent: Budget, days: Mapping[date, Budget], *, since: date, today: date) -> BurnDown:
        """The burn-down of a block.

        Args:
            limits: the block's.
            spent: all that it has spent.
            days: what it was charged on each day from ``since`` on, in order; sums of floats.
            since: the first day.
            today: the last day.
        """
        first = since if since <= today else today
        points: list[tuple[date, float]] = []
        rest, share = spent, _left(limits, spent)
        # backwards from now, where the sum is exact
        for day, cost in reversed(tuple(days.items())):
            points.append((day, _left(limits, rest)))
            rest = _without(rest, cost)
        points.reverse()
        began = max(today - timedelta(days=RATE_DAYS), first)
        start = _left(limits, rest)
        before = next((left for day, left in reversed(points) if day < began), start)
        rate = max(0.0, before - share) / max(1, (today - began).days)
        return cls(since=first, today=today, start=start, points=tuple(points), left=share, rate=rate)

    @property
    def days_left(self) -> int | None:
        """The whole days until nothing is left at this rate; None if nothing was spent in its time."""
        return int(self.left / self.rate) if self.rate > 0 else None


def _left(limits: Limits, spent: Budget) -> float:
    return min(1.0, max(0.0, 1.0 - float(fraction_spent(limits, spent))))


def _without(spent: Budget, cost: Budget) -> Budget:
    """What was spent before ``cost``; never below 0, because sums of floats are rounded."""
    nothing = Decimal(0)
    rho = None if spent.rho is None else max(nothing, spent.rho - (cost.rho or nothing))
    return exact_budget(max(nothing, spent.epsilon - cost.epsilon), max(nothing, spent.delta - cost.delta), rho)
