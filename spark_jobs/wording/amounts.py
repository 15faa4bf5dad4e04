"""Costs, probabilities and lists of names as text."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal

from spark_jobs.contract.privacy import plain

SPACE = "\N{NO-BREAK SPACE}"


def amount(number: Decimal) -> str:
    """A privacy cost: exact if it is short, otherwise to four digits after ``≈``."""
    text = plain(number)
    if len(text) <= 8:
        return text
    rounded = Context(prec=4).plus(number)
    if Decimal("0.0001") <= abs(rounded) < Decimal(10) ** 9:
        return f"\N{ALMOST EQUAL TO}{SPACE}{plain(rounded)}"
    mantissa, exponent = f"{rounded:.3e}".split("e")
    return f"\N{ALMOST EQUAL TO}{SPACE}{mantissa}{SPACE}\N{MULTIPLICATION SIGN}{SPACE}10^{int(exponent)}"


def equals(symbol: str, number: Decimal) -> str:
    """A privacy cost after its symbol: ``ε = 1``, or ``ε ≈ 0.6667`` if it is rounded."""
    text = amount(number)
    return f"{symbol} {text}" if text.startswith("\N{ALMOST EQUAL TO}") else f"{symbol} = {text}"


def probability(number: Decimal) -> str:
    """A small probability, rounded up: ``0``, ``0.01``, ``10^-6``, ``2.5 × 10^-7``."""
    number = Context(prec=3, rounding=ROUND_CEILING).plus(number)
    if number == 0 or number >= Decimal("0.001"):
        return plain(number)
    exponent = number.adjusted()
    mantissa = plain(number.scaleb(-exponent))
    return f"10^{exponent}" if mantissa == "1" else f"{mantissa} × 10^{exponent}"


def exponent(epsilon: Decimal) -> str:
    """An exponent of ``e`` to four digits, rounded up so that it remains a bound."""
    return plain(Context(prec=4, rounding=ROUND_CEILING).plus(epsilon))


def odds_factor(epsilon: Decimal) -> str:
    """``e^epsilon``, rounded up: the largest factor by which a release changes anybody's odds."""
    factor = epsilon.exp(Context(prec=30))
    if factor < 1000:
        return f"{factor.quantize(Decimal('0.01'), rounding=ROUND_CEILING)}"
    step = Decimal(1).scaleb(factor.adjusted() - 2)
    return f"{int((factor / step).to_integral_value(rounding=ROUND_CEILING) * step):,}"


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence: ``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
