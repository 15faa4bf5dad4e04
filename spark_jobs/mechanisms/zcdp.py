"""Conversions between rho-zCDP and (epsilon, delta)-DP, in both directions, for Gaussian mechanisms.

rho-zCDP is (epsilon, delta)-DP for every ``a > 1`` and

    delta = exp((a - 1) (a rho - epsilon)) / (a - 1) * (1 - 1 / a)^a

(Canonne, Kamath, Steinke, NeurIPS 2020, proposition 12), with natural logarithms. For a fixed a the equation is solved
for rho or epsilon exactly. The best a is searched for in doubles. As every a is valid, the result for the a that was
found is then computed with 60 digits and rounded to the safe side. This is tighter than ``epsilon = rho + 2 sqrt(rho
ln(1 / delta))`` (Bun, Steinke, TCC 2016, proposition 1.3), in which accounts compose. Neither turns rho into a pure
guarantee: ``epsilon^2 / 2``-zCDP follows from epsilon-DP and is weaker.
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
    """The largest rho for which the conversion gives ``(epsilon, delta)``-DP, rounded down.

    Raises:
        InvalidRequest: epsilon is not above 0, delta is not above 0 and below 1, or no rho above 0 is small enough.
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
        raise InvalidRequest("delta", delta, f"leaves no rho within epsilon {epsilon}", "give a larger delta")
    return kept


def epsilon_of(rho: Cost, delta: Cost) -> Decimal:
    """An epsilon, at least 0, such that rho-zCDP implies ``(epsilon, delta)``-DP; rounded up.

    Raises:
        InvalidRequest: rho is not above 0, or delta is not above 0 and below 1.
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
    """The approximate maximiser of a unimodal function on (1, infinity), by ever finer grids of ``log(a - 1)``."""
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
        raise InvalidRequest(what, amount, "must be above 0", "give the cost of the release")
    return number


def _chance(delta: Cost) -> Decimal:
    number = exact_decimal(delta, what="delta")
    if not 0 < number < 1:
        raise InvalidRequest("delta", delta, "must be above 0 and below 1", "give e.g. '1e-6'")
    return number
