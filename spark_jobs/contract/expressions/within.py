"""Checks filters against the domains of columns: one that no value can meet would pay for a release of no rows."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from spark_jobs.contract.domain_checks import Domains, require_value
from spark_jobs.contract.domains import Period, ValueRange
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.filters import check_filter
from spark_jobs.contract.expressions.never_true import why_never_true
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import (
    And,
    ColumnReference,
    Compare,
    Expression,
    In,
    Literal,
    Or,
    children,
    columns,
)


def require_within_domains(text: str, domains: Domains) -> None:
    """Reject a filter with a constant that its column cannot have, or with a condition that no value can meet.

    Where values are listed, a misspelt constant in a condition such as ``!=`` would exclude nothing, so each constant
    must be one of them. Where a column has a range or a period, only conditions that no value can meet are refused: a
    condition may exclude values outside the domain, such as a code for a missing value.

    Raises:
        InvalidRequest: the text is not a filter, or contradicts the domain of a column.
    """
    check_filter(text)
    filter_ = parse(text, what="where")
    for name, value in _constants(filter_):
        if domains.listed(name) is not None:
            require_value(Decimal(str(value)) if type(value) is float else value, name, domains, "where")
    for name in columns(filter_):
        limits = tuple(_limits(name, domains))
        if limits and _impossible(filter_, limits):
            raise InvalidRequest(
                "where", text, f"must be true for some rows: {name} holds values {domains.domain(name)}",
                "correct the condition",
            )  # fmt: skip


def _constants(expression: Expression) -> Iterator[tuple[str, Any]]:
    """Each constant that a column is said to equal or not to equal, with the column."""
    match expression:
        case Compare(op="=" | "!=", left=ColumnReference(name=name), right=Literal(value=value)):
            yield name, value
        case Compare(op="=" | "!=", left=Literal(value=value), right=ColumnReference(name=name)):
            yield name, value
        case In(part=ColumnReference(name=name), values=values):
            yield from ((name, literal.value) for literal in values)
        case _:
            for part in children(expression):
                yield from _constants(part)


def _limits(name: str, domains: Domains) -> Iterator[Expression]:
    """The conditions that every value of a column meets."""
    domain = domains.domain(name)
    if isinstance(domain, ValueRange):
        yield from _between(name, domain.lower, domain.upper, float)
    if isinstance(domain, Period):
        begins, ends = domain.interval
        yield from _between(name, begins.replace(tzinfo=None), ends.replace(tzinfo=None), lambda moment: moment)
        # the last day of a period of dates belongs to it
        yield from _between(name, begins.date(), ends.date(), lambda day: day)


def _between(name: str, lower: Any, upper: Any, value: Any) -> Iterator[Expression]:
    column = ColumnReference(name=name)
    yield Compare(op=">=", left=column, right=Literal(value=value(lower)))
    yield Compare(op="<=", left=column, right=Literal(value=value(upper)))


def _impossible(filter_: Expression, limits: tuple[Expression, ...]) -> bool:
    if isinstance(filter_, Or):
        return all(_impossible(part, limits) for part in filter_.parts)
    return why_never_true(And(parts=(filter_, *limits))) is not None
