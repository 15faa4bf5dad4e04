"""Whether a request fits a table, judged by the names and types of its columns alone, before anything is charged.

The application repeats the check on the table that it reads. The stages of a saved pipeline are checked only there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from spark_jobs.contract.column_types import Kind, kind_of_type, normal_type
from spark_jobs.contract.columns import (
    ColumnNeed,
    amount_need,
    categorical_need,
    dimension_need,
    feature_need,
    group_need,
    label_need,
    levels_need,
    needs,
    state_need,
)
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.kinds import kind_of_expression
from spark_jobs.contract.expressions.parser import parse
from spark_jobs.contract.expressions.tree import Expression
from spark_jobs.contract.expressions.tree import columns as columns_of
from spark_jobs.contract.nested_fields import with_nested_fields
from spark_jobs.contract.options import (
    AggregateCells,
    CrossProductCells,
    GroupedScoreCells,
    LabelledRowCells,
    PairedScoreCells,
    PointCells,
    PointSums,
    ResidualCells,
)
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.snapshots import Literalish
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.tables import Label, LinearModel, LogisticModel, Model

_MAX_DIGITS = 20


def check_columns(request: TableRequest, types: Mapping[str, str]) -> None:
    """Reject a table that lacks columns which ``request`` reads, or has them with types that it cannot use.

    Args:
        request: the request.
        types: the type of each of the table's columns, as Spark writes it; the fields of structs are columns too, named
            by their path.

    Raises:
        InvalidRequest: for the first mismatch: an expectation of the request's suite, a column, a part of an
            expression, a class of the label, a level, or the key of a group.
    """
    if request.input_suite is not None:
        request.input_suite.check(types)
    types = with_nested_fields(types)
    table = _Table(types)
    for need in needs(request, types):
        table.require(need)
    for text in (request.block_filter, request.where):
        if text is not None:
            table.require_condition(text)
    if isinstance(request, ReleaseRequest):
        _check_release(request, table)
    if isinstance(request, StreamRequest):
        _check_stream(request, table)


def _check_stream(request: StreamRequest, table: _Table) -> None:
    if request.states is not None:
        _check_keys(state_need(request.states.column), request.states.keys, table, field="states.keys")
    if request.places is None:
        return
    need = ColumnNeed(name=str(request.unit.column), field="unit.column")
    kind = normal_type(table.types[need.spelling_in(table.types) or need.name])
    if kind in ("float", "double"):
        raise InvalidRequest(
            need.field, need.name,
            f"must not be of type {kind} in a stream that keeps the number of used rows of each unit, because the text "
            "of such a number depends on the version of Java", "bind the column as another type",
        )  # fmt: skip


def _check_release(request: ReleaseRequest, table: _Table) -> None:
    if request.uses_label:
        _check_label(request.needed_label, table)
    if request.uses_model:
        _check_model(request.needed_model, table)
    for statistic in request.statistics:
        for need in _amounts(statistic):
            table.require_amount(need)
        match statistic:
            case PairedScoreCells():
                _check_model(statistic.model, table)
            case CrossProductCells() | LabelledRowCells():
                for factor in statistic.categorical:
                    _check_levels(levels_need(factor.column), factor.levels, table)
            case AggregateCells():
                for dimension in statistic.by:
                    if dimension.places is not None:
                        _check_keys(dimension_need(dimension), dimension.places, table, field="diagnostics.by")
            case GroupedScoreCells() | PointCells() | PointSums() if statistic.group_by is not None:
                need = group_need(statistic.group_by)
                _check_keys(need, statistic.groups or (), table, field="diagnostics.groups")


class _Table:
    """A table's columns, with the type of each."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types

    def require(self, need: ColumnNeed) -> Kind:
        """The kind of the values in the needed column."""
        name = need.spelling_in(self.types)
        if name is None:
            raise need.missing(self.types)
        kind = kind_of_type(normal_type(self.types[name]))
        if kind is None or kind not in need.kinds:
            raise need.mistyped(self.types[name])
        return kind

    def require_condition(self, text: str) -> None:
        """Reject a filter that is not a condition on this table."""
        kind = self._kind(parse(text, what="where"), field="where", text=text)
        if kind not in (Kind.BOOLEAN, None):
            raise InvalidRequest(
                "where", text, f"must be of type {Kind.BOOLEAN}, not {kind}",
                f"compare or cast it: TRY_CAST(... AS {Kind.BOOLEAN.name})",
            )  # fmt: skip

    def require_amount(self, need: ColumnNeed) -> None:
        """Reject a column, or else an expression, whose values are neither numbers nor booleans."""
        if need.spelling_in(self.types):
            self.require(need)
            return
        kind = self._kind(parse(need.name, what=need.field), field=need.field, text=need.name)
        if kind not in (*need.kinds, None):
            raise InvalidRequest(need.field, need.name, f"must be of type number or boolean, not {kind}", need.remedy)

    def _kind(self, expression: Expression, *, field: str, text: str) -> Kind | None:
        kinds = {name: self.require(ColumnNeed(name=name, field=field)) for name in columns_of(expression)}
        return kind_of_expression(expression, kinds, field=field, text=text)


def _amounts(statistic: object) -> Iterator[ColumnNeed]:
    match statistic:
        case ResidualCells(outcome=outcome):
            yield amount_need(outcome, "outcome")
        case CrossProductCells() | LabelledRowCells():
            for feature in statistic.features:
                yield amount_need(feature.name, "features")
            if isinstance(statistic, CrossProductCells):
                yield amount_need(statistic.outcome.name, "outcome")
        case AggregateCells():
            yield from (dimension_need(one) for one in statistic.by if one.edges is not None)
            yield from (amount_need(one.of, "measures") for one in statistic.measures if not one.counts_units)
        case PointCells(x=x, y=y) | PointSums(x=x, y=y):
            yield amount_need(x, "x")
            yield amount_need(y, "y")


def _check_label(label: Label, table: _Table) -> None:
    kind = table.require(label_need(label))
    if kind is not Kind.BOOLEAN:
        _check_value(label.positive, "label.positive")
        if not label.rest:
            _check_value(label.negative, "label.negative")


def _check_model(model: Model, table: _Table) -> None:
    if isinstance(model, (LinearModel, LogisticModel)):
        for feature in model.coefficients:
            table.require_amount(feature_need(feature))
        for name, levels in model.categorical.items():
            _check_levels(categorical_need(name), levels, table)


def _check_levels(need: ColumnNeed, levels: Mapping[str, float] | tuple[str, ...], table: _Table) -> None:
    kind = table.require(need)
    for level in levels:
        value = level_value(need, level, kind)
        _check_value(value, f"{need.field}.{need.name}")


def level_value(need: ColumnNeed, level: str, kind: Kind | None) -> Literalish:
    """``level`` as a value of a column of ``kind``.

    Raises:
        InvalidRequest: a column of this kind cannot contain ``level``.
    """
    if kind is Kind.STRING:
        return level
    text = level.strip().lower()
    if kind is Kind.BOOLEAN and text in ("true", "false"):
        return text == "true"
    if kind is Kind.INTEGER and text.removeprefix("-").isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise InvalidRequest(
        f"{need.field}.{need.name}", level, f"must be a value that a column of type {kind} can hold",
        "write true or false for a column of booleans, and a whole number for a column of whole numbers",
    )  # fmt: skip


def _check_value(value: Literalish, field: str) -> None:
    """Reject a constant that no column can hold: half of a surrogate pair, or a number beyond doubles."""
    try:
        holdable = value.encode() is not None if isinstance(value, str) else math.isfinite(float(value))
    except (UnicodeEncodeError, OverflowError):
        holdable = False
    if not holdable:
        raise InvalidRequest(
            field, value, "must be a valid text, or a number within the range of a double", "correct it"
        )


def _check_keys(need: ColumnNeed, keys: Iterable[str | int], table: _Table, *, field: str) -> None:
    """Reject keys that no row of a column of whole numbers can have; their groups would silently stay empty."""
    if table.require(need) is not Kind.INTEGER:
        return
    for key in keys:
        if isinstance(key, str) and not re.fullmatch(r"0|-?[1-9][0-9]{0,18}", key):
            raise InvalidRequest(
                field, key, f"must be a whole number, because the column {need.name} holds whole numbers",
                "write whole numbers without leading zeros, or name a column that holds these keys as text",
            )  # fmt: skip
