"""What a cost says about odds: the factor by which a release can change them, and how often it changes them by more.

For neighbouring tables with output laws P and P', the *loss* of an output o is ``L = ln P(o) / P'(o)``. Whatever an
observer believed before, the odds between the two tables change by the factor ``e^L``. ``odds`` gives an exponent x and
a probability p such that ``P(|L| > x) <= p`` for o from P, for all neighbours: this is what reports say in words. An
``(epsilon, delta)`` guarantee alone does not imply that the odds change by more than ``e^epsilon`` with probability at
most delta: for Gaussian noise that probability is several times delta. By mechanism:

*Pure*: ``(epsilon, 0)``, by definition.

*Any (epsilon, delta)-DP mechanism, also after composition*: ``delta >= E[(1 - e^(epsilon - L))+]``, and the bracket is
at least ``1 - e^-a`` where ``L > epsilon + a``, so ``P(L > epsilon + a) <= delta / (1 - e^-a)``. Downwards, the event
``L < -epsilon - a`` is at most ``e^(-epsilon - a)`` times as likely under P as under P', and under P' its probability
has the same bound. With ``a = ln 2``: ``(epsilon + ln 2, 3 delta)``. A delta that only covers finite precision leaves
room for a smaller a.

*rho-zCDP* (several steps with Gaussian noise, each chosen by what was released before; with pure steps at
``epsilon^2 / 2``): ``E[e^((q - 1) L)] <= e^((q - 1) q rho)`` for all ``q > 1``, and Markov's inequality at the best q
gives ``P(L > x) <= e^(-(x - rho)^2 / 4 rho)``; downwards ``e^-x`` times that. The exponent is the x at which the two
add up to delta.

*One vector with Gaussian noise*: ``L ~ N(rho, 2 rho)`` at the worst neighbours. At other neighbours, L has such a law
with a smaller rho, and ``|L|`` is stochastically smaller. The exponent is the x at which both tails add up to delta.
Noise is drawn on a lattice: its whole number of steps has lighter tails than a normal number that is rounded to a step.
As the sensitivity is at least ``FINE_STEPS`` steps, rounding by a step moves the loss by at most ``2 rho /
FINE_STEPS``, which is added to the exponent.

*Laplace noise scaled by a smooth bound* (Nissim, Raskhodnikova, Smith 2007): ``smooth_laplace_tail``.

Several charges: their losses add up, and so do exponents and probabilities, because each bound holds given everything
that was released before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from typing import Protocol

from spark_jobs.contract.privacy import Budget, exact_sum

FINE_STEPS = 2**16
"""The least sensitivity, in lattice steps, of noise whose loss is taken as that of ``LossLaw.GAUSSIAN``."""
USUAL_DELTA = Decimal("1e-6")
"""The delta at which a rho is reported that has none."""
_TINY = Decimal("1e-20")
"""A delta below this covers nothing but finite precision."""
_GENERAL, _PRECISE = (Decimal("0.693147180559945309417232121459"), Decimal(3)), (Decimal("1e-6"), Decimal(3_000_000))
"""For a general and for a tiny delta: a, rounded up, and the multiple of delta that is quoted with it."""
_ROUNDED_UP = 1 + 1e-9


class LossLaw(StrEnum):
    """How the privacy loss of a mechanism that spends a delta is distributed.

    ``ANY``: nothing is known but (epsilon, delta). ``GAUSSIAN``: one vector with Gaussian noise of at least
    ``FINE_STEPS`` steps. ``CONCENTRATED``: any rho-zCDP mechanism. ``SMOOTH_LAPLACE``: one number with Laplace noise
    scaled by a smooth bound.
    """

    ANY = "any"
    GAUSSIAN = "gaussian"
    CONCENTRATED = "concentrated"
    SMOOTH_LAPLACE = "smooth_laplace"


class SpentAmounts(Protocol):
    """The privacy cost of a charge, or of one mechanism, for a whole privacy unit."""

    @property
    def epsilon(self) -> Decimal:
        """The epsilon for a whole privacy unit."""

    @property
    def delta(self) -> Decimal:
        """The delta for a whole privacy unit; 0 for pure differential privacy."""

    @property
    def rho(self) -> Decimal | None:
        """The zCDP parameter, which the laws ``GAUSSIAN`` and ``CONCENTRATED`` need; otherwise None."""

    @property
    def law(self) -> LossLaw:
        """The law of the privacy loss, as far as it is known."""


@dataclass(frozen=True, kw_only=True)
class Spent:
    """A privacy cost as plain values; ``rho`` belongs to the laws ``GAUSSIAN`` and ``CONCENTRATED``."""

    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    rho: Decimal | None = None
    law: LossLaw = LossLaw.ANY

    @classmethod
    def of(cls, cost: Budget) -> Spent:
        """A cost or cap of law ``ANY``; one with a rho is ``CONCENTRATED``, at its delta or, if that is 0, at 10^-6."""
        if cost.rho is None:
            return cls(epsilon=cost.epsilon, delta=cost.delta)
        delta = cost.delta or USUAL_DELTA
        return cls(epsilon=cost.epsilon, delta=delta, rho=cost.rho, law=LossLaw.CONCENTRATED)


@dataclass(frozen=True, kw_only=True)
class Odds:
    """A bound on odds: they change by at most a factor ``e^exponent``, up or down, except with ``probability``."""

    exponent: Decimal
    probability: Decimal

    @property
    def surest(self) -> Decimal:
        """The largest posterior probability of what had prior probability 1/2; in percent, rounded up to a decimal."""
        if self.exponent > 100:
            return Decimal(100)
        factor = self.exponent.exp(Context(prec=60))
        return (100 * factor / (1 + factor)).quantize(Decimal("0.1"), rounding=ROUND_CEILING)


def odds(*charges: SpentAmounts) -> Odds:
    """The bound on the odds for all of these charges together, as the module derives it.

    Args:
        charges: the costs; one without a delta and without a known law is pure.

    Raises:
        ValueError: a charge has a known law and no delta.
    """
    plain = [charge for charge in charges if charge.law is LossLaw.ANY]
    quoted = [_of_law(charge) for charge in charges if charge.law is not LossLaw.ANY]
    epsilon, delta = (exact_sum(*(getattr(one, name) for one in plain)) for name in ("epsilon", "delta"))
    if delta:
        above, times = _PRECISE if delta < _TINY else _GENERAL
        quoted.append(Odds(exponent=above, probability=times * delta))
    exponent = exact_sum(epsilon, *(one.exponent for one in quoted))
    probability = exact_sum(*(one.probability for one in quoted))
    return Odds(exponent=exponent, probability=min(probability, Decimal(1)))


def _of_law(charge: SpentAmounts) -> Odds:
    delta = float(charge.delta)
    if delta <= 0:
        raise ValueError(f"delta: got {charge.delta} for {charge.law} noise; must be above 0")
    if charge.law is LossLaw.SMOOTH_LAPLACE:
        epsilon = float(charge.epsilon)
        exponent = _where_below(lambda x: smooth_laplace_tail(x, epsilon, delta), delta, start=epsilon)
    else:
        rho = float(charge.rho or 0)
        tail = gaussian_tail if charge.law is LossLaw.GAUSSIAN else concentrated_tail
        step = 2 * rho / FINE_STEPS if charge.law is LossLaw.GAUSSIAN else 0.0
        exponent = step + _where_below(lambda x: tail(x, rho), delta, start=0.0)
    return Odds(exponent=_as_decimal(exponent * _ROUNDED_UP), probability=charge.delta)


def gaussian_tail(exponent: float, rho: float) -> float:
    """``P(|L| > exponent)`` for ``L ~ N(rho, 2 rho)``."""
    if rho == 0:
        return 0.0
    width = 2 * math.sqrt(rho)
    return 0.5 * (math.erfc((exponent - rho) / width) + math.erfc((exponent + rho) / width))


def gaussian_excess(epsilon: float, rho: float) -> float:
    """The exact delta of Gaussian noise beyond ``epsilon``: ``E[(1 - e^(epsilon - L))+]`` for ``L ~ N(rho, 2 rho)``.

    Rounded towards 0: where the difference of both terms is all rounding, or ``e^epsilon`` overflows, it is 0.
    """
    if rho <= 0 or epsilon > 700:
        return 0.0
    width = 2 * math.sqrt(rho)
    above, scaled = math.erfc((epsilon - rho) / width), math.exp(epsilon) * math.erfc((epsilon + rho) / width)
    return max(0.5 * (above - scaled) - 1e-12 * above, 0.0)


def concentrated_tail(exponent: float, rho: float) -> float:
    """An upper bound on ``P(|L| > exponent)`` for a rho-zCDP mechanism."""
    if exponent <= rho:
        return 0.0 if rho == 0 else 1.0
    return min(1.0, math.exp(-((exponent - rho) ** 2) / (4 * rho)) * (1 + math.exp(-exponent)))


def smooth_laplace_tail(exponent: float, epsilon: float, delta: float) -> float:
    """An upper bound on ``P(|L| > exponent)`` for Laplace noise of scale ``2 S / epsilon``, clipped and rounded after.

    Neighbouring tables have smooth bounds S whose ratio is at most ``e^g``, with ``g = epsilon / (2 ln(2 / delta))``,
    and centres that differ by at most the smaller S, which is ``epsilon / 2`` scales. In units of the scale of P, let
    the other scale be r and the centres s apart. A point at distance t beyond both centres has the loss
    ``ln r + (t + s) / r - t``, or with -s on the other side; between the centres the loss is at most that at one of
    them. Clipping and rounding merge points: a tail that is merged from t on has the loss without ``ln r``, which is
    larger where r < 1. The loss of a tail thus exceeds x where ``t |1 / r - 1|`` exceeds ``x + |ln r| - s / r`` or, if
    merged, ``x - s / r``. The smaller of these t is taken, at the ends of the allowed ratios: ``r = e^-g`` upwards and
    ``r = e^g`` downwards.
    """
    rate = epsilon / (2 * math.log(2 / delta))
    shift = epsilon / 2
    # r = e^-g: the tail of P is the heavier one; s = shift * r is the largest distance of the centres
    narrower = sum(0.5 * math.exp(-max((exponent - s) / math.expm1(rate), 0.0)) for s in (shift, -shift))
    # r = e^g: L falls with t, and downwards passes -x where t (1 - 1/r) passes x + s / r; s is at most shift
    wider = sum(
        0.5 * math.exp(-max((exponent - s * math.exp(-rate)) / -math.expm1(-rate), 0.0)) for s in (shift, -shift)
    )
    return max(narrower, wider)


def _where_below(tail: Callable[[float], float], bound: float, *, start: float) -> float:
    """The smallest exponent from ``start`` on at which the falling function ``tail`` is at most ``bound``."""
    if tail(start) <= bound:
        return start
    low, high = start, max(2 * start, 1e-6)
    while tail(high) > bound:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if tail(middle) > bound else (low, middle)
    return high


def _as_decimal(number: float) -> Decimal:
    return Context(prec=18, rounding=ROUND_CEILING).create_decimal_from_float(number)
