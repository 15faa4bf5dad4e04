"""Filters and features as Spark columns that never fail on the value of a row.

Each node type of the contract's expressions has its own translation; the text of a request never reaches Spark. All
casts are explicit, so that Spark adds none of its own, and every operation that could raise is used in a form that
gives null instead: on overflow, on division by zero, on text that is not a number. This is so for both values of
``spark.sql.ansi.enabled``, with the same results; ``tests/tables/test_expressions.py`` tests random expressions on a
table of extreme values.

Errors depend only on the table's schema, which is public: a missing column, or text compared with a number.

Semantics, where SQL leaves a choice: whole numbers are 64 bits wide and become null where a result does not fit, all
other numbers are doubles, ``/`` divides doubles, comparing a whole number with a double compares doubles, NaN equals
NaN and is above all other numbers, timestamps are in UTC.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from spark_jobs.contract.column_types import TYPES, Kind
from spark_jobs.contract.columns import ColumnNeed, feature_need
from spark_jobs.contract.expressions import tree as tree
from spark_jobs.contract.expressions.kinds import KindRules
from spark_jobs.contract.expressions.parser import parse


@dataclass(frozen=True, kw_only=True)
class Typed:
    """A Spark column and its kind; whole numbers are bigint, other numbers double.

    Attributes:
        column: the Spark expression.
        kind: None for a bare NULL, which fits every kind.
    """

    column: Column
    kind: Kind | None


def filter_column(text: str, schema: StructType) -> Column:
    """The filter as a boolean column; null where it is neither true nor false.

    Raises:
        InvalidRequest: the text is outside the allow-list, or not a condition on a table with this schema.
    """
    return condition_column(parse(text, what="where"), schema, field="where", text=text)


def condition_column(condition: tree.Expression, schema: StructType, *, field: str, text: object) -> Column:
    """A condition as a boolean column; errors name ``field`` of the request.

    Raises:
        InvalidRequest: it is not a condition on a table with this schema; the message quotes ``text``.
    """
    scope = _Scope(schema=schema, field=field, text=text)
    return scope.convert(scope.translate(condition), Kind.BOOLEAN)


def feature_column(text: str, schema: StructType) -> Column:
    """The feature as a double column: the column of this exact name, or else an expression. True is 1, false is 0.

    Raises:
        InvalidRequest: the text is outside the allow-list, or not a number or boolean on a table with this schema.
    """
    return amount_column(feature_need(text), schema)


def amount_column(need: ColumnNeed, schema: StructType) -> Column:
    """The value that ``need`` names, as a double column: the column of this exact name, or else an expression.

    Raises:
        InvalidRequest: the text is outside the allow-list, or not a number or boolean on a table with this schema.
    """
    if need.spelling_in(schema.names):
        return as_double(read(need, schema))
    scope = _Scope(schema=schema, field=need.field, text=need.name)
    amount = scope.translate(parse(need.name, what=need.field))
    if amount.kind not in (*need.kinds, None):
        scope.rules.refuse(f"must be of type number or boolean, not {amount.kind}", need.remedy)
    return as_double(amount)


def read(need: ColumnNeed, schema: StructType) -> Typed:
    """The column that ``need`` describes.

    Raises:
        InvalidRequest: the table has no such column, or it is of another kind.
    """
    field = field_of(need, schema)
    kind = kind_of(field.dataType)
    if kind is None or kind not in need.kinds:
        raise need.mistyped(field.dataType.simpleString())
    column = sf.col(quoted(field.name))
    type_name = type(field.dataType).__name__
    if kind is Kind.INTEGER and type_name != "LongType":
        column = column.cast("bigint")
    elif kind is Kind.NUMBER and type_name != "DoubleType":
        column = column.try_cast("double")
    elif kind is Kind.TIMESTAMP and type_name != "TimestampType":
        column = column.try_cast("timestamp")
    return Typed(column=column, kind=kind)


def field_of(need: ColumnNeed, schema: StructType) -> StructField:
    """The schema field that ``need`` describes, of any type.

    Raises:
        InvalidRequest: the table has no such column.
    """
    name = need.spelling_in(schema.names)
    if name is None:
        raise need.missing(schema.names)
    return next(field for field in schema.fields if field.name == name)


def kind_of(data_type: DataType) -> Kind | None:
    """The kind of a column of this type; None for types that expressions and models cannot read."""
    if isinstance(data_type, StringType) and not data_type.isUTF8BinaryCollation():
        return None
    name = type(data_type).__name__
    return next((kind for kind, names in TYPES.items() if name in names), None)


def quoted(name: str) -> str:
    """A column's name, quoted so that Spark takes it literally, including dots."""
    return "`" + name.replace("`", "``") + "`"


def as_double(value: Typed) -> Column:
    """A number or boolean, or NULL, as a double."""
    if value.kind is Kind.NUMBER:
        return value.column
    return value.column.try_cast("double") if value.kind is None else value.column.cast("double")


def balanced(combine: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    """``parts``, at least one, combined by an associative operator.

    The result is a tree of logarithmic depth. A chain of thousands of operators would overflow the stack, and only for
    rows whose evaluation reaches its end, so that the failure would depend on data.
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return combine(balanced(combine, parts[:middle]), balanced(combine, parts[middle:]))


_SPARK_TYPES = {
    Kind.INTEGER: "bigint",
    Kind.NUMBER: "double",
    Kind.STRING: "string",
    Kind.BOOLEAN: "boolean",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
}


@dataclass(frozen=True, kw_only=True)
class _Scope:
    """The schema for which an expression is translated, and its field in the request, for messages."""

    schema: StructType
    field: str
    text: object

    @property
    def rules(self) -> KindRules:
        return KindRules(field=self.field, text=self.text)

    def translate(self, expression: tree.Expression) -> Typed:
        match expression:
            case tree.ColumnReference(name=name):
                return read(ColumnNeed(name=name, field=self.field), self.schema)
            case tree.Literal():
                return _literal(expression)
            case tree.Compare(op=op, left=left, right=right):
                return self._compare(op, self.translate(left), self.translate(right))
            case tree.And(parts=parts):
                return _boolean(balanced(Column.__and__, [self._as(part, Kind.BOOLEAN) for part in parts]))
            case tree.Or(parts=parts):
                return _boolean(balanced(Column.__or__, [self._as(part, Kind.BOOLEAN) for part in parts]))
            case tree.Not(part=part):
                return _boolean(~self._as(part, Kind.BOOLEAN))
            case tree.IsNull(part=part):
                return _boolean(self.translate(part).column.isNull())
            case tree.In(part=part, values=values):
                return self._in(self.translate(part), values)
            case tree.Contains(part=part, text=text, at=at):
                return _boolean(_holds(self._as(part, Kind.STRING), text, at))
            case tree.Arithmetic(op=op, left=left, right=right):
                return self._arithmetic(op, self.translate(left), self.translate(right))
            case tree.Function(name=name, arguments=arguments):
                return self._function(name, arguments)
            case tree.Case(branches=branches, otherwise=otherwise):
                return self._case(branches, otherwise)
            case tree.Cast(part=part, to=to):
                return self._cast(self.translate(part), to)

    def convert(self, value: Typed, kind: Kind) -> Column:
        """``value`` as ``kind``: unchanged, a whole number as a double, or NULL as any kind."""
        if value.kind is kind:
            return value.column
        if value.kind is None:
            return value.column.try_cast(_SPARK_TYPES[kind])
        self.rules.require(value.kind, kind)
        return value.column.cast("double")

    def _as(self, expression: tree.Expression, kind: Kind) -> Column:
        return self.convert(self.translate(expression), kind)

    def _common(self, values: Iterable[Typed]) -> Kind:
        """The kind that all of ``values`` convert to."""
        return self.rules.common(value.kind for value in values)

    def _compare(self, op: str, left: Typed, right: Typed) -> Typed:
        kind = self._common((left, right))
        return _boolean(_COMPARISONS[op](self.convert(left, kind), self.convert(right, kind)))

    def _in(self, part: Typed, values: tuple[tree.Literal, ...]) -> Typed:
        literals = [_literal(value) for value in values]
        kind = self._common((part, *literals))
        return _boolean(self.convert(part, kind).isin([self.convert(value, kind) for value in literals]))

    def _arithmetic(self, op: str, left: Typed, right: Typed) -> Typed:
        kind = Kind.INTEGER if {left.kind, right.kind} == {Kind.INTEGER} and op != "/" else Kind.NUMBER
        operations = _ON_WHOLE_NUMBERS if kind is Kind.INTEGER else _ON_NUMBERS
        result = operations[op](self.convert(left, kind), self.convert(right, kind))
        result = result if kind is Kind.INTEGER else one_nan(result)
        return Typed(column=result, kind=kind)

    def _function(self, name: str, arguments: tuple[tree.Expression, ...]) -> Typed:
        values = [self.translate(argument) for argument in arguments]
        if name in _ON_DOUBLES:
            return self._apply(_ON_DOUBLES[name], values, Kind.NUMBER)
        if name in _ON_TEXT:
            return self._apply(_ON_TEXT[name], values, Kind.STRING)
        if name in _ON_ANY:
            return self._apply(_ON_ANY[name], values, self._common(values))
        if name == "ABS":
            return self._abs(values[0])
        if name == "LENGTH":
            counted = sf.length(self.convert(values[0], Kind.STRING))
        else:
            day = values[0].column if values[0].kind is Kind.TIMESTAMP else self.convert(values[0], Kind.DATE)
            counted = _OF_DATES[name](day.try_cast("date"))
        return Typed(column=counted.cast("bigint"), kind=Kind.INTEGER)

    def _apply(self, function: Callable[..., Column], values: list[Typed], kind: Kind) -> Typed:
        return Typed(column=function(*(self.convert(value, kind) for value in values)), kind=kind)

    def _abs(self, value: Typed) -> Typed:
        if value.kind is not Kind.INTEGER:
            return Typed(column=sf.abs(self.convert(value, Kind.NUMBER)), kind=Kind.NUMBER)
        # the smallest bigint has no absolute value as a bigint, but has one as a decimal. The value occurs only once,
        # because a plan that repeats it would triple with each nested ABS. Zero is added, so that the embedded engine
        # does not compare a constant with the decimal instead, which has a value where the bigint has none
        absolute = sf.abs(value.column.cast("decimal(20,0)")).try_cast("bigint")
        return Typed(column=sf.try_add(absolute, sf.lit(0).cast("bigint")), kind=Kind.INTEGER)

    def _case(self, branches: tuple[tuple[tree.Expression, tree.Expression], ...], otherwise: tree.Expression) -> Typed:
        conditions = [self._as(condition, Kind.BOOLEAN) for condition, _ in branches]
        values = [self.translate(value) for _, value in branches]
        last = self.translate(otherwise)
        kind = self._common((*values, last))
        column = sf.when(conditions[0], self.convert(values[0], kind))
        for condition, value in zip(conditions[1:], values[1:], strict=True):
            column = column.when(condition, self.convert(value, kind))
        return Typed(column=column.otherwise(self.convert(last, kind)), kind=kind)

    def _cast(self, part: Typed, to: tree.CastType) -> Typed:
        kind = self.rules.cast(part.kind, to)
        column = part.column if part.kind is kind and to is not tree.CastType.INT else part.column.try_cast(to.value)
        return Typed(column=column.cast("bigint") if to is tree.CastType.INT else column, kind=kind)


def _holds(value: Column, text: str, at: int | None) -> Column:
    if at is None:
        return value.contains(sf.lit(text))
    if at == 1:
        return value.startswith(sf.lit(text))
    if at == -len(text):
        return value.endswith(sf.lit(text))
    return sf.substring(value, at, len(text)) == sf.lit(text)


def _boolean(column: Column) -> Typed:
    return Typed(column=column, kind=Kind.BOOLEAN)


def _literal(literal: tree.Literal) -> Typed:
    match literal.value:
        case None:
            return Typed(column=sf.lit(None), kind=None)
        case bool():
            return _boolean(sf.lit(literal.value))
        case int():
            return Typed(column=sf.lit(literal.value).cast("bigint"), kind=Kind.INTEGER)
        case float():
            return Typed(column=sf.lit(literal.value), kind=Kind.NUMBER)
        case str():
            return Typed(column=sf.lit(literal.value), kind=Kind.STRING)
        case datetime.datetime() as moment:
            micros = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
            return Typed(column=sf.timestamp_micros(sf.lit(micros).cast("bigint")), kind=Kind.TIMESTAMP)
        case datetime.date() as day:
            days = (day - datetime.date(1970, 1, 1)).days
            return Typed(column=sf.date_from_unix_date(sf.lit(days)), kind=Kind.DATE)


_COMPARISONS = {
    "=": Column.__eq__,
    "!=": Column.__ne__,
    "<": Column.__lt__,
    "<=": Column.__le__,
    ">": Column.__gt__,
    ">=": Column.__ge__,
}


def one_nan(value: Column) -> Column:
    """A double column in which every NaN is the same.

    Processors also make negative NaNs, which not every engine orders above all numbers.
    """
    return sf.nanvl(value, sf.lit(math.nan))


def _square_root(value: Column) -> Column:
    return one_nan(sf.sqrt(value))


def _quotient(dividend: Column, divisor: Column) -> Column:
    """The quotient of doubles; null for a divisor of 0. The embedded engine's TRY_DIVIDE takes no doubles."""
    return dividend / sf.when(divisor != 0.0, divisor)


_ON_WHOLE_NUMBERS: dict[str, Callable[[Column, Column], Column]] = {
    "+": sf.try_add,
    "-": sf.try_subtract,
    "*": sf.try_multiply,
}
_ON_NUMBERS: dict[str, Callable[[Column, Column], Column]] = {
    "+": Column.__add__,
    "-": Column.__sub__,
    "*": Column.__mul__,
    "/": _quotient,
}
"""No sum, difference or product of doubles raises."""
_ON_DOUBLES: dict[str, Callable[..., Column]] = {"EXP": sf.exp, "LN": sf.ln, "SQRT": _square_root, "POWER": sf.pow}
_ON_TEXT: dict[str, Callable[..., Column]] = {"LOWER": sf.lower, "UPPER": sf.upper, "TRIM": sf.trim}
_ON_ANY: dict[str, Callable[..., Column]] = {"COALESCE": sf.coalesce, "LEAST": sf.least, "GREATEST": sf.greatest}
_OF_DATES = {"YEAR": sf.year, "MONTH": sf.month, "DAY": sf.day}
