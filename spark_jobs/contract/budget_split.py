"""How a request's budget is split: which diagnostics are paid for together, and what each part may cost.

Weights are relative; a diagnostic without one has weight 1, so that by default all get the same. Diagnostics that
share one noisy release pool their parts: each of them is as accurate as if it had been given all of it. Above an
epsilon of ``SHARED_UP_TO`` for one row noise is no concern, and each is counted by itself, in the cells that suit it.
Delta is split by the same weights among the diagnostics that can spend delta. All shares are exact decimals, rounded
down, so that their sum never exceeds the budget.

A unit of up to ``k`` rows changes the counts like that many rows, one after the other. A mechanism that is
``(e, d)``-DP for one row is ``(k e, d (e^(k e) - 1) / (e^e - 1))``-DP for the unit (group privacy: Vadhan 2017, lemma
2.2), so it runs at ``e = epsilon / k`` and the ``d`` that gives the share of delta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext

from spark_jobs.contract.options import Options
from spark_jobs.contract.privacy import MAX_DIGITS, MAX_GROUP_EPSILON, Budget, delta_of_rows
from spark_jobs.contract.release import PartSpending
from spark_jobs.contract.request import ReleaseRequest

DELTA_STEP = Decimal(1).scaleb(-MAX_DIGITS)
SHARED_UP_TO = Decimal(20)
KEPT_DIGITS = 22
"""Of a part: it leaves room for sums, and for products with whole numbers, within the digits that a ledger keeps."""


@dataclass(frozen=True, kw_only=True)
class BudgetPart:
    """A part of the budget, and what is bought for it.

    Attributes:
        diagnostics: one, or several that share one noisy release.
        granted: what the part may cost, for a whole privacy unit.
        max_rows: of one unit.
    """

    diagnostics: tuple[Options, ...]
    granted: Budget
    max_rows: int

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the part pays for."""
        return tuple(options.kind for options in self.diagnostics)

    @property
    def shared(self) -> bool:
        """Whether several diagnostics are made from one noisy release."""
        return len(self.diagnostics) > 1

    @property
    def epsilon_per_row(self) -> Decimal:
        """What the mechanisms may spend, for one row."""
        return _part(self.granted.epsilon, Decimal(1), Decimal(self.max_rows))

    @property
    def delta_per_row(self) -> Decimal:
        """The delta that the mechanisms may spend, for one row; 0 where the part has none."""
        if self.granted.delta == 0 or self.max_rows == 1:
            return self.granted.delta
        if self.epsilon_per_row * (self.max_rows - 1) > MAX_GROUP_EPSILON:
            return Decimal(0)
        with localcontext(prec=2 * MAX_DIGITS):
            once = self.epsilon_per_row.exp() - 1
            factor = ((self.epsilon_per_row * self.max_rows).exp() - 1) / once
        with localcontext(prec=2 * MAX_DIGITS, rounding=ROUND_FLOOR):
            # a last digit less than nothing is lost to the rounding of the exponentials
            return (self.granted.delta / factor * (1 - DELTA_STEP)).quantize(DELTA_STEP)

    def cost(self, epsilon: Decimal, delta: Decimal) -> Budget:
        """What spendings of ``epsilon`` and ``delta`` for one row cost a whole unit."""
        with localcontext(prec=4 * MAX_DIGITS):
            of_unit = epsilon * self.max_rows
        return Budget(epsilon=of_unit, delta=self.granted.delta if self.max_rows > 1 and delta > 0 else delta)

    def spending(self, label: str, epsilon: Decimal, delta: Decimal) -> PartSpending:
        """What a whole unit loses to a mechanism that spends ``epsilon`` and ``delta`` for one row."""
        with localcontext(prec=4 * MAX_DIGITS):
            of_unit = epsilon * self.max_rows
        return PartSpending(label=label, epsilon=of_unit, delta=delta_of_rows(epsilon, delta, self.max_rows))


def split_budget(request: ReleaseRequest) -> tuple[BudgetPart, ...]:
    """The parts of the request's budget, in the order of its diagnostics; a shared part stands where its first does."""
    separate = request.budget.epsilon > SHARED_UP_TO * request.unit.max_rows
    groups = tuple((options,) for options in request.diagnostics) if separate else _groups(request.diagnostics)
    everything, approximate = _weight(request.diagnostics), _weight_of_delta(request.diagnostics)
    return tuple(
        BudgetPart(
            diagnostics=group,
            granted=Budget(
                epsilon=_part(request.budget.epsilon, _weight(group), everything),
                delta=_part(request.budget.delta, _weight_of_delta(group), approximate),
            ),
            max_rows=request.unit.max_rows,
        )
        for group in groups
    )


def _weight(diagnostics: Sequence[Options]) -> Decimal:
    return sum((options.effective_weight for options in diagnostics), Decimal(0))


def _weight_of_delta(diagnostics: Sequence[Options]) -> Decimal:
    return _weight([options for options in diagnostics if options.accepts_delta])


def _groups(diagnostics: Sequence[Options]) -> tuple[tuple[Options, ...], ...]:
    sharing = tuple(options for options in diagnostics if options.can_share)
    if len(sharing) < 2:
        return tuple((options,) for options in diagnostics)
    groups: list[tuple[Options, ...]] = []
    for options in diagnostics:
        if options is sharing[0]:
            groups.append(sharing)
        elif not options.can_share:
            groups.append((options,))
    return tuple(groups)


def _part(amount: Decimal, weight: Decimal, everything: Decimal) -> Decimal:
    """``amount * weight / everything``, rounded down; all of it, as it is, where nothing else is bought."""
    if weight == 0 or amount == 0:
        return Decimal(0)
    if weight == everything:
        return amount
    quantum = Decimal(1).scaleb(max(amount.adjusted() + 1, 0) - KEPT_DIGITS)
    with localcontext(prec=3 * MAX_DIGITS, rounding=ROUND_FLOOR):
        return (amount * weight / everything).quantize(quantum)
