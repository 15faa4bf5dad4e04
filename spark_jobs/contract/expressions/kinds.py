"""The kind of an expression on a table of known columns, so that a mismatch is detected before anything is charged.

``spark_jobs.tables.expressions`` builds Spark columns by the same rules, from the constants defined here.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions import tree as tree

NUMERIC = (Kind.INTEGER, Kind.NUMBER)
CASTS: Mapping[tree.CastType, tuple[Kind, ...]] = {
    tree.CastType.DOUBLE: (*NUMERIC, Kind.BOOLEAN, Kind.STRING),
    tree.CastType.BIGINT: (*NUMERIC, Kind.BOOLEAN, Kind.STRING),
    tree.CastType.INT: (*NUMERIC, Kind.BOOLEAN, Kind.STRING),
    tree.CastType.STRING: tuple(Kind),
    tree.CastType.BOOLEAN: (*NUMERIC, Kind.BOOLEAN, Kind.STRING),
    tree.CastType.DATE: (Kind.STRING, Kind.DATE, Kind.TIMESTAMP),
    # not from text: Spark would complete a bare time of day with the date of the run
    tree.CastType.TIMESTAMP: (Kind.DATE, Kind.TIMESTAMP),
}
"""The kinds that can be cast to each type."""
CAST_KINDS: Mapping[tree.CastType, Kind] = {
    tree.CastType.DOUBLE: Kind.NUMBER,
    tree.CastType.BIGINT: Kind.INTEGER,
    tree.CastType.INT: Kind.INTEGER,
    tree.CastType.STRING: Kind.STRING,
    tree.CastType.BOOLEAN: Kind.BOOLEAN,
    tree.CastType.DATE: Kind.DATE,
    tree.CastType.TIMESTAMP: Kind.TIMESTAMP,
}
"""The kind of each type."""
ON_DOUBLES = ("EXP", "LN", "SQRT", "POWER")
ON_TEXT = ("LOWER", "UPPER", "TRIM")
ON_ANY = ("COALESCE", "LEAST", "GREATEST")


@dataclass(frozen=True, kw_only=True)
class KindRules:
    """The rules by which kinds combine, for one expression of a request.

    Attributes:
        field: the request's field, for messages.
        text: the expression as it was written there.
    """

    field: str
    text: object

    def refuse(self, requirement: str, remedy: str) -> NoReturn:
        """Reject the expression.

        Raises:
            InvalidRequest: always.
        """
        raise InvalidRequest(self.field, self.text, requirement, remedy)

    def require(self, kind: Kind | None, wanted: Kind) -> None:
        """Reject a kind that does not convert to ``wanted``; integers convert to numbers, and NULL to every kind.

        Raises:
            InvalidRequest: the kind does not convert.
        """
        if kind not in (wanted, None) and (kind, wanted) != (Kind.INTEGER, Kind.NUMBER):
            self.refuse(
                f"needs type {wanted} where it has type {kind}", f"compare or cast it: TRY_CAST(... AS {wanted.name})"
            )

    def common(self, kinds: Iterable[Kind | None]) -> Kind:
        """The kind to which all of ``kinds`` convert.

        Raises:
            InvalidRequest: they have no common kind.
        """
        known = {kind for kind in kinds if kind is not None}
        if known == set(NUMERIC):
            return Kind.NUMBER
        if len(known) > 1:
            self.refuse(
                f"must not combine the types {' and '.join(sorted(known))}",
                "give both the same type, by TRY_CAST or by a literal such as '1' or DATE '2026-01-31'",
            )
        return next(iter(known), Kind.STRING)

    def cast(self, kind: Kind | None, to: tree.CastType) -> Kind:
        """The kind of a value of ``kind`` after a cast to ``to``.

        Raises:
            InvalidRequest: ``kind`` cannot be cast to ``to``.
        """
        if kind is not None and kind not in CASTS[to]:
            self.refuse(
                f"cannot cast type {kind} to {to.name}, which accepts {', '.join(CASTS[to])}",
                "cast it to another type first",
            )
        return CAST_KINDS[to]


def kind_of_expression(
    expression: tree.Expression, columns: Mapping[str, Kind], *, field: str, text: object
) -> Kind | None:
    """The kind of ``expression``; None for a bare NULL, which converts to every kind.

    Args:
        expression: the parsed expression.
        columns: the kind of each column that it reads, by the column's name in the expression.
        field: the request's field, for messages.
        text: the expression as it was written there.

    Raises:
        InvalidRequest: the expression combines kinds that do not fit.
    """
    return _Inference(rules=KindRules(field=field, text=text), columns=columns).kind(expression)


@dataclass(frozen=True, kw_only=True)
class _Inference:
    rules: KindRules
    columns: Mapping[str, Kind]

    def kind(self, expression: tree.Expression) -> Kind | None:
        match expression:
            case tree.ColumnReference(name=name):
                return self.columns[name]
            case tree.Literal(value=value):
                return _of_constant(value)
            case tree.Compare(left=left, right=right):
                self.rules.common((self.kind(left), self.kind(right)))
            case tree.And(parts=parts) | tree.Or(parts=parts):
                self._require(parts, Kind.BOOLEAN)
            case tree.Not(part=part):
                self._require((part,), Kind.BOOLEAN)
            case tree.IsNull(part=part):
                self.kind(part)
            case tree.In(part=part, values=values):
                self.rules.common((self.kind(part), *map(self.kind, values)))
            case tree.Contains(part=part):
                self._require((part,), Kind.STRING)
            case tree.Arithmetic(op=op, left=left, right=right):
                return self._arithmetic(op, self.kind(left), self.kind(right))
            case tree.Function(name=name, arguments=arguments):
                return self._function(name, arguments)
            case tree.Case(branches=branches, otherwise=otherwise):
                self._require((condition for condition, _ in branches), Kind.BOOLEAN)
                return self.rules.common((*(self.kind(value) for _, value in branches), self.kind(otherwise)))
            case tree.Cast(part=part, to=to):
                return self.rules.cast(self.kind(part), to)
        return Kind.BOOLEAN

    def _require(self, parts: Iterable[tree.Expression], wanted: Kind) -> None:
        for part in parts:
            self.rules.require(self.kind(part), wanted)

    def _arithmetic(self, op: str, left: Kind | None, right: Kind | None) -> Kind:
        kind = Kind.INTEGER if {left, right} == {Kind.INTEGER} and op != "/" else Kind.NUMBER
        self.rules.require(left, kind)
        self.rules.require(right, kind)
        return kind

    def _function(self, name: str, arguments: tuple[tree.Expression, ...]) -> Kind:
        if name in ON_DOUBLES:
            self._require(arguments, Kind.NUMBER)
            return Kind.NUMBER
        if name in ON_TEXT:
            self._require(arguments, Kind.STRING)
            return Kind.STRING
        if name in ON_ANY:
            return self.rules.common(map(self.kind, arguments))
        (argument,) = map(self.kind, arguments)
        if name == "ABS":
            self.rules.require(argument, Kind.NUMBER)
            return Kind.INTEGER if argument is Kind.INTEGER else Kind.NUMBER
        if name == "LENGTH":
            self.rules.require(argument, Kind.STRING)
        elif argument is not Kind.TIMESTAMP:
            self.rules.require(argument, Kind.DATE)
        return Kind.INTEGER


def _of_constant(value: object) -> Kind | None:
    for kinds, kind in (
        (bool, Kind.BOOLEAN),
        (int, Kind.INTEGER),
        (float, Kind.NUMBER),
        (str, Kind.STRING),
        (datetime.datetime, Kind.TIMESTAMP),
        (datetime.date, Kind.DATE),
    ):
        if isinstance(value, kinds):
            return kind
    return None
