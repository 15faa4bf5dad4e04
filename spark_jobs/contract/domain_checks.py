"""Checks that what a request names is in the domains of its table's columns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.domains import Domain, ListedValues, LogOdds, Period, ValueRange, divides, number
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import did_you_mean

_SHOWN = 12
"""The most values that a message lists."""


@dataclass(frozen=True, kw_only=True)
class Domains:
    """What the columns of a table may hold.

    Attributes:
        columns: the table's columns.
        lists: the keys of the registered lists that domains name, by the name of the list.
    """

    columns: tuple[BoundColumn, ...]
    lists: Mapping[str, tuple[Any, ...]]

    def column(self, name: object) -> BoundColumn | None:
        """The column of this name, or the only one that differs in case alone; None for any other text."""
        exact = [column for column in self.columns if column.name == name]
        alike = [column for column in self.columns if isinstance(name, str) and column.name.lower() == name.lower()]
        matching = exact or alike
        return matching[0] if len(matching) == 1 else None

    def domain(self, name: object) -> Domain | None:
        """The domain of a column; None if none is declared."""
        column = self.column(name)
        return None if column is None else column.domain

    def listed(self, name: object) -> tuple[Any, ...] | None:
        """The values of a column, if they are listed."""
        domain = self.domain(name)
        if not isinstance(domain, ListedValues):
            return None
        return domain.values if domain.list is None else self.lists[domain.list]

    def range(self, name: object) -> ValueRange | None:
        """The range of a column of numbers, or that of its listed numbers from the smallest to the largest."""
        domain, listed = self.domain(name), self.listed(name)
        if isinstance(domain, ValueRange):
            return domain
        values = [Decimal(value) for value in listed or () if not isinstance(value, (str, bool))]
        if len(values) < 2:
            return None
        return ValueRange(lower=min(values), upper=max(values))

    def period(self, name: object) -> tuple[dt.datetime, dt.datetime] | None:
        """The instants at which a column's period begins and ends: for dates, the end of the last day."""
        column = self.column(name)
        if column is None or not isinstance(column.domain, Period):
            return None
        begins, ends = column.domain.interval
        return begins, ends + dt.timedelta(days=1 if column.kind is Kind.DATE else 0)

    def step(self, name: object) -> Decimal | None:
        """The step between a column's values; None if any value may occur."""
        column = self.column(name)
        return None if column is None else column.step


def require_within(bounds: Any, name: Any, limits: ValueRange, field: str, *, step: Decimal | None = None) -> None:
    """Reject bounds beyond a column's range, or between two steps where the column's values have a step.

    Bounds that are not two numbers pass: they are refused elsewhere.

    Raises:
        InvalidRequest: the bounds contradict the range or the step.
    """
    try:
        lower, upper = (Decimal(str(end)) for end in bounds)
    except (ArithmeticError, TypeError, ValueError):
        return  # refused with the rest of the request
    inside = (
        lower.is_finite()
        and upper.is_finite()
        and _at_or_above(lower, limits.lower)
        and _at_or_above(limits.upper, upper)
    )
    if not inside:
        raise contradiction(field, f"[{lower}, {upper}]", name, limits, "narrow the bounds, or leave them out")
    if step is not None and not all(divides(step, limits.lower, end) for end in (lower, upper)):
        raise contradiction(
            field, f"[{lower}, {upper}]", name, limits,
            f"give bounds that the column may hold: its values are {number(step)} apart",
        )  # fmt: skip


def _at_or_above(one: Decimal, other: Decimal) -> bool:
    # a bound that was completed went through double precision
    return one >= other or float(one) == float(other)


def require_period(name: str, begins: dt.datetime, ends: dt.datetime, domains: Domains, field: str) -> None:
    """Reject a stretch of time that lies outside the period of its column.

    Raises:
        InvalidRequest: the time is not within the period.
    """
    period, domain = domains.period(name), domains.domain(name)
    if period is not None and domain is not None and not (period[0] <= begins and ends <= period[1]):
        raise contradiction(field, f"{begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M}", name, domain, "shorten it")


def require_value(value: Any, name: Any, domains: Domains, field: str, *, as_text: bool = False) -> None:
    """Reject a value that the column cannot have.

    Args:
        value: the value.
        name: the column.
        domains: the domains of the table's columns.
        field: the field that gives the value, for the message.
        as_text: whether values are compared as text, as keys of groups are.

    Raises:
        InvalidRequest: the column cannot have it.
    """
    values, limits = domains.listed(name), domains.domain(name)
    if values is not None:
        if not any(str(value) == str(known) if as_text else equal_values(value, known) for known in values):
            raise InvalidRequest(
                field, value, f"must be a value of {name}, which holds {shown(values)}",
                f"correct it{did_you_mean(value, values)}",
            )  # fmt: skip
    elif isinstance(limits, ValueRange):
        text = str(value)
        amount = Decimal(text) if _is_number(text) else None
        step = domains.step(name)
        if (
            amount is None
            or not limits.lower <= amount <= limits.upper
            or not (step is None or divides(step, limits.lower, amount))
        ):
            raise contradiction(field, value, name, limits, "correct it")
    elif isinstance(limits, (LogOdds, Period)):
        raise contradiction(field, value, name, limits, "name another column")


def contradiction(field: str, value: Any, name: Any, domain: Domain, remedy: str) -> InvalidRequest:
    """The error for a value that contradicts its column's domain."""
    return InvalidRequest(field, value, f"must agree with the domain of {name}, which is {domain}", remedy)


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def among(value: Any, values: Iterable[Any]) -> bool:
    """Whether a constant is one of these values."""
    return any(equal_values(value, known) for known in values)


def equal_values(one: Any, other: Any) -> bool:
    """Whether two constants are the same value of a column: a text is no number, and true is not 1."""
    return (
        isinstance(one, str) == isinstance(other, str)
        and isinstance(one, bool) == isinstance(other, bool)
        and one == other
    )


def shown(values: tuple[Any, ...]) -> str:
    """The first values of a list as a message shows them, with the number of all if there are more."""
    first = ", ".join(repr(value) if isinstance(value, str) else str(value) for value in values[:_SHOWN])
    return first + (f", ... ({len(values):,} values)" if len(values) > _SHOWN else "")


def is_step(given: Any, step: Decimal) -> bool:
    """Whether a request's step equals the column's; True if it is not a number, since that is refused elsewhere."""
    try:
        return float(given) == float(step)
    except (TypeError, ValueError):
        return True  # refused with the rest of the request
