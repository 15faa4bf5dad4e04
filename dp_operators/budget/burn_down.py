"""How the share of a cap that is left has gone down, and how long the rest lasts at the latest rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from dp_operators.budget.composition import Limits, fraction_spent
from dp_operators.budget.values import exact_budget
from spark_jobs.contract.privacy import Budget

RATE_DAYS = 30
"""The latest days whose charges make the rate, whatever days are shown."""
MIN_DAYS, MIN_CHARGES = 7, 3
"""How old an account and how many its latest charges must be before its rate says anything."""


@dataclass(frozen=True, kw_only=True)
class BurnDown:
    """The share of its cap that one block has left, day by day.

    Charges that were given back are left out. Every share is a share of today's cap, for past days too.

    Attributes:
        since: the first day.
        today: the last day (UTC).
        start: the share left before the first day.
        points: the share left at the end of each day with a charge, in order.
        left: the share left now.
        rate: the share spent a day, on average over the last ``RATE_DAYS`` days, or since the account was opened if
            that is later.
        rate_days: the number of days over which the rate is the average.
        early: whether the account is younger than ``MIN_DAYS`` or has fewer than ``MIN_CHARGES`` charges in the days of
            ``rate``.
    """

    since: date
    today: date
    start: float
    points: tuple[tuple[date, float], ...]
    left: float
    rate: float
    rate_days: int = RATE_DAYS
    early: bool = False

    @classmethod
    def of(
        cls,
        limits: Limits,
        spent: Budget,
        days: Mapping[date, Budget],
        *,
        since: date,
        today: date,
        opened: date,
        charges: Mapping[date, int],
    ) -> BurnDown:
        """The burn-down of a block.

        Args:
            limits: the limits of the block.
            spent: all that the block has spent.
            days: for each day with a charge from ``since`` on, in order, the sum of its charges to the block; in
                floats.
            since: the first day that is shown.
            today: the last day.
            opened: the day on which the account was opened.
            charges: how many charges each day had.
        """
        first = since if since <= today else today
        points: list[tuple[date, float]] = []
        rest, share = spent, _left(limits, spent)
        # backwards from now, where the sum is exact
        for day, cost in reversed(tuple(days.items())):
            points.append((day, _left(limits, rest)))
            rest = _without(rest, cost)
        points.reverse()
        began = max(today - timedelta(days=RATE_DAYS), min(opened, today))
        start = _left(limits, rest)
        before = next((left for day, left in reversed(points) if day < began), start)
        rate_days = max(1, (today - began).days)
        recent = sum(number for day, number in charges.items() if day >= began)
        return cls(
            since=first,
            today=today,
            start=start,
            points=tuple(points),
            left=share,
            rate=max(0.0, before - share) / rate_days,
            rate_days=rate_days,
            early=(today - opened).days < MIN_DAYS or recent < MIN_CHARGES,
        )

    @property
    def days_left(self) -> int | None:
        """The whole days until nothing is left at the rate; None if the rate is 0, or too ``early`` to tell."""
        if self.left == 0:
            return 0
        return int(self.left / self.rate) if self.rate > 0 and not self.early else None


def _left(limits: Limits, spent: Budget) -> float:
    return min(1.0, max(0.0, 1.0 - float(fraction_spent(limits, spent))))


def _without(spent: Budget, cost: Budget) -> Budget:
    """What was spent before ``cost``; never below 0, because sums of floats are rounded."""
    nothing = Decimal(0)
    rho = None if spent.rho is None else max(nothing, spent.rho - (cost.rho or nothing))
    return exact_budget(max(nothing, spent.epsilon - cost.epsilon), max(nothing, spent.delta - cost.delta), rho)
