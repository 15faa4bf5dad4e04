"""Splits a SELECT list into dimensions, figures to release, and columns that are computed from released figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.language import NotAllowedError
from spark_jobs.contract.expressions.parser import parse, parse_node, spelling
from spark_jobs.contract.expressions.tree import ColumnReference
from spark_jobs.contract.options.measures import MEANS, QUANTILE, UNITS, figure_kind, quantile_level
from spark_jobs.contract.sql.dimensions import SqlDimension, dimension_of
from spark_jobs.contract.sql.lookups import SqlLookup, lookup_in, require_no_lookup
from spark_jobs.contract.sql.quantiles import NODES, WRITTEN, quantile_of

TABLE = "released"
"""The table of released figures, for the answer."""
COUNTED: Mapping[str, Any] = {"bounds": [0.0, 1.0], "step": 1.0}
"""The bounds and step of a number that is 1 for a row that counts and 0 for another."""
ENDS = ("lower", "upper")
"""The ends of an interval, in names of columns."""
_RELEASED = (*MEANS, UNITS)
"""The figures of measures that statements ask for, beside quantiles."""
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_ALLOWED = frozenset({
    "Abs", "Add", "And", "Between", "Boolean", "Case", "Cast", "Coalesce", "Column", "DataType", "Div", "EQ", "GT",
    "GTE", "Identifier", "If", "In", "Is", "LT", "LTE", "Literal", "Mul", "NEQ", "Neg", "Not", "Null", "Nullif", "Or",
    "Paren", "Round", "Sub",
})  # fmt: skip
"""What may be computed of released figures."""
_COMPUTED = "+ - * /, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, CASE, CAST, ABS, COALESCE, NULLIF and ROUND"
_AGGREGATES = (
    "COUNT(*), COUNT(x), COUNT(DISTINCT unit), COUNT_IF(condition), SUM(x), AVG(x), VAR_SAMP(x), VAR_POP(x), "
    f"STDDEV(x), STDDEV_POP(x), {WRITTEN}"
)
_REFUSED = {
    **dict.fromkeys(("PercentileCont", "PercentileDisc"), f"write {WRITTEN}"),
    "Min": "the smallest value is one row's own: ask for a low quantile, such as PERCENTILE(x, 0.01)",
    "Max": "the largest value is one row's own: ask for a high quantile, such as PERCENTILE(x, 0.99)",
    "Window": "leave OVER out: what one row gets must not depend on other rows",
}


@dataclass(frozen=True)
class SqlFigure:
    """A figure of each cell that the answer needs.

    Attributes:
        name: ``rows`` for all rows, ``count`` for those with a value of every measure, or a figure of a measure.
        of: the column or expression of the measure.
        of_sample: whether a variance is to be divided by the rows less one, as SQL's sample variance is; released
            variances are divided by the rows.
    """

    name: str
    of: str | None = None
    of_sample: bool = False


class ReleasedColumns:
    """The columns of a SELECT list, each an expression of dimensions and released figures.

    Args:
        items: sqlglot's nodes of the SELECT list.
        group: sqlglot's node of GROUP BY; None without one.
        lookups: the lookups that are joined, by their names in the statement.

    Attributes:
        dimensions: the dimensions of GROUP BY.
        figures: the figures of each cell that the columns need.
        names: the names of the columns.

    Raises:
        NotAllowedError: an item cannot be computed from dimensions and released figures.
    """

    def __init__(self, items: Sequence[Any], group: Any, lookups: Mapping[str, SqlLookup] | None = None) -> None:
        self._lookups = lookups or {}
        self._groups: dict[str, int] = {}
        self._figures: list[SqlFigure] = []
        self._fixed: dict[SqlFigure, dict[str, Any]] = {}
        self._present: dict[SqlFigure, str] = {}
        plain = [item.this if type(item).__name__ == "Alias" else item for item in items]
        self._aliases = {str(item.alias): item.this for item in items if type(item).__name__ == "Alias"}
        self.names = tuple(str(item.alias) or self._title(item) for item in items)
        self.dimensions = tuple(self._dimension(node) for node in _grouped(group, plain, self._aliases))
        self._columns = tuple(self._rewritten(node) for node in plain)
        if not self._figures:
            raise NotAllowedError("must select a count or a figure of numbers", f"use {_AGGREGATES}")
        measured = {
            figure.of
            for figure in self._figures
            if figure.of is not None and figure.name != UNITS and figure not in self._present
        }
        for figure, of in self._present.items():
            if measured == {of}:  # rows with a value of the only measure are counted anyway
                self._figures[self._figures.index(figure)] = SqlFigure("count")
        if all(figure.of is None or figure.name == UNITS or figure in self._fixed for figure in self._figures):
            # no row can lack a value of what is always 0 or 1
            self._figures = [SqlFigure("count") if figure.name == "rows" else figure for figure in self._figures]

    def _title(self, node: Any) -> str:
        """What a column without an alias is called; that of a lookup by its own name."""
        of_lookup = type(node).__name__ == "Column" and node.table in self._lookups
        return str(node.name if of_lookup else normal(node)).lower()

    def require_grouped(self) -> None:
        """Reject a joined lookup that no dimension uses: rows that SQL's join leaves out would be counted."""
        used = {one.fields.get("lookup", {}).get("name") for one in self.dimensions}
        for alias, lookup in self._lookups.items():
            if lookup.name not in used:
                raise NotAllowedError(
                    f"JOIN {lookup.name} has no column in GROUP BY",
                    f"group by a column of the lookup, such as {alias}.region, or leave the JOIN out",
                )

    @property
    def figures(self) -> tuple[SqlFigure, ...]:
        """The figures of each cell, in the order of the columns ``f0``, ``f1`` and so on."""
        return tuple(self._figures)

    @property
    def _figure_columns(self) -> tuple[str, ...]:
        return tuple(map(_figure_column, range(len(self._figures))))

    @property
    def measures(self) -> tuple[Mapping[str, Any], ...]:
        """The measures, as in a request."""
        figures: dict[str, list[str]] = {}
        for figure in self._figures:
            if figure.of is not None and (figure.name in _RELEASED or figure_kind(figure.name) == QUANTILE):
                figures.setdefault(figure.of, []).append(figure.name)
        fixed = {figure.of: bounds for figure, bounds in self._fixed.items()}
        return tuple({"of": of, **fixed.get(of, {}), "figures": _in_order(names)} for of, names in figures.items())

    def answer(self, having: Any, order: Any, limit: Any) -> str:
        """The SELECT that computes the answer from released figures, in the dialect of SQLite.

        Raises:
            NotAllowedError: a clause refers to anything but dimensions and released figures.
        """
        import sqlglot.expressions as nodes

        columns = []
        for node, name in zip(self._columns, self.names, strict=True):
            columns.append(nodes.alias_(node.copy(), name, quoted=True))
            if type(node).__name__ == "Column" and node.name in self._figure_columns:
                ends = ((nodes.column(f"{node.name}_{end}", quoted=True), f"{name}_{end}") for end in ENDS)
                columns += [nodes.alias_(column, title, quoted=True) for column, title in ends]
        titles = [str(column.alias).lower() for column in columns]
        if len(set(titles)) < len(titles):
            raise NotAllowedError(
                "must give each column of the answer a different name", "rename one of the two columns with AS"
            )
        query = nodes.select(*columns).from_(TABLE)
        if having is not None:
            query = query.where(self._rewritten(having.this))
        if order is not None:
            query = query.order_by(*(self._ordered(one, nodes) for one in order.expressions))
        if limit is not None:
            query = query.limit(_whole(limit.expression))
        return str(query.sql(dialect="sqlite"))

    def _ordered(self, node: Any, nodes: Any) -> Any:
        if type(node).__name__ != "Ordered" or node.args.get("with_fill"):
            raise NotAllowedError(f"ORDER BY {normal(node)} cannot be answered", "name columns of the answer")
        place = node.this
        if type(place).__name__ == "Literal":
            place = self._columns[_ordinal(place, len(self._columns))].copy()
        else:
            place = self._rewritten(place)
        return nodes.Ordered(this=place, desc=node.args.get("desc"), nulls_first=node.args.get("nulls_first"))

    def _dimension(self, node: Any) -> SqlDimension:
        text = normal(node)
        if _key(node) in self._groups:
            raise NotAllowedError(f"GROUP BY names {text} twice", "remove one of the two")
        self._groups[_key(node)] = len(self._groups)
        lookup = lookup_in(node, self._lookups)
        return dimension_of(node, text_of) if lookup is None else lookup.dimension(node)

    def _rewritten(self, node: Any, *, aliases: bool = True) -> Any:
        """A node with columns of released figures in the place of groups and aggregates."""
        text = normal(node)
        if _key(node) in self._groups:
            return _column(f"d{self._groups[_key(node)]}")
        name = type(node).__name__
        if name in _REFUSED:
            raise NotAllowedError(f"{spelling(node)} cannot be answered", _REFUSED[name])
        if name in _FIGURES:
            require_no_lookup(node, self._lookups)
            return _column(_figure_column(self._figure(node)))
        if name == "Column":
            if aliases and len(node.parts) == 1 and node.name in self._aliases:
                return self._rewritten(self._aliases[node.name], aliases=False)
            raise NotAllowedError(
                f"{text} is neither grouped by nor inside an aggregate", f"add it to GROUP BY, or use {_AGGREGATES}"
            )
        if name not in _ALLOWED:
            raise NotAllowedError(f"{spelling(node)} of released figures is not allowed", f"use {_COMPUTED}")
        node = node.copy()
        for key, value in list(node.args.items()):
            if key == "to":
                continue  # a type, with nothing of a figure
            if isinstance(value, list):
                node.set(key, [self._rewritten(one, aliases=aliases) if _is_node(one) else one for one in value])
            elif _is_node(value):
                node.set(key, self._rewritten(value, aliases=aliases))
        return node

    def _figure(self, node: Any) -> int:
        figure, fixed = _FIGURES[type(node).__name__](node)
        if figure not in self._figures:
            self._figures.append(figure)
        if fixed:
            self._fixed[figure] = fixed
        if type(node).__name__ == "Count" and figure.name == "sum":
            self._present[figure] = _text(node.this)
        return self._figures.index(figure)


def _in_order(names: Sequence[str]) -> list[str]:
    """Names of figures in the one order that a request has them in, whatever the order of the statement."""
    quantiles = sorted((name for name in names if name not in _RELEASED), key=quantile_level)
    return [*(name for name in _RELEASED if name in names), *quantiles]


def normal(node: Any) -> str:
    """The canonical text of a node, by which equal expressions are recognised."""
    return str(node.sql(dialect="spark", comments=False))


def _key(node: Any) -> str:
    """A spelling that is the same however a name is quoted, and in whichever case."""
    return str(node.sql(dialect="spark", comments=False, identify=True)).lower()


def _grouped(group: Any, items: Sequence[Any], aliases: Mapping[str, Any]) -> Iterable[Any]:
    """The expressions of GROUP BY, in which a number or a name may stand for a column of the answer."""
    if group is None:
        return
    for name, part in group.args.items():
        if name != "expressions" and part not in (None, False, []):
            raise NotAllowedError(f"GROUP BY {name.upper()} cannot be answered", "list the columns")
    for node in group.expressions:
        if type(node).__name__ == "Literal":
            yield items[_ordinal(node, len(items))]
        elif type(node).__name__ == "Column" and node.name in aliases and _key(node) != _key(aliases[node.name]):
            yield aliases[node.name]
        else:
            yield node


def _ordinal(node: Any, columns: int) -> int:
    place = _whole(node)
    if not 1 <= place <= columns:
        raise NotAllowedError(f"there is no column {place} in the answer", f"use a number from 1 to {columns}")
    return place - 1


def _whole(node: Any) -> int:
    if type(node).__name__ != "Literal" or node.is_string or not str(node.this).isdecimal() or len(node.this) > 9:
        raise NotAllowedError(f"{normal(node)} must be a whole number", "write it out")
    return int(node.this)


def _figure_column(number: int) -> str:
    return f"f{number}"


def _column(name: str) -> Any:
    import sqlglot.expressions as nodes

    return nodes.column(name, quoted=True)


def _is_node(value: Any) -> bool:
    return hasattr(value, "args") and hasattr(value, "sql")


def _count(node: Any) -> tuple[SqlFigure, dict[str, Any]]:
    inner = node.this
    if type(inner).__name__ == "Distinct":
        if len(inner.expressions) != 1 or not isinstance(parse_node(inner.expressions[0]), ColumnReference):
            raise NotAllowedError("COUNT(DISTINCT ...) of more than a column is not allowed", "name the unit's column")
        return SqlFigure("units", _text(inner.expressions[0])), {}
    if node.args.get("expressions"):
        raise NotAllowedError("COUNT of several columns is not allowed", "write COUNT(*)")
    if type(inner).__name__ in ("Star", "Literal"):
        return SqlFigure("rows"), {}
    return _indicator(f"{_text(inner)} IS NULL", "0", "1")


def _count_if(node: Any) -> tuple[SqlFigure, dict[str, Any]]:
    return _indicator(_text(node.this), "1", "0")


def _indicator(condition: str, then: str, otherwise: str) -> tuple[SqlFigure, dict[str, Any]]:
    figure = SqlFigure("sum", f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END")
    return figure, dict(COUNTED)


def _quantile(node: Any) -> tuple[SqlFigure, dict[str, Any]]:
    name, inner = quantile_of(node)
    return SqlFigure(name, _text(_not_distinct(inner, node))), {}


def _not_distinct(inner: Any, node: Any) -> Any:
    if type(inner).__name__ == "Distinct":
        raise NotAllowedError(f"DISTINCT in {spelling(node)} cannot be answered", "leave it out")
    return inner


def _of_values(name: str, *, of_sample: bool = False) -> Callable[[Any], tuple[SqlFigure, dict[str, Any]]]:
    def wanted(node: Any) -> tuple[SqlFigure, dict[str, Any]]:
        return SqlFigure(name, _text(_not_distinct(node.this, node)), of_sample), {}

    return wanted


def _text(node: Any) -> str:
    """A column's name, or an expression of the allow-list, as a request writes it."""
    expression = parse_node(node)
    if isinstance(expression, ColumnReference) and _PLAIN_NAME.fullmatch(expression.name):
        with suppress(InvalidRequest):
            if parse(expression.name) == expression:
                return expression.name
    return text_of(node)


def text_of(node: Any) -> str:
    """The text of an expression of the allow-list, which a request parses to the same expression.

    Raises:
        NotAllowedError: the node is not such an expression.
        InvalidRequest: the text of the node is not such an expression.
    """
    expression, text = parse_node(node), normal(node)
    if parse(text) != expression:
        raise NotAllowedError(f"{text} cannot be written as one expression", "simplify it")
    return text


_FIGURES: Mapping[str, Callable[[Any], tuple[SqlFigure, dict[str, Any]]]] = {
    "Count": _count,
    "CountIf": _count_if,
    "Sum": _of_values("sum"),
    "Avg": _of_values("mean"),
    "Variance": _of_values("variance", of_sample=True),
    "VariancePop": _of_values("variance"),
    "Stddev": _of_values("sd", of_sample=True),
    "StddevSamp": _of_values("sd", of_sample=True),
    "StddevPop": _of_values("sd"),
    **dict.fromkeys(NODES, _quantile),
}
