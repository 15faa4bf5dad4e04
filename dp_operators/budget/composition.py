"""Composition: how the costs of charges add up, and whether a further charge fits into a cap.

Every rule below is a *privacy filter*: mechanisms, their costs, and whether to continue may be chosen adaptively, after
all earlier answers, and everything released together still has the cap's guarantee under the account's neighbours.
A cost is reserved before its mechanism runs, so the sum that is compared with the cap includes every draw.

``pure``: epsilons add up to at most the cap's (Rogers, Roth, Ullman, Vadhan, "Privacy Odometers and Filters", 2016,
section 3). Proof: the likelihood ratio of any transcript is a product of conditional ratios, each at most e^epsilon_i,
and on every transcript the epsilons sum to at most the cap.

``zcdp``: rhos add up to at most the cap's (Whitehouse, Ramdas, Rogers, Wu, "Fully-Adaptive Composition in Differential
Privacy", 2023; Feldman and Zrnic 2021 for Renyi divergences). A pure epsilon costs rho = epsilon^2/2 (Bun and Steinke
2016, proposition 1.4). A sum rho is reported as epsilon = rho + 2 sqrt(rho ln(1/delta)) at delta.

``approximate``: the cap's delta is split in two. Deltas add up to at most ``delta - slack``; and either epsilons add up
to at most the cap's epsilon, or the epsilon_i^2/2 add up to at most the rho for which rho + 2 sqrt(rho ln(1/slack)) is
the cap's epsilon (Whitehouse et al.: the constants of advanced composition). With ``slack = 0`` only exact sums count.
Proof: an (epsilon_i, delta_i) mechanism is, for a fixed pair of neighbours, a function of a randomised response that
reveals everything with probability delta_i and otherwise has loss L_i within +-epsilon_i (Kairouz, Oh, Viswanath 2015);
something is revealed with probability at most delta - slack. If nothing is revealed: for the one c > 0 that minimises
the bound at the cap's rho, exp(c sum L_i - c(c+1) sum epsilon_i^2/2) is a supermartingale (Bun and Steinke, proposition
3.3); by Ville's inequality the probability that at *any* time the loss exceeds (c+1) sum epsilon_i^2/2 + ln(1/slack)/c,
which is at most the cap's epsilon as long as the second sum fits, is at most slack. If the first sum fits, the loss
never exceeds the cap's epsilon. So the loss is above epsilon with probability at most delta, whichever sum fits in the
end. In the tests, the best adversary, found by backward induction, exceeds epsilon with a probability of 0.03 to 0.4
times the slack.

Sums are sums of exact decimals and are never rounded. What is computed from a square root or a logarithm is rounded
in the direction that admits less.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Any

from dp_operators.budget.values import exact_budget
from spark_jobs.contract.account import Composition
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import (
    MAX_DIGITS,
    MAX_EPSILON,
    Budget,
    exact_decimal,
    exact_difference,
    exact_sum,
    half_square,
    plain,
)

COMPOSITIONS: tuple[Composition, ...] = ("pure", "zcdp", "approximate")
PURE, ZCDP, APPROXIMATE = COMPOSITIONS
KINDS = ("pure", "gaussian", "approximate")
"""Kinds of charges: of an epsilon, of a rho, or of an epsilon and a delta."""

_ZERO = Decimal(0)
_PRECISION = 120


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a block's charges: on delta, and on epsilon or rho. None means that the sum is not used."""

    epsilon: Decimal | None
    delta: Decimal
    rho: Decimal | None


def known_composition(composition: Any) -> Composition:
    """``composition``, checked to be one of ``COMPOSITIONS``.

    Raises:
        InvalidRequest: it is not one of them.
    """
    for known in COMPOSITIONS:
        if composition == known:
            return known
    raise InvalidRequest("composition", composition, "must be one of " + ", ".join(COMPOSITIONS), "choose one")


def cap_of(composition: str, epsilon: Any, delta: Any, rho: Any, slack: Any = None) -> tuple[Budget, Decimal]:
    """Check the amounts of a cap; return the cap, with all its amounts, and its slack.

    Args:
        composition: the account's composition.
        epsilon: the cap; for a ``zcdp`` account it may be given instead of ``rho``, and is converted to rho at
            ``delta``.
        delta: the cap's delta of an ``approximate`` account; the delta at which a ``zcdp`` account's epsilon is
            reported.
        rho: the cap of a ``zcdp`` account.
        slack: the part of an ``approximate`` cap's delta that pays for the sum of squares; by default half of the
            delta.

    Raises:
        InvalidRequest: an amount is out of its bounds, missing, or not used by this composition.
    """
    chance = _fraction("delta", delta)
    if composition != APPROXIMATE and slack is not None:
        raise _not_of("slack", slack, composition)
    if composition == PURE:
        _none("delta", delta, composition)
        _none("rho", rho, composition)
        return exact_budget(_positive("epsilon", epsilon)), _ZERO
    if composition == ZCDP:
        if chance == 0:
            raise InvalidRequest(
                "delta",
                "0",
                "must be above 0, because the account reports its epsilon at this delta",
                "give e.g. '1e-6'",
            )
        if (rho is None) == (epsilon is None):
            raise InvalidRequest(
                "rho", rho, "exactly one of rho and epsilon must be given", "give rho alone, or epsilon alone"
            )
        limit = _rho_within(_positive("epsilon", epsilon), chance) if rho is None else _positive("rho", rho)
        epsilon_at_delta = epsilon_at(limit, chance) if rho is not None else _positive("epsilon", epsilon)
        return exact_budget(epsilon_at_delta, chance, limit), _ZERO
    _none("rho", rho, composition)
    limit = _positive("epsilon", epsilon)
    part = _half(chance) if slack is None else _fraction("slack", slack)
    if part > chance:
        raise InvalidRequest("slack", plain(part), f"must be at most delta, {plain(chance)}", "give a part of delta")
    return exact_budget(limit, chance, _rho_within(limit, part) if part else None), part


def limits_of(composition: str, cap: Budget, slack: Decimal) -> Limits:
    """The limits of the charges of a block."""
    if composition == PURE:
        return Limits(epsilon=cap.epsilon, delta=_ZERO, rho=None)
    if composition == ZCDP:
        return Limits(epsilon=None, delta=_ZERO, rho=cap.rho)
    return Limits(epsilon=cap.epsilon, delta=exact_difference(cap.delta, slack), rho=cap.rho)


def cost_in(composition: str, epsilon: Any, delta: Any = 0, rho: Any = None) -> Budget:
    """The cost of a charge in the amounts that the account adds up; its rho is exact.

    Raises:
        InvalidRequest: the cost is not positive, or the account cannot add up such costs.
    """
    if composition == PURE:
        _none("delta", delta, composition)
        _none("rho", rho, composition)
        return exact_budget(_positive("epsilon", epsilon))
    if composition == ZCDP:
        _none("delta", delta, composition)
        if rho is None:
            amount = _positive("epsilon", epsilon)
            return exact_budget(amount, _ZERO, half_square(amount))
        _none("epsilon", epsilon, "zcdp, beside a rho")
        return exact_budget(_ZERO, _ZERO, _positive("rho", rho))
    _none("rho", rho, composition)
    amount = _positive("epsilon", epsilon)
    return exact_budget(amount, _fraction("delta", delta), half_square(amount))


def zero_cost(composition: str) -> Budget:
    """The sum of no charges: 0 in each amount that the composition adds up."""
    return exact_budget(_ZERO, _ZERO, None if composition == PURE else _ZERO)


def is_raise(composition: str, old: Budget, new: Budget) -> bool:
    """Whether ``new`` admits all that ``old`` does.

    The epsilon and delta of a ``zcdp`` cap only report its rho, so they are not compared.
    """
    in_rho = (old.rho or _ZERO) <= (new.rho or _ZERO)
    return in_rho and (composition == ZCDP or (old.epsilon <= new.epsilon and old.delta <= new.delta))


def added(spent: Budget, cost: Budget) -> Budget:
    """The sum after ``cost`` is added."""
    return exact_budget(
        exact_sum(spent.epsilon, cost.epsilon), exact_sum(spent.delta, cost.delta), _sum(spent.rho, cost.rho)
    )


def total(costs: Sequence[Budget]) -> Budget:
    """The sum of at least one cost."""
    rhos = [cost.rho for cost in costs if cost.rho is not None]
    return exact_budget(
        exact_sum(*(cost.epsilon for cost in costs)),
        exact_sum(*(cost.delta for cost in costs)),
        exact_sum(*rhos) if rhos else None,
    )


def subtracted(spent: Budget, cost: Budget) -> Budget:
    """The sum after ``cost``, which is part of it, is given back."""
    back = None if cost.rho is None else cost.rho.copy_negate()
    return exact_budget(
        exact_difference(spent.epsilon, cost.epsilon),
        exact_difference(spent.delta, cost.delta),
        _sum(spent.rho, back),
    )


def fits(limits: Limits, spent: Budget) -> bool:
    """Whether ``spent`` is within the limits."""
    with localcontext(prec=200):
        in_epsilon = limits.epsilon is not None and spent.epsilon <= limits.epsilon
        in_rho = limits.rho is not None and spent.rho is not None and spent.rho <= limits.rho
        return spent.delta <= limits.delta and (in_epsilon or in_rho)


def room(limits: Limits, spent: Budget, kind: str = "pure") -> Budget:
    """The largest charge of a kind that still fits: an epsilon, a rho, or an epsilon and a delta at once.

    It is 0 if the account cannot be charged costs of this kind.

    Raises:
        InvalidRequest: no such kind.
    """
    if kind not in KINDS:
        raise InvalidRequest("kind", kind, "must be one of " + ", ".join(KINDS), "choose one")
    delta = max(exact_difference(limits.delta, spent.delta), _ZERO)
    rho = None if limits.rho is None else max(exact_difference(limits.rho, spent.rho or _ZERO), _ZERO)
    if kind == "gaussian":
        return exact_budget(_ZERO, _ZERO, rho if limits.epsilon is None else _ZERO)
    ways = [] if limits.epsilon is None else [exact_difference(limits.epsilon, spent.epsilon)]
    ways += [] if rho is None else [_root_of_twice(rho)]
    return exact_budget(max([*ways, _ZERO]), delta if kind == "approximate" else _ZERO, rho)


def fraction_spent(limits: Limits, spent: Budget) -> Decimal:
    """The fraction of the limits that is spent.

    Of an account with limits on epsilon and on rho, charges need to fit only one of the two, so the smaller fraction
    counts; delta is a limit of its own, so the larger of that fraction and delta's is the result.
    """
    ways = [
        amount / limit
        for amount, limit in ((spent.epsilon, limits.epsilon), (spent.rho, limits.rho))
        if amount is not None and limit is not None and limit > 0
    ]
    delta = spent.delta / limits.delta if limits.delta > 0 else _ZERO
    return max(min(ways, default=_ZERO), delta)


def minimum(budgets: Iterable[Budget]) -> Budget:
    """What is left under several limits: the minimum of each amount."""
    several = tuple(budgets)
    rhos = [budget.rho for budget in several if budget.rho is not None]
    return exact_budget(
        min(budget.epsilon for budget in several), min(budget.delta for budget in several), min(rhos) if rhos else None
    )


def epsilon_at(rho: Decimal, delta: Decimal) -> Decimal:
    """The epsilon at ``delta`` that rho-zCDP implies, rounded up (Bun and Steinke 2016, proposition 1.3)."""
    with localcontext(prec=_PRECISION):
        exact = rho + 2 * (rho * -delta.ln()).sqrt()
        step = _step(exact)
        return _rounded(exact + step, step)


def _rho_within(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The largest rho with ``rho + 2 sqrt(rho ln(1/delta)) <= epsilon``, rounded down."""
    with localcontext(prec=_PRECISION):
        chance = -delta.ln()
        root = (chance + epsilon).sqrt() - chance.sqrt()
        return _below(root * root)


def _root_of_twice(rho: Decimal) -> Decimal:
    """The largest epsilon with ``epsilon^2/2 <= rho`` that has few enough digits to be charged."""
    with localcontext(prec=_PRECISION):
        nearest = (2 * rho).sqrt()
        rounded = _rounded(nearest, _step(nearest))
        return rounded if rounded * rounded <= 2 * rho else _below(nearest)


def _below(exact: Decimal) -> Decimal:
    """``exact``, whose error is below one step, rounded down to the digits that a ledger stores."""
    step = _step(exact)
    return max(_rounded(exact - step, step), _ZERO)


def _rounded(number: Decimal, step: Decimal) -> Decimal:
    with localcontext(prec=_PRECISION, rounding=ROUND_FLOOR):
        return number.quantize(step).normalize() if number else _ZERO


def _step(number: Decimal) -> Decimal:
    return Decimal(1).scaleb(max(number.adjusted() + 1, 0) - MAX_DIGITS)


def _half(delta: Decimal) -> Decimal:
    with localcontext(prec=200):
        return exact_decimal(_rounded(delta / 2, Decimal(1).scaleb(-MAX_DIGITS)))


def _sum(left: Decimal | None, right: Decimal | None) -> Decimal | None:
    return None if left is None or right is None else exact_sum(left, right)


def _positive(what: str, value: Any) -> Decimal:
    number = exact_decimal(value, what=what)
    if not 0 < number <= MAX_EPSILON:
        raise InvalidRequest(what, plain(number), "must be above 0 and at most 10^12", "give an amount such as '0.5'")
    return number


def _fraction(what: str, value: Any) -> Decimal:
    number = _ZERO if value is None else exact_decimal(value, what=what)
    if not 0 <= number < 1:
        raise InvalidRequest(what, plain(number), "must be at least 0 and below 1", "give e.g. '1e-6'")
    return number


def _none(what: str, value: Any, composition: str) -> None:
    if value is not None and exact_decimal(value, what=what) != 0:
        raise _not_of(what, value, composition)


def _not_of(what: str, value: Any, composition: str) -> InvalidRequest:
    return InvalidRequest(
        what, value, f"cannot be used in an account whose composition is {composition}",
        f"leave {what} out, or charge an account of another composition",
    )  # fmt: skip
