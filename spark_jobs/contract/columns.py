"""The columns that a request reads, and the kinds of values that they may have: the contract for input tables.

Names and types of columns are public; no value is read here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import Expression
from spark_jobs.contract.expressions.tree import columns as columns_of
from spark_jobs.contract.options import (
    AggregateCells,
    CrossProductCells,
    Dimension,
    GroupedScoreCells,
    LabelledRowCells,
    PairedScoreCells,
    PointCells,
    PointSums,
    ProfileCells,
    ProfileColumn,
    ResidualCells,
    Statistic,
    ValueCells,
)
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.tables import ColumnsModel, Label, LinearModel, LogisticModel, Model
from spark_jobs.contract.values import did_you_mean

FEATURE_KINDS = (Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN)
CATEGORICAL_KINDS = (Kind.STRING, Kind.INTEGER, Kind.BOOLEAN)
GROUP_KINDS = (Kind.STRING, Kind.INTEGER)
SCORE_KINDS = (Kind.INTEGER, Kind.NUMBER)
TIME_KINDS = (Kind.DATE, Kind.TIMESTAMP)
_LISTED = 30
_TYPE_CHARACTERS = 60


class MissingColumn(InvalidRequest):
    """A request needs a column that its table is not known to have.

    Args:
        field: the field that names the column.
        name: the column's name, as the request spells it.
        requirement, remedy: as in ``InvalidRequest``.
    """

    def __init__(self, field: str, *, name: str, requirement: str, remedy: str) -> None:
        super().__init__(field, value=name, requirement=requirement, remedy=remedy)
        self.name = name


@dataclass(frozen=True, kw_only=True)
class ColumnNeed:
    """A column that a request needs.

    Attributes:
        name: the column's name, as the request spells it.
        field: the field of the request that names it.
        kinds: the kinds of values that the column may have.
        remedy: what the user can do if the column has another kind.
    """

    name: str
    field: str
    kinds: tuple[Kind, ...] = tuple(Kind)
    remedy: str = "name another column, or change its type in the table"

    def spelling_in(self, columns: Collection[str]) -> str | None:
        """The column's name as ``columns`` spells it: the same, or else the only one that differs in case alone."""
        alike = [column for column in columns if column.lower() == self.name.lower()]
        if self.name in columns:
            return self.name
        return alike[0] if len(alike) == 1 else None

    def missing(self, columns: Collection[str]) -> MissingColumn:
        """The error for a table that has only ``columns``."""
        listed = ", ".join(list(columns)[:_LISTED]) + (", ..." if len(columns) > _LISTED else "")
        return MissingColumn(
            self.field,
            name=self.name,
            requirement=f"must be a column of the table, which has {listed}"
            if columns
            else "must be a column of the table",
            remedy="correct the name"
            + (", or write a text in quotes" if self.field == "where" else "")
            + did_you_mean(self.name, columns),
        )

    def mistyped(self, type_name: str) -> InvalidRequest:
        """The error for a table in which the column has the type ``type_name``."""
        type_name = type_name if len(type_name) <= _TYPE_CHARACTERS else type_name[:_TYPE_CHARACTERS] + "..."
        kinds = " or ".join(part for part in (", ".join(self.kinds[:-1]), self.kinds[-1]) if part)
        return InvalidRequest(self.field, self.name, f"must be of type {kinds}, not {type_name}", self.remedy)


@dataclass(frozen=True, kw_only=True)
class ExpressionNeed:
    """An expression that a request evaluates on every row.

    Attributes:
        text: the expression, as the request writes it.
        field: the field of the request that holds it.
    """

    text: str
    field: str

    @property
    def expression(self) -> Expression:
        """The parsed expression.

        Raises:
            InvalidRequest: the expression is outside the allow-list.
        """
        return parse(self.text, what=self.field)


def needs(request: TableRequest, columns: Collection[str]) -> tuple[ColumnNeed, ...]:
    """The columns that ``request`` needs in a table with ``columns``, in the order of the request's fields.

    The inputs of a saved pipeline are not among them; they become known when the pipeline is read.
    """
    columns_needed: list[ColumnNeed] = []
    for need in _needs(request, columns):
        columns_needed += _read_in(need) if isinstance(need, ExpressionNeed) else [need]
    return tuple(columns_needed)


def expressions(request: TableRequest, columns: Collection[str]) -> tuple[ExpressionNeed, ...]:
    """The expressions that ``request`` evaluates on rows of a table with ``columns``."""
    return tuple(need for need in _needs(request, columns) if isinstance(need, ExpressionNeed))


def _read_in(need: ExpressionNeed) -> Iterator[ColumnNeed]:
    for name in columns_of(need.expression):
        yield ColumnNeed(name=name, field=need.field)


def _needs(request: TableRequest, columns: Collection[str]) -> Iterator[ColumnNeed | ExpressionNeed]:
    if request.where is not None:
        yield ExpressionNeed(text=request.where, field="where")
    if isinstance(request, ReleaseRequest):
        yield from _of_release(request, columns)
    if isinstance(request, StreamRequest):
        yield time_need(request.time)
        if request.states is not None:
            yield state_need(request.states.column)
    if request.unit.column is not None:
        yield ColumnNeed(name=request.unit.column, field="unit.column")
    if isinstance(request, ReleaseRequest) and request.row_id is not None:
        yield ColumnNeed(name=request.row_id, field="row_id")


def _of_release(request: ReleaseRequest, columns: Collection[str]) -> Iterator[ColumnNeed | ExpressionNeed]:
    if request.uses_label:
        yield label_need(request.needed_label)
    if request.uses_model:
        yield from _read_by(request.needed_model, columns)
    for statistic in request.statistics:
        yield from _counted(statistic, columns)


def _read_by(model: Model, columns: Collection[str]) -> Iterator[ColumnNeed | ExpressionNeed]:
    match model:
        case ColumnsModel(score=score):
            yield score_need(score)
        case LinearModel() | LogisticModel():
            for feature in model.coefficients:
                yield from _amount(feature_need(feature), columns)
            for name in model.categorical:
                yield categorical_need(name)


def _counted(statistic: Statistic, columns: Collection[str]) -> Iterator[ColumnNeed | ExpressionNeed]:
    match statistic:
        case ValueCells(column=name):
            yield value_need(name)
        case PairedScoreCells():
            for need in _read_by(statistic.model, columns):
                yield replace(need, field=need.field.replace("model", "diagnostics.other", 1))
        case GroupedScoreCells(group_by=group_by):
            yield group_need(group_by)
        case ResidualCells(outcome=outcome):
            yield from _amount(amount_need(outcome, "outcome"), columns)
        case CrossProductCells() | LabelledRowCells():
            for feature in statistic.features:
                yield from _amount(amount_need(feature.name, "features"), columns)
            for levels in statistic.categorical:
                yield levels_need(levels.column)
            if isinstance(statistic, CrossProductCells):
                yield from _amount(amount_need(statistic.outcome.name, "outcome"), columns)
        case AggregateCells():
            for dimension in statistic.by:
                need = dimension_need(dimension)
                yield from (need,) if dimension.edges is None else _amount(need, columns)
            for measure in statistic.measures:
                if not measure.counts_units:
                    yield from _amount(amount_need(measure.of, "measures"), columns)
        case ProfileCells(columns=profiled):
            yield from map(profile_need, profiled)
        case PointCells(x=x, y=y, group_by=group_by) | PointSums(x=x, y=y, group_by=group_by):
            yield from _amount(amount_need(x, "x"), columns)
            yield from _amount(amount_need(y, "y"), columns)
            if group_by is not None:
                yield group_need(group_by)


def _amount(need: ColumnNeed, columns: Collection[str]) -> Iterator[ColumnNeed | ExpressionNeed]:
    """What a feature or an outcome reads: the column of that name, or else an expression."""
    yield need if need.spelling_in(columns) else ExpressionNeed(text=need.name, field=need.field)


def label_need(label: Label) -> ColumnNeed:
    """The need for the label's column; the two classes, as the request spells them, decide which kinds it may have.

    Raises:
        InvalidRequest: one class is text and the other is not.
    """
    classes = (label.positive,) if label.rest else (label.positive, label.negative)
    texts = [isinstance(value, str) for value in classes]
    if any(texts) != all(texts):
        raise InvalidRequest(
            "label.negative", label.negative, "must be of the same type as label.positive",
            "write both classes as they are in the column: both as text or both as numbers",
        )  # fmt: skip
    if all(texts):
        kinds: tuple[Kind, ...] = (Kind.STRING,)
    elif set(classes) <= {0, 1}:
        kinds = (Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER)
    else:
        kinds = (Kind.INTEGER, Kind.NUMBER)
    return ColumnNeed(
        name=label.column,
        field="label.column",
        kinds=kinds,
        remedy="write label.positive and label.negative as they are in this column, e.g. '1' for text",
    )


def score_need(name: str) -> ColumnNeed:
    """The need for the column of scores that a ``columns`` model names."""
    return ColumnNeed(name=name, field="model.score", kinds=SCORE_KINDS)


def value_need(name: str) -> ColumnNeed:
    """The need for the column of numbers that a diagnostic describes."""
    return ColumnNeed(
        name=name, field="diagnostics.column", kinds=FEATURE_KINDS, remedy="name a column of numbers or booleans"
    )


def amount_need(name: str, option: str) -> ColumnNeed:
    """The need for what a diagnostic's ``option`` names: a column of numbers or an expression."""
    return ColumnNeed(
        name=name,
        field=f"diagnostics.{option}",
        kinds=FEATURE_KINDS,
        remedy="name a column of numbers or booleans, or write TRY_CAST(... AS DOUBLE)",
    )


def group_need(name: str) -> ColumnNeed:
    """The need for the column that assigns rows to groups."""
    return ColumnNeed(
        name=name, field="diagnostics.group_by", kinds=GROUP_KINDS, remedy="name a column of text or whole numbers"
    )


def dimension_need(dimension: Dimension) -> ColumnNeed:
    """The need for the column of a dimension of a table of aggregates."""
    if dimension.edges is not None:
        return amount_need(dimension.column, "by")
    of_time = dimension.every is not None
    return ColumnNeed(
        name=dimension.column,
        field="diagnostics.by",
        kinds=TIME_KINDS if of_time else GROUP_KINDS,
        remedy=f"name a column of {'dates or timestamps' if of_time else 'text or whole numbers'}",
    )


def profile_need(column: ProfileColumn) -> ColumnNeed:
    """The need for a column of a profile."""
    if column.start is not None:
        kinds: tuple[Kind, ...] = TIME_KINDS
    else:
        kinds = CATEGORICAL_KINDS if column.values is not None else FEATURE_KINDS
    return ColumnNeed(name=column.column, field="diagnostics.columns", kinds=kinds)


def time_need(name: str) -> ColumnNeed:
    """The need for the column of the times of a stream's rows."""
    return ColumnNeed(name=name, field="time", kinds=TIME_KINDS, remedy="name a column of dates or timestamps, in UTC")


def state_need(name: str) -> ColumnNeed:
    """The need for the column of the states of a stream's rows."""
    return ColumnNeed(
        name=name, field="states.column", kinds=GROUP_KINDS, remedy="name a column of text or whole numbers"
    )


def levels_need(name: str) -> ColumnNeed:
    """The need for a categorical column of a fit."""
    return ColumnNeed(
        name=name,
        field="diagnostics.categorical",
        kinds=CATEGORICAL_KINDS,
        remedy="use an expression of the column under features, with its bounds",
    )


def feature_need(name: str) -> ColumnNeed:
    """The need for a column that is a feature of the model."""
    return ColumnNeed(
        name=name,
        field="model.coefficients",
        kinds=FEATURE_KINDS,
        remedy="write TRY_CAST(... AS DOUBLE), or list its levels under model.categorical",
    )


def categorical_need(name: str) -> ColumnNeed:
    """The need for a categorical column of the model."""
    return ColumnNeed(
        name=name,
        field="model.categorical",
        kinds=CATEGORICAL_KINDS,
        remedy="use an expression of the column under model.coefficients",
    )
