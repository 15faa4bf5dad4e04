"""From an (epsilon, delta) to the rho that is within it, and back: what Gaussian mechanisms may spend.

rho-zCDP is (epsilon, delta)-DP for every ``a > 1`` and

    delta = exp((a - 1) (a rho - epsilon)) / (a - 1) * (1 - 1 / a)^a

(Canonne, Kamath, Steinke, NeurIPS 2020, proposition 12), logarithms natural. For a given a that is solved for rho or
epsilon exactly; the best a is searched for in doubles, and any will do: the result is computed from it with 60 digits
and rounded to the safe side. Tighter than ``epsilon = rho + 2 sqrt(rho ln(1 / delta))`` (Bun, Steinke, TCC 2016,
proposition 1.3), which accounts add up in. Neither turns rho into a pure guarantee: ``epsilon^2 / 2``-zCDP follows
from epsilon-DP and is weaker.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import MAX_DIGITS, exact_decimal
from spark_jobs.mechanisms.noise import Cost

_PRECISION = 60


def rho_within(epsilon: Cost, delta: Cost) -> Decimal:
    """The largest rho that the conversion puts within ``(epsilon, delta)``, rounded down.

    Raises:
        InvalidRequest: epsilon is not above 0, delta not above 0 and below 1, or both are so small that nothing is.
    """
    budget, chance = _positive("epsilon", epsilon), _chance(delta)
    logs = math.log(float(chance))

    def rho(order: float) -> float:
        return (float(budget) + (logs + _gain(order)) / (order - 1)) / order

    with localcontext(prec=_PRECISION):
        order = Decimal(_best_order(rho))
        exact = (budget + (chance.ln() + _exact_gain(order)) / (order - 1)) / order
        kept = _kept(exact * (1 - Decimal("1e-25")), ROUND_FLOOR)
    if kept <= 0:
        raise InvalidRequest(
            "delta", value=delta, requirement=f"leaves nothing of epsilon {epsilon}", remedy="give a larger delta"
        )
    return kept


def epsilon_of(rho: Cost, delta: Cost) -> Decimal:
    """An epsilon that rho-zCDP has at ``delta``, at least 0, rounded up.

    Raises:
        InvalidRequest: rho is not above 0, or delta not above 0 and below 1.
    """
    spent, chance = _positive("rho", rho), _chance(delta)
    logs = math.log(float(chance))
    with localcontext(prec=_PRECISION):
        order = Decimal(_best_order(lambda a: -(a * float(spent) - (logs + _gain(a)) / (a - 1))))
        exact = order * spent - (chance.ln() + _exact_gain(order)) / (order - 1)
        return _kept(max(exact, Decimal(0)) * (1 + Decimal("1e-25")), ROUND_CEILING)


def _gain(order: float) -> float:
    """``ln(a - 1) - a ln(1 - 1 / a)``."""
    return math.log(order - 1) - order * math.log1p(-1 / order)


def _exact_gain(order: Decimal) -> Decimal:
    return (order - 1).ln() - order * (1 - 1 / order).ln()


def _best_order(value: Callable[[float], float]) -> float:
    """Where a function with one peak is about largest on (1, infinity): on grids of ``log(a - 1)``, finer and finer."""
    low, high = -20.0, 60.0
    for _ in range(12):
        orders = 1 + np.exp(np.linspace(low, high, 33))
        at = int(np.argmax([value(float(order)) for order in orders]))
        step = (high - low) / 32
        middle = low + at * step
        low, high = middle - step, middle + step
    return float(1 + math.exp(middle))


def _kept(exact: Decimal, rounding: str) -> Decimal:
    with localcontext(prec=_PRECISION, rounding=rounding):
        return exact.quantize(Decimal(1).scaleb(max(exact.adjusted() + 1, 0) - MAX_DIGITS))


def _positive(what: str, amount: Cost) -> Decimal:
    number = exact_decimal(amount, what=what)
    if number <= 0:
        raise InvalidRequest(what, value=amount, requirement="must be above 0", remedy="give what the release may cost")
    return number


def _chance(delta: Cost) -> Decimal:
    number = exact_decimal(delta, what="delta")
    if not 0 < number < 1:
        raise InvalidRequest("delta", value=delta, requirement="must be above 0 and below 1", remedy="give e.g. '1e-6'")
    return number
