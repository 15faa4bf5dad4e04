"""Public bounds of an expression, computed from the domains of the columns that it reads."""

from __future__ import annotations

import math
from collections.abc import Sequence

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.domain_checks import Domains
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import (
    Arithmetic,
    Case,
    Cast,
    CastType,
    ColumnReference,
    Expression,
    Function,
    Literal,
)
from spark_jobs.contract.grids import MAX_BOUND

Limits = tuple[float, float]
_ANY: Limits = (-math.inf, math.inf)
_DIGITS = 15


def limits_of(text: str, domains: Domains) -> Limits | None:
    """The bounds of an expression whose columns take only values of their domains; None if it has no bounds.

    The bounds are computed from the domains alone, by interval arithmetic, and so may be wider than necessary. If a
    value lies outside its column's domain, the expression may exceed these bounds; its value is then clipped to them.

    Args:
        text: an expression of the allow-list.
        domains: the domains of the table's columns.

    Raises:
        InvalidRequest: ``text`` is not an expression of the allow-list.
    """
    lower, upper = (float(f"{end:.{_DIGITS}g}") for end in _limits(parse(text, what=""), domains))
    return (lower, upper) if max(abs(lower), abs(upper)) <= MAX_BOUND and lower < upper else None


def _limits(expression: Expression, domains: Domains) -> Limits:
    match expression:
        case Literal(value=bool(value) | int(value) | float(value)):
            return float(value), float(value)
        case Literal(value=None):
            return math.inf, -math.inf  # no value at all
        case ColumnReference(name=name):
            return _of_column(name, domains)
        case Arithmetic(op=op, left=left, right=right):
            limits = _arithmetic(op, _limits(left, domains), _limits(right, domains))
            # a square is not below 0
            return (max(limits[0], 0.0), limits[1]) if op == "*" and left == right else limits
        case Case(branches=branches, otherwise=otherwise):
            return _union([_limits(value, domains) for value in (*(one for _, one in branches), otherwise)])
        case Function(name=name, arguments=arguments):
            inner = [_limits(argument, domains) for argument in arguments]
            if name in ("GREATEST", "LEAST"):
                return _of_extreme(name, inner, [_has_value(argument) for argument in arguments])
            return _function(name, inner)
        case Cast(part=part, to=CastType.DOUBLE):
            return _limits(part, domains)
        case Literal() | Cast():
            return _ANY
    return 0.0, 1.0  # everything else is true or false


def _of_column(name: str, domains: Domains) -> Limits:
    limits, column = domains.range(name), domains.column(name)
    if limits is not None:
        return limits.bounds
    return (0.0, 1.0) if column is not None and column.kind is Kind.BOOLEAN else _ANY


def _arithmetic(op: str, left: Limits, right: Limits) -> Limits:
    if left[0] > left[1] or right[0] > right[1]:
        return math.inf, -math.inf
    match op:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "/" if right[0] <= 0 <= right[1]:
            return _ANY
        case "/":
            return _extremes([one / other for one in left for other in right])
    return _extremes([one * other for one in left for other in right])


def _function(name: str, arguments: Sequence[Limits]) -> Limits:
    first, last = arguments[0]
    match name:
        case "ABS":
            return (0.0 if first <= 0 <= last else min(abs(first), abs(last))), max(abs(first), abs(last))
        case "COALESCE":
            return _union(arguments)
        case "SQRT" if last >= 0:
            return math.sqrt(max(first, 0.0)), math.sqrt(last)
        case "LN" if first > 0:
            return math.log(first), math.log(last)
        case "EXP" if last <= math.log(MAX_BOUND):
            return math.exp(first), math.exp(last)
        case "MONTH":
            return 1.0, 12.0
        case "DAY":
            return 1.0, 31.0
    return _ANY


def _of_extreme(name: str, limits: Sequence[Limits], has_value: Sequence[bool]) -> Limits:
    """Nulls are left out, so that only an argument that always has a value keeps the others from being the result."""
    lower, upper = _union(limits)
    certain = [one for one, certainly in zip(limits, has_value, strict=True) if certainly]
    if name == "LEAST":
        return lower, min((high for _, high in certain), default=upper)
    return max((low for low, _ in certain), default=lower), upper


def _has_value(expression: Expression) -> bool:
    match expression:
        case Literal(value=value):
            return value is not None
        case Function(name="GREATEST" | "LEAST" | "COALESCE", arguments=arguments):
            return any(map(_has_value, arguments))
    return False


def _union(limits: Sequence[Limits]) -> Limits:
    return min(low for low, _ in limits), max(high for _, high in limits)


def _extremes(values: Sequence[float]) -> Limits:
    return _ANY if any(map(math.isnan, values)) else (min(values), max(values))
