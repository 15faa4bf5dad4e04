"""Privacy value types: what is spent, whom it protects, and against which change."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, localcontext
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import BeforeValidator, PlainSerializer, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen

MAX_EPSILON = Decimal(10) ** 12
MAX_DIGITS = 30
"""The most digits of a cost, before and after the point together; sums of costs then stay exact in every database."""
KEPT_DIGITS = 22
"""Digits of a part of a cost: they leave room for sums, and for products with whole numbers, within ``MAX_DIGITS``."""
MAX_GROUP_EPSILON = 100
"""If all rows of a unit but one together spend more epsilon than this, the unit's delta is nearly 1 even for the
smallest delta of one row that a ledger can record."""

UNIT_STEPS = 1 << 20
"""The largest influence of a row on a figure, and the largest square of a unit's, in whole numbers."""


_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
"""A number as people write it: no underscores, no digits of other scripts, no infinity."""


class Neighbours(StrEnum):
    """Which pairs of tables a guarantee makes indistinguishable.

    ``ADD_REMOVE``: one privacy unit is added or removed; the size of the table is private. The default.
    ``REPLACE_ONE``: one privacy unit is replaced by another; the size of the table is public.
    """

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"


def replaced_within(neighbours: Neighbours, blocks: object | None) -> str:
    """What ``REPLACE_ONE`` keeps fixed, in words: ``the same day(visited_at), which is public``; empty for nothing.

    Where each block has a cap of its own, replacing a unit by one of another block is a removal from one block and an
    addition to the other. Each block pays for one of these changes, so that the two blocks together may spend up to
    twice one block's cap. The guarantee therefore holds for replacements within a block; which unit is in which block
    is public.

    Args:
        neighbours: the relation.
        blocks: the expression that assigns rows to blocks; None if there is only one.
    """
    if neighbours is Neighbours.ADD_REMOVE or blocks is None:
        return ""
    return f"the same {blocks}, which is public"


def exact_decimal(value: Any, *, what: str = "number") -> Decimal:
    """``value`` as an exact finite decimal; floats are read as Python prints them, strings as written.

    Raises:
        InvalidRequest: the value is not a finite number, or has more digits than a ledger can record.
    """
    requirement = "must be a finite decimal number"
    remedy = f"write it as a number or a string such as '0.5', with at most {MAX_DIGITS} digits"
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise InvalidRequest(what, value, requirement, remedy)
    text = float.__repr__(value) if isinstance(value, float) else str(value).strip()
    if not _NUMBER.fullmatch(text):
        raise InvalidRequest(what, value, requirement, remedy)
    try:
        number = Decimal(text)
    except InvalidOperation:  # an exponent beyond what Decimal can represent
        raise InvalidRequest(what, value, requirement, remedy) from None
    if number and abs(number.adjusted()) > 2 * MAX_DIGITS:  # before it is written out
        raise InvalidRequest(what, value, f"must have at most {MAX_DIGITS} digits", remedy)
    number = number.normalize(Context(prec=1000))
    _, digits, exponent = number.as_tuple()
    if max(len(digits), len(digits) + int(exponent), -int(exponent)) > MAX_DIGITS:
        raise InvalidRequest(what, value, f"must have at most {MAX_DIGITS} digits", remedy)
    return number or Decimal(0)


def plain(number: Decimal) -> str:
    """``number`` written out without an exponent, as ledgers and manifests print it."""
    return format(number.normalize(Context(prec=1000)), "f") if number else "0"


def exact_sum(*numbers: Decimal) -> Decimal:
    """The sum of costs, exactly; costs are never rounded."""
    with localcontext(prec=200) as context:
        context.traps[Inexact] = True
        return sum(numbers, Decimal(0))


def exact_difference(number: Decimal, *parts: Decimal) -> Decimal:
    """``number`` minus all ``parts``, exactly; the operator ``-`` rounds to the 28 digits of Python's context."""
    return exact_sum(number, *(part.copy_negate() for part in parts))


def float_below(number: Decimal) -> float:
    """The largest float that is not above ``number``: what a mechanism that computes in floats may spend of it."""
    nearest = float(number)
    return nearest if Decimal(nearest) <= number else math.nextafter(nearest, -math.inf)


def share(number: Decimal, parts: int, *, digits: int = MAX_DIGITS) -> Decimal:
    """``number / parts``, rounded down so that ``parts`` times the result never exceeds ``number``."""
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        part = number / parts
        return part.quantize(Decimal(1).scaleb(max(part.adjusted() + 1, 0) - digits))


def kept_share(whole: Decimal, parts: int | Decimal) -> Decimal:
    """``whole / parts``, rounded down to the last of the ``KEPT_DIGITS`` digits of ``whole``.

    All shares of one whole have the same last digit, so that neither their sums nor what they leave of the whole have
    more digits than a cost may have.
    """
    with localcontext(prec=2 * MAX_DIGITS, rounding=ROUND_FLOOR):
        return (whole / parts).quantize(Decimal(1).scaleb(max(whole.adjusted() + 1, 0) - KEPT_DIGITS))


def share_of(number: Decimal, part: Decimal) -> Decimal:
    """``number * part``, rounded down to as many digits as a ledger keeps."""
    with localcontext(prec=MAX_DIGITS, rounding=ROUND_FLOOR):
        amount = number * part
        return amount.quantize(Decimal(1).scaleb(max(amount.adjusted() + 1, 0) - MAX_DIGITS))


def half_square(epsilon: Decimal) -> Decimal:
    """The rho of a pure epsilon (Bun and Steinke 2016, proposition 1.4)."""
    with localcontext(prec=200):
        return epsilon * epsilon / 2


def rho_of_epsilon(epsilon: Decimal) -> Decimal:
    """``half_square``, rounded up to digits of a cost."""
    with localcontext(prec=4 * MAX_DIGITS, rounding=ROUND_CEILING):
        rho = epsilon * epsilon / 2
        return rho.quantize(Decimal(1).scaleb(max(rho.adjusted() + 1, 0) - KEPT_DIGITS))


def epsilon_of_rho(rho: Decimal) -> Decimal:
    """The largest epsilon of ``KEPT_DIGITS`` digits whose half square is at most ``rho``: what pure noise may cost."""
    with localcontext(prec=4 * MAX_DIGITS, rounding=ROUND_FLOOR):
        root = (2 * rho).sqrt()
        step = Decimal(1).scaleb(max(root.adjusted() + 1, 0) - KEPT_DIGITS)
        kept = root.quantize(step)
        return kept if half_square(kept) <= rho else kept - step


def delta_of_rows(epsilon: Decimal, delta: Decimal, rows: int) -> Decimal:
    """The delta for a unit of ``rows`` rows of a mechanism that is (``epsilon``, ``delta``)-DP for one row.

    For ``k`` rows it is ``(e^(k epsilon) - 1) / (e^epsilon - 1)`` times that of one row, rounded up; the epsilon is
    ``k`` times that of one row (group privacy: Vadhan 2017, lemma 2.2).
    """
    if rows == 1 or delta == 0:
        return delta
    step = Decimal(1).scaleb(-MAX_DIGITS)
    with localcontext(prec=4 * MAX_DIGITS):
        if epsilon * (rows - 1) > MAX_GROUP_EPSILON:
            return 1 - step
        factor = ((epsilon * rows).exp() - 1) / (epsilon.exp() - 1)
    with localcontext(prec=4 * MAX_DIGITS, rounding=ROUND_CEILING):
        return min((delta * factor).quantize(step), 1 - step)


_exact = BeforeValidator(lambda value: exact_decimal(value, what=""))
ExactDecimal = Annotated[Decimal, PlainSerializer(plain, return_type=str)]


class Budget(Frozen):
    """A privacy cost or allowance ``(epsilon, delta)``, as exact decimals.

    Attributes:
        epsilon: at least 0 and at most 10^12; a cost must be above 0 (``require_positive``).
        delta: at least 0 and below 1; 0 is pure differential privacy.
        rho: the zCDP parameter, for accounts that compose in zCDP; None elsewhere. In a request that states a rho,
            ``epsilon`` is ``epsilon_of_rho``; in a cost in rho, ``epsilon`` is 0.
    """

    epsilon: Annotated[ExactDecimal, _exact]
    delta: Annotated[ExactDecimal, _exact] = Decimal(0)
    rho: Annotated[ExactDecimal, _exact] | None = None

    def __init__(self, epsilon: Any = None, delta: Any = 0, rho: Any = None, **extra: Any) -> None:
        super().__init__(epsilon=epsilon, delta=delta, rho=rho, **extra)

    @model_validator(mode="after")
    def _in_bounds(self) -> Self:
        if not 0 <= self.epsilon <= MAX_EPSILON:
            raise InvalidRequest(
                "epsilon", plain(self.epsilon), "must be above 0 and at most 10^12",
                "give the epsilon this release may cost, e.g. '1'",
            )  # fmt: skip
        if not 0 <= self.delta < 1:
            raise InvalidRequest(
                "delta", plain(self.delta), "must be at least 0 and below 1",
                "leave it out for pure differential privacy, or give e.g. '1e-6'",
            )  # fmt: skip
        if self.rho is not None and not 0 <= self.rho <= MAX_EPSILON:
            raise InvalidRequest(
                "rho", plain(self.rho), "must be at least 0 and at most 10^12",
                "leave it out unless the account composes in zCDP",
            )  # fmt: skip
        return self

    @property
    def currency(self) -> Literal["epsilon", "rho"]:
        """What a cost is counted in: rho, if it has no epsilon."""
        return "rho" if self.rho is not None and self.epsilon == 0 else "epsilon"

    @property
    def amount(self) -> str:
        """What is counted of it, in words: ``epsilon 0.1``, or ``rho 0.005``."""
        return f"{self.currency} {self.counted_as(self)}"

    def counted_as(self, cost: Budget) -> str:
        """How much of this there is in the currency of a cost."""
        return plain(self.epsilon if cost.currency == "epsilon" else self.rho or Decimal(0))

    @property
    def charged(self) -> Budget:
        """What a ledger is charged for a request of this budget: of one that states a rho, the rho alone."""
        return self if self.rho is None else Budget(epsilon=0, rho=self.rho)

    def is_within(self, other: Budget) -> bool:
        """Whether no amount is above that of ``other``."""
        return (
            self.epsilon <= other.epsilon
            and self.delta <= other.delta
            and (self.rho or Decimal(0)) <= (other.rho or Decimal(0))
        )

    def require_positive(self) -> Self:
        """This budget, after checking that it can pay for noise at all.

        Raises:
            InvalidRequest: epsilon is 0.
        """
        if self.epsilon <= 0:
            raise InvalidRequest(
                "epsilon", plain(self.epsilon), "must be above 0", "give the epsilon this release may cost, e.g. '1'"
            )
        return self


class GroupBound(NamedTuple):
    """The contribution bound of a unit to a table of groups: at most ``rows`` rows in each of ``groups`` groups.

    Attributes:
        groups: the most groups in which one unit is used.
        rows: the most rows of one unit that are used in one group.
    """

    groups: int
    rows: int

    @property
    def rows_of_unit(self) -> int:
        """The most rows of one unit that are used in all groups together."""
        return self.groups * self.rows


class PrivacyUnit(Frozen):
    """What one person owns in the table: a single row, or up to ``max_rows`` rows that share ``column``.

    Attributes:
        column: the column that identifies the unit; None if every row is a unit of its own.
        max_rows: the most rows of one unit that are used; each mechanism then runs at epsilon / max_rows.
    """

    column: str | None = None
    max_rows: int = 1

    @model_validator(mode="before")
    @classmethod
    def _check(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        rows = data.get("max_rows", 1)
        if isinstance(rows, str) and re.fullmatch(r"[-+]?\d{1,20}", rows.strip(), re.ASCII):
            rows = int(rows)
        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= 1_000_000:
            raise InvalidRequest(
                "max_rows", rows, "must be a whole number from 1 to 1000000",
                "give the number of rows that one unit may contribute",
            )  # fmt: skip
        if data.get("column") in (None, "") and rows != 1:
            raise InvalidRequest(
                "max_rows", rows, "must be 1 when every row is a unit of its own",
                "name the unit's column in unit.column",
            )  # fmt: skip
        return {**data, "max_rows": rows, "column": data.get("column") or None}

    def describe(self) -> str:
        """The unit in words, for reports."""
        if self.column is None:
            return "one row of the table"
        rows, used = ("1 row", "is used") if self.max_rows == 1 else (f"{self.max_rows} rows", "are used")
        return f"all rows that share a value of {self.column}, of which at most {rows} {used}"
