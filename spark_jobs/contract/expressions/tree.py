"""The types that filters and features are made of: one row in, one value out, and nothing that can fail.

What each means on every value is ``spark_jobs.tables.expressions``; what texts they come from is
``spark_jobs.contract.expressions.parser``.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class CastType(StrEnum):
    """What a value may be cast to; a value that does not fit becomes null."""

    DOUBLE = "double"
    BIGINT = "bigint"
    INT = "int"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, kw_only=True)
class ColumnReference:
    """A column, by its name as written."""

    name: str


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A constant; None is NULL, a datetime has no zone and means UTC."""

    value: bool | int | float | str | datetime.date | datetime.datetime | None


@dataclass(frozen=True, kw_only=True)
class Compare:
    """``left op right`` for an op of ``= != < <= > >=``."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, kw_only=True)
class And:
    """True where every part is."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Or:
    """True where a part is."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, kw_only=True)
class Not:
    """The opposite of ``part``."""

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
    """True where ``part`` contains ``text``: what patterns of LIKE are compiled to, so that nothing backtracks.

    Attributes:
        part: a text.
        text: what it has to contain, at least one character.
        at: the character at which ``text`` begins, from 1, or from -1 backwards; None for anywhere.
    """

    part: Expression
    text: str
    at: int | None = None


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """``left op right`` for an op of ``+ - * /``; null where the result does not exist."""

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
    """``part`` as another type; null where it does not fit."""

    part: Expression
    to: CastType


Expression = (
    ColumnReference | Literal | Compare | And | Or | Not | IsNull | In | Contains | Arithmetic | Function | Case | Cast
)


def columns(expression: Expression) -> tuple[str, ...]:
    """The columns that ``expression`` reads, each once, in the order they are written."""
    return tuple(dict.fromkeys(node.name for node in _walk(expression) if isinstance(node, ColumnReference)))


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that ``expression`` is directly made of."""
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


def _walk(expression: Expression) -> Iterator[Expression]:
    yield expression
    for child in children(expression):
        yield from _walk(child)
