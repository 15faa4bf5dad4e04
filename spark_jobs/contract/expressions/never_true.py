"""Detects filters that are true for no row of any table: their release would cost its whole epsilon for no rows."""

from __future__ import annotations

import datetime
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from spark_jobs.contract.expressions.tree import And, ColumnReference, Compare, Expression, In, Literal, Not, Or

_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NULL = "a comparison with NULL is never true: write IS NULL or IS NOT NULL"


def why_never_true(expression: Expression) -> str | None:
    """Why a filter is true for no row; None if it may be true for some."""
    match expression:
        case Literal(value=value) if value is None or value is False:
            return "it is a constant that is not true"
        case Compare():
            return _of_comparison(expression)
        case Not(part=Literal(value=True)):
            return "it is a constant that is not true"
        case Not(part=part):
            return _NULL if _is_null(part) else None
        case And(parts=parts):
            reasons = [reason for reason in map(why_never_true, parts) if reason is not None]
            return reasons[0] if reasons else _contradiction(parts)
        case Or(parts=parts):
            reasons = [reason for reason in map(why_never_true, parts) if reason is not None]
            return reasons[0] if len(reasons) == len(parts) else None
    return None


def _of_comparison(comparison: Compare) -> str | None:
    if _is_null(comparison):
        return _NULL
    match comparison:
        case Compare(op=op, left=Literal(value=left), right=Literal(value=right)) if _comparable(left, right):
            return None if _TESTS[op](left, right) else "it compares two constants"
    return None


def _is_null(expression: Expression) -> bool:
    """Whether it compares with NULL, so that it has no value on any row."""
    return isinstance(expression, Compare) and Literal(value=None) in (expression.left, expression.right)


def _contradiction(parts: tuple[Expression, ...]) -> str | None:
    """Why conditions on one column, all of which must be true, exclude each other."""
    of_column: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    listed: dict[str, list[Any]] = {}
    for part in _flat(parts):
        match part:
            case Compare(op=op, left=ColumnReference(name=name), right=Literal(value=value)):
                of_column[name.lower()].append((op, value))
            case Compare(op=op, left=Literal(value=value), right=ColumnReference(name=name)):
                of_column[name.lower()].append((_TURNED.get(op, op), value))
            case In(part=ColumnReference(name=name), values=constants):
                given = [constant.value for constant in constants]
                listed[name.lower()] = [value for value in given if value in listed.get(name.lower(), given)]
    for name in {*of_column, *listed}:
        wanted = [value for op, value in of_column[name] if op == "="]
        values = listed.get(name, wanted)
        possible = any(all(_may(value, *test) for test in of_column[name]) for value in values)
        if (wanted or name in listed) and not possible:
            return f"no value of {name} meets all of its conditions"
        below = [(value, op) for op, value in of_column[name] if op in ("<", "<=")]
        above = [(value, op) for op, value in of_column[name] if op in (">", ">=")]
        for low, low_op in above:
            for high, high_op in below:
                if _comparable(low, high) and (low > high or (low == high and (low_op, high_op) != (">=", "<="))):
                    return f"no value of {name} is above {low} and below {high}: write the smaller bound first"
    return None


def _flat(parts: tuple[Expression, ...]) -> Iterator[Expression]:
    for part in parts:
        if isinstance(part, And):
            yield from _flat(part.parts)
        else:
            yield part


def _may(value: Any, op: str, other: Any) -> bool:
    return not _comparable(value, other) or _TESTS[op](value, other)


def _comparable(one: Any, other: Any) -> bool:
    """Whether Python compares two constants as Spark does; not text and numbers, which Spark casts."""
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (one, other))
    return numbers or (type(one) is type(other) and isinstance(one, (str, datetime.date)))
