"""The syntax tree of filters and features: a node maps one row to one value, and cannot fail.

``spark_jobs.contract.expressions.parser`` builds it from text; ``spark_jobs.tables.expressions`` defines the value of
each node on every row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class CastType(StrEnum):
    """The types that a value may be cast to; a value that does not fit becomes null."""

    DOUBLE = "double"
    BIGINT = "bigint"
    INT = "int"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, kw_only=True)
class ColumnReference:
    """A reference to a column, by its name as written."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A constant; None is NULL, and a datetime has no time zone and is in UTC."""

    value: bool | int | float | str | datetime.date | datetime.datetime | None


@dataclass(frozen=True, kw_only=True)
class Compare:
    """``left op right`` for an op of ``= != < <= > >=``."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, kw_only=True)
class And:
    """True where every part is true."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Or:
    """True where at least one part is true."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Not:
    """The negation of ``part``."""

    part: Expression


@dataclass(frozen=True, kw_only=True)
class IsNull:
    """True where ``part`` is null, false elsewhere."""

    part: Expression


@dataclass(frozen=True, kw_only=True)
class In:
    """True where ``part`` equals one of the constants, none of which is NULL."""

    part: Expression
    values: tuple[Literal, ...]


@dataclass(frozen=True, kw_only=True)
class Contains:
    """True where ``part`` contains ``text``; LIKE patterns are compiled to this, so that nothing backtracks.

    Attributes:
        part: an expression of type string.
        text: what it must contain, at least one character.
        at: the position of the character at which ``text`` begins: 1 is the first, -1 the last; None for anywhere.
    """

    part: Expression
    text: str
    at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """``left op right`` for an op of ``+ - * /``; null where the result is undefined."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of ``FUNCTIONS``, by its name there."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Case:
    """The value of the first branch whose condition is true, else ``otherwise``."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, kw_only=True)
class Cast:
    """``part`` converted to another type; null where it does not fit."""

    part: Expression
    to: CastType


Expression = (
    ColumnReference | Literal | Compare | And | Or | Not | IsNull | In | Contains | Arithmetic | Function | Case | Cast
)


def columns(expression: Expression) -> tuple[str, ...]:
    """The columns that ``expression`` reads, each once, in the order in which they are written."""
    return tuple(dict.fromkeys(node.name for node in walk(expression) if isinstance(node, ColumnReference)))


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct subexpressions of ``expression``."""
    match expression:
        case ColumnReference() | Literal():
            return ()
        case Compare(left=left, right=right) | Arithmetic(left=left, right=right):
            return (left, right)
        case And(parts=parts) | Or(parts=parts) | Function(arguments=parts):
            return parts
        case Not(part=part) | IsNull(part=part) | Contains(part=part) | Cast(part=part):
            return (part,)
        case In(part=part, values=values):
            return (part, *values)
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for branch in branches for part in branch), otherwise)


def walk(expression: Expression) -> Iterator[Expression]:
    """``expression`` and all its parts."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def size(expression: Expression) -> tuple[int, int]:
    """The number of nodes of an expression's tree, and its depth."""
    level: tuple[Expression, ...] = (expression,)
    nodes = depth = 0
    while level:
        nodes, depth = nodes + len(level), depth + 1
        level = tuple(child for node in level for child in children(node))
    return nodes, depth
