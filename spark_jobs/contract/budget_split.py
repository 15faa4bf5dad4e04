"""How a request's budget is split: which diagnostics are paid for together, and what each part may cost.

Weights are relative and default to 1, so that by default all diagnostics get equal shares. Diagnostics that share one
noisy release pool their shares: each of them is as accurate as if it had the whole pool. If a diagnostic uses the
shared release for only a part of its result, it pays for the rest of its result from a share of its own. If a
diagnostic measures the same rows in another way, by a second model's scores or in many groups, and has no weight of its
own, it adds its share to the pool and gets half of the pool. Above an epsilon of ``SHARED_UP_TO`` per row the noise is
negligible, and each diagnostic is measured separately, in the cells that suit it best. Delta is split by the same
weights among the diagnostics that can spend delta. All shares are exact decimals, rounded down, so that their sum never
exceeds the budget.

A change of a unit of up to ``k`` rows is a sequence of ``k`` changes of one row. A mechanism that is ``(e, d)``-DP for
one row is therefore ``(k e, d (e^(k e) - 1) / (e^e - 1))``-DP for the unit (group privacy: Vadhan 2017, lemma 2.2). It
runs at ``e = epsilon / k``, and at the ``d`` for which the unit's delta equals the part's share.

A release also counts the rows that no diagnostic uses (``mechanisms.left_out``). If neighbours differ by replaced rows,
these counts have a share of their own, which is taken before all others; if rows are added or removed, these counts
cost nothing.

In a federation the noise is larger than that of one table by a public factor ``f``. The mechanisms are given ``e / f``,
so that the errors that they state are those of the larger noise; the silo asks for noise at ``e``, which is charged.

Where a release uses at most ``j`` rows of a unit (``ReleaseRequest.rows_of_unit``) and the account allows ``k``,
mechanisms run at ``epsilon / j``. The account states all costs per row of a unit of ``k`` rows, so a cost per row of
``j`` rows is multiplied by ``j / k``, rounded up; ``j / k`` then takes the place of the factor ``f``.

If a table bounds the groups in which a unit counts, or the rows of a unit (``noise_bound``), a delta is spent by
Gaussian noise. This noise is calibrated to all rows of the unit at once, so its delta and rho are those of the whole
unit (``mechanisms.cell_gaussian``). The privacy loss of the rows that count is then not proportional to their number,
and the counts of the unit's unused rows would add to the loss. So the counts of unused rows get a share of their own.
If noise without the delta is smaller (``gaussian_rule``), neither the delta nor this share is spent.

A budget of rho pays for one table with Gaussian noise; the counts of the rows that no diagnostic uses have a share of
this budget. If noise costs rho for one row, it costs a unit of ``k`` rows ``k^2 rho``, or a unit of ``g`` groups of
``r`` rows each ``g r^2 rho``. Pure noise with a share ``s`` of the rho costs the epsilon for which ``epsilon^2 / 2 =
s``. All costs in rho are stated for a whole unit.

The variance of headline figures between units with several rows is measured in a part of its own, whose share of
epsilon is taken first. Its mechanism runs at the cost to a unit, however many rows a unit has
(``mechanisms.unit_squares``); where costs are stated for one row, this cost is divided by the most rows of a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from spark_jobs.contract.gaussian_rule import spends_delta_of_unit
from spark_jobs.contract.left_out import SHARE
from spark_jobs.contract.odds import LossLaw, SpentAmounts
from spark_jobs.contract.options import AggregatesOptions, Options
from spark_jobs.contract.privacy import (
    KEPT_DIGITS,
    MAX_DIGITS,
    MAX_GROUP_EPSILON,
    Budget,
    Neighbours,
    delta_of_rows,
    epsilon_of_rho,
    exact_difference,
    rho_of_epsilon,
    share,
)
from spark_jobs.contract.release import PartSpending
from spark_jobs.contract.request import ReleaseRequest

DELTA_STEP = Decimal(1).scaleb(-MAX_DIGITS)
"""The smallest delta that a ledger can record."""
SHARED_UP_TO = Decimal(20)
"""The largest epsilon per row at which diagnostics share one noisy release."""


@dataclass(frozen=True, kw_only=True)
class BudgetPart:
    """A part of a request's budget, and the diagnostics that it pays for.

    Attributes:
        diagnostics: one diagnostic, or those that share one noisy release.
        users: other diagnostics that use this release for a part of their results; each pays for the rest of its result
            in a later part, of its own.
        rest: whether this is such a later part.
        of_units: whether it pays for measuring how much the figures of these diagnostics vary between units.
        granted: what the part may cost, for a whole privacy unit; if the budget is a rho, the part's share of the
            rho, and the epsilon for which ``epsilon^2 / 2`` is this share.
        max_rows: the most rows that one unit may have.
        noise_factor: the noise, as a multiple of that of one table at the same cost: above 1 in a federation
            (``Agreement.noise_factor``), below 1 where fewer rows of a unit are used than the account allows.
        of_groups: whether a delta is spent for a whole bounded unit, all of whose delta this part then has.
        rhos_of_row: the rho that noise costs a unit, as a multiple of the rho that it costs one row.
    """

    diagnostics: tuple[Options, ...]
    granted: Budget
    max_rows: int
    noise_factor: Decimal = Decimal(1)
    users: tuple[Options, ...] = ()
    rest: bool = False
    of_units: bool = False
    of_groups: bool = False
    rhos_of_row: int = 1

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the diagnostics that are computed from what the part pays for."""
        return tuple(options.kind for options in (*self.diagnostics, *self.users))

    @property
    def shared(self) -> bool:
        """Whether several diagnostics share one noisy release."""
        return len(self.kinds) > 1 and not self.of_units

    @property
    def epsilon_per_row(self) -> Decimal:
        """The epsilon for one row that mechanisms calibrate to: ``granted`` divided by rows and noise factor."""
        part = _part(self.granted.epsilon, Decimal(1), self.max_rows * self.noise_factor)
        if self.noise_factor == 1:
            return part
        # a little less, so that the rounding in ``of_row`` cannot push the sum above what is granted
        with localcontext(prec=2 * MAX_DIGITS):
            margin = (1000 / min(self.noise_factor, Decimal(1))).to_integral_value(ROUND_CEILING)
            return part - margin * Decimal(1).scaleb(max(part.adjusted() + 1, 0) - KEPT_DIGITS)

    @property
    def losses_of_rho(self) -> int | None:
        """``rhos_of_row`` if the budget is a rho; None if it is an epsilon."""
        return None if self.granted.rho is None else self.rhos_of_row

    @property
    def rho_per_row(self) -> Decimal | None:
        """The rho that Gaussian noise may cost one row; None unless the budget is a rho."""
        if self.granted.rho is None or self.rhos_of_row == self.noise_factor == 1:
            return self.granted.rho
        part = share(self.granted.rho, self.rhos_of_row, digits=KEPT_DIGITS)
        # a little less, so that rounding in ``rho_of_unit`` and ``of_row`` cannot push the sum above what is granted
        return part - 1000 * Decimal(1).scaleb(max(part.adjusted() + 1, 0) - KEPT_DIGITS)

    def rho_of_unit(self, rho: Decimal, epsilon: Decimal) -> Decimal:
        """What a unit loses where one of its rows loses ``rho``, rounded up to digits of a cost.

        It is not less than the rho of the pure ``epsilon`` that is stated for each of the account's rows, rounded up
        (``of_row``).
        """
        with localcontext(prec=4 * MAX_DIGITS, rounding=ROUND_CEILING):
            of_pure, whole = rho_of_epsilon(epsilon * self.max_rows), rho * self.rhos_of_row
            kept = whole.quantize(Decimal(1).scaleb(max(whole.adjusted() + 1, 0) - KEPT_DIGITS))
        return max(of_pure, rho if self.rhos_of_row == 1 else kept)

    def of_row(self, epsilon: Decimal) -> Decimal:
        """What a mechanism's ``epsilon`` costs for one of the account's rows: times ``noise_factor``, rounded up."""
        if self.noise_factor == 1:
            return epsilon
        with localcontext(prec=4 * MAX_DIGITS, rounding=ROUND_CEILING):
            whole = max(self.granted.epsilon.adjusted() - 4, 0)  # of large budgets, fewer digits after the point
            return (epsilon * self.noise_factor).quantize(Decimal(1).scaleb(whole - KEPT_DIGITS - 2))

    @property
    def delta_per_row(self) -> Decimal:
        """The delta that mechanisms may spend for one row, or for a whole unit if ``of_groups``; 0 for none."""
        if self.granted.delta == 0 or self.max_rows == 1:
            return self.granted.delta
        if not self.of_groups:
            return self._delta_of_one(self.epsilon_per_row)
        # without it the stated delta of one of the account's rows would be 0
        return self.granted.delta if self._delta_of_one(self.of_row(self.epsilon_per_row)) else Decimal(0)

    def stated_delta(self, delta: Decimal, epsilon: Decimal) -> Decimal:
        """The delta to state for one of the account's rows of a unit, where a mechanism spends ``delta``.

        It is ``delta`` itself, unless the mechanism spends it for a whole unit (``of_groups``): then it is the delta of
        one row that group privacy, at the ``epsilon`` stated for one row, turns into the delta of the unit.
        """
        if not self.of_groups or delta == 0 or self.max_rows == 1:
            return delta
        return self._delta_of_one(epsilon)

    def _delta_of_one(self, epsilon: Decimal) -> Decimal:
        """The delta of one of a unit's rows, at this epsilon of each of them, with which the unit has all of it."""
        if epsilon * (self.max_rows - 1) > MAX_GROUP_EPSILON:
            return Decimal(0)
        with localcontext(prec=2 * MAX_DIGITS):
            factor = ((epsilon * self.max_rows).exp() - 1) / (epsilon.exp() - 1)
        with localcontext(prec=2 * MAX_DIGITS, rounding=ROUND_FLOOR):
            # slightly less, so that the rounding of the exponentials cannot push it above the share
            return (self.granted.delta / factor * (1 - DELTA_STEP)).quantize(DELTA_STEP)

    def cost(self, epsilon: Decimal, delta: Decimal) -> Budget:
        """The cost to a whole unit of spending ``epsilon`` and ``delta`` for one row."""
        with localcontext(prec=4 * MAX_DIGITS):
            of_unit = epsilon * self.max_rows
        # a sum of shares may have more digits than a cost; rounded up it is still within what is granted
        with localcontext(prec=MAX_DIGITS, rounding=ROUND_CEILING):
            of_unit = +of_unit
        return Budget(epsilon=of_unit, delta=self.granted.delta if self.max_rows > 1 and delta > 0 else delta)

    def spending(self, label: str, spent: SpentAmounts) -> PartSpending:
        """The entry of the cost to a whole unit, for a mechanism that spends the amounts ``spent`` for one row.

        Under rho-zCDP, k rows cost ``k^2 rho`` (Bun and Steinke 2016, proposition 1.9), and the loss of one Gaussian
        vector is then that at k times the sensitivity. No other loss law is known to hold for several rows. If
        ``of_groups``, the delta and rho of Gaussian noise are already those of a unit; if the budget is a rho, the
        rho is already that of a unit.
        """
        rows, rho = self.max_rows, spent.rho
        with localcontext(prec=4 * MAX_DIGITS):
            of_unit = spent.epsilon * rows
        if self.granted.rho is not None:
            return PartSpending(label=label, epsilon=of_unit, law=spent.law, rho=rho)
        # rounded up, as an exact product may have more digits than are kept
        with localcontext(prec=KEPT_DIGITS, rounding=ROUND_CEILING):
            of_rho = None if rho is None else +rho * (1 if self.of_groups else rows**2)
        law = LossLaw.ANY if rho is None and rows > 1 else spent.law
        whole = self.of_groups and spent.delta > 0
        delta = self.granted.delta if whole else delta_of_rows(spent.epsilon, spent.delta, rows)
        return PartSpending(label=label, epsilon=of_unit, delta=delta, law=law, rho=of_rho)


def part_of_left_out(request: ReleaseRequest) -> BudgetPart:
    """The part that pays for the counts of the rows that no diagnostic uses (``mechanisms.left_out``).

    If rows are added or removed, this part may spend as much as all counts of the diagnostics together, and takes
    nothing from them, because each row is counted either here or by the diagnostics. The share that pays for measuring
    the variance between units is taken first, and is available to neither.
    """
    if request.budget.rho is not None:
        return _part_of_rho(request, (), _rho_of_left_out(request.budget.rho))
    return _part_of(request, (), _epsilon_of_left_out(request), Decimal(0))


def _rho_of_left_out(rho: Decimal) -> Decimal:
    return share(rho, SHARE, digits=KEPT_DIGITS)


def _part_of_rho(request: ReleaseRequest, diagnostics: tuple[Options, ...], rho: Decimal) -> BudgetPart:
    bound = request.group_bound
    part = _part_of(request, diagnostics, epsilon_of_rho(rho), Decimal(0))
    rhos = request.rows_of_unit**2 if bound is None else bound.groups * bound.rows**2
    return replace(part, granted=Budget(epsilon=part.granted.epsilon, rho=rho), rhos_of_row=rhos)


def pays_for_left_out(request: ReleaseRequest) -> bool:
    """Whether the counts of rows that did not count have a share of the budget, rather than cost nothing."""
    in_rho = request.budget.rho is not None
    return in_rho or request.neighbours is not Neighbours.ADD_REMOVE or _of_groups(request)


def _of_groups(request: ReleaseRequest) -> bool:
    return spends_delta_of_unit(request.diagnostics, request.budget, request.neighbours)


def _delta_of(request: ReleaseRequest) -> Decimal:
    """What may be spent of delta: none where the noise of a bounded unit is smaller without it."""
    bounded = any(isinstance(one, AggregatesOptions) and one.noise_bound is not None for one in request.diagnostics)
    return Decimal(0) if bounded and not _of_groups(request) else request.budget.delta


def _epsilon_of_left_out(request: ReleaseRequest) -> Decimal:
    epsilon = request.budget.epsilon
    if not pays_for_left_out(request):
        return exact_difference(epsilon, _epsilon_of_units(request))
    return _part(epsilon, Decimal(1), Decimal(SHARE))


def _epsilon_of_units(request: ReleaseRequest) -> Decimal:
    return _part(request.budget.epsilon, request.share_of_units, Decimal(1))


def split_budget(request: ReleaseRequest) -> tuple[BudgetPart, ...]:
    """The parts of a request's budget, in the order of its diagnostics; a shared part stands at its first."""
    if request.budget.rho is not None:
        rest = exact_difference(request.budget.rho, _rho_of_left_out(request.budget.rho))
        return (_part_of_rho(request, request.diagnostics, rest),)
    separate = request.budget.epsilon > SHARED_UP_TO * request.unit.max_rows
    groups = _apart(request.diagnostics) if separate else _groups(request.diagnostics)
    using = {options.kind for group in groups for options in group.users}
    everything, approximate = _weight(request.diagnostics), _weight_of_delta(request.diagnostics)
    of_units = _epsilon_of_units(request)
    epsilon = exact_difference(request.budget.epsilon, of_units)
    if pays_for_left_out(request):
        with localcontext(prec=4 * MAX_DIGITS):
            epsilon -= _epsilon_of_left_out(request)
    parts = tuple(
        replace(
            _part_of(
                request,
                group.diagnostics,
                _part(epsilon, group.weight, everything),
                _part(_delta_of(request), _weight_of_delta(group.diagnostics), approximate),
            ),
            users=group.users,
            rest=not group.users and group.diagnostics[0].kind in using,
        )
        for group in groups
    )
    return (*parts, _units_part(request, of_units)) if of_units else parts


def _units_part(request: ReleaseRequest, epsilon: Decimal) -> BudgetPart:
    kinds = {kind for kind, _ in request.unit_figures}
    served = tuple(options for options in request.diagnostics if options.kind in kinds)
    granted, rows = Budget(epsilon=epsilon), request.unit.max_rows
    return BudgetPart(diagnostics=served, granted=granted, max_rows=rows, of_units=True)


def _part_of(request: ReleaseRequest, diagnostics: tuple[Options, ...], epsilon: Decimal, delta: Decimal) -> BudgetPart:
    agreement = None if request.federation is None else request.federation.agreement
    return BudgetPart(
        diagnostics=diagnostics,
        granted=Budget(epsilon=epsilon, delta=delta),
        max_rows=request.unit.max_rows,
        noise_factor=_of_fewer_rows(request) if agreement is None else agreement.noise_factor,
        of_groups=_of_groups(request),
    )


def _of_fewer_rows(request: ReleaseRequest) -> Decimal:
    """The part of the account's rows of a unit that are used, rounded up."""
    with localcontext(prec=KEPT_DIGITS, rounding=ROUND_CEILING):
        return Decimal(request.rows_of_unit) / request.unit.max_rows


def _weight(diagnostics: Sequence[Options]) -> Decimal:
    return sum((options.effective_weight for options in diagnostics), Decimal(0))


def _weight_of_delta(diagnostics: Sequence[Options]) -> Decimal:
    return _weight([options for options in diagnostics if options.accepts_delta])


@dataclass(frozen=True)
class _Group:
    """The diagnostics that one part pays for, those that use its release, and its weight."""

    diagnostics: tuple[Options, ...]
    weight: Decimal
    users: tuple[Options, ...] = ()


def _apart(diagnostics: Sequence[Options]) -> tuple[_Group, ...]:
    return tuple(_Group((options,), options.effective_weight) for options in diagnostics)


def _groups(diagnostics: Sequence[Options]) -> tuple[_Group, ...]:
    """The diagnostics of each part, its users and its weight.

    A second model gets half of the pool, and groups that are measured apart half of the first model's part.
    """
    sharing = tuple(options for options in diagnostics if options.can_share)
    users = tuple(options for options in diagnostics if options.uses_shared)
    if not sharing or len(sharing) + len(users) < 2:
        return _apart(diagnostics)
    halving = sorted((options for options in diagnostics if options.halves_shared), key=lambda one: not one.uses_shared)
    weight, halves = _weight((*sharing, *halving)), {}
    for options in halving:
        weight /= 2
        halves[options.kind] = weight
    groups: list[_Group] = []
    first = next(options for options in diagnostics if options.can_share or options.uses_shared)
    for options in diagnostics:
        if options is first:
            groups.append(_Group(sharing, weight, users))
        if not options.can_share:
            groups.append(_Group((options,), halves.get(options.kind, options.effective_weight)))
    return tuple(groups)


def _part(amount: Decimal, weight: Decimal, everything: Decimal) -> Decimal:
    """``amount * weight / everything``, rounded down; exactly ``amount`` if nothing else is paid for."""
    if weight == 0 or amount == 0:
        return Decimal(0)
    if weight == everything:
        return amount
    quantum = Decimal(1).scaleb(max(amount.adjusted() + 1, 0) - KEPT_DIGITS)
    with localcontext(prec=3 * MAX_DIGITS, rounding=ROUND_FLOOR):
        return (amount * weight / everything).quantize(quantum)
