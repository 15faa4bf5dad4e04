"""The dimensions in GROUP BY: columns, calendar periods, bins of a number, and CASE with results that are literals.

Bins and cases become dimensions with public edges in the request; the answer shows the values that SQL gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from spark_jobs.contract.calendar import Every
from spark_jobs.contract.expressions.language import NotAllowedError
from spark_jobs.contract.expressions.parser import parse_node
from spark_jobs.contract.expressions.tree import ColumnReference

OTHER = "other"


@dataclass(frozen=True)
class SqlDimension:
    """An expression of GROUP BY.

    Attributes:
        fields: the fields of the dimension in a request.
        width: the width of bins; None if there are no bins.
        numbered: whether SQL's value of a bin is ``FLOOR(x / width)``, and not the bin's lower edge.
        results: the results of a CASE, in the order of its bins; None for other expressions.
    """

    fields: Mapping[str, Any]
    width: float | None = None
    numbered: bool = False
    results: tuple[str | int, ...] | None = None

    @property
    def is_text(self) -> bool:
        """Whether the answer shows its groups as text."""
        return self.width is None and self.results is None

    def value(self, label: str) -> str | int | float | None:
        """SQL's value of a group; None for rows of no bin and no case."""
        if self.is_text:
            return label
        if label == OTHER:
            return None
        lower = float(label.split()[0])
        if self.results is not None:
            return self.results[int(lower)]
        value = round(lower / self.width) if self.numbered and self.width is not None else lower
        return int(value) if value == int(value) else value


def dimension_of(node: Any, text_of: Callable[[Any], str]) -> SqlDimension:
    """The dimension for an expression of GROUP BY.

    Args:
        node: sqlglot's node of the expression.
        text_of: turns a node into the text of an expression of the allow-list.

    Raises:
        NotAllowedError: the expression is not of a form whose groups are public.
    """
    if type(node).__name__ in ("TimestampTrunc", "DateTrunc") and node.args.get("unit") is not None:
        return _period(node, text_of)
    if type(node).__name__ == "Case":
        return _case(node, text_of)
    if (binned := _binned(node)) is not None:
        of, width, numbered = binned
        return SqlDimension({"column": _name(of) or text_of(of), "width": width}, width, numbered)
    bins_of_others = any(type(part).__name__ == "Floor" for part in node.walk())
    if bins_of_others or (name := _name(node)) is None:
        raise _refused(node)
    return SqlDimension({"column": name})


def _name(node: Any) -> str | None:
    expression = parse_node(node)
    return expression.name if isinstance(expression, ColumnReference) else None


def _refused(node: Any) -> NotAllowedError:
    return NotAllowedError(
        f"GROUP BY {node.sql(dialect='spark', comments=False)} cannot be answered",
        "group by columns, DATE_TRUNC('month', column), FLOOR(x / 10) * 10, or CASE with results that are written out",
    )


def _period(node: Any, text_of: Callable[[Any], str]) -> SqlDimension:
    every, name = str(node.args["unit"].this).lower(), _name(node.this)
    if every not in get_args(Every):
        raise NotAllowedError(f"DATE_TRUNC to {every} is not allowed", f"use one of {', '.join(get_args(Every))}")
    if name is None:
        raise _refused(node)
    return SqlDimension({"column": name, "every": every})


def _binned(node: Any) -> tuple[Any, float, bool] | None:
    """The number, the width and whether bins are numbered, of ``FLOOR(x / w) * w`` and ``FLOOR(x / w)``."""
    times = None
    if type(node).__name__ == "Mul":
        floor, factor = (node.this, node.expression) if _number(node.this) is None else (node.expression, node.this)
        node, times = _without_brackets(floor), _number(factor)
        if times is None:
            return None
    if type(node).__name__ != "Floor":
        return None
    inner = _without_brackets(node.this)
    width = _number(inner.expression) if type(inner).__name__ == "Div" else None
    if width is None or width <= 0 or times not in (None, width):
        return None
    return _without_brackets(inner.this), width, times is None


def _without_brackets(node: Any) -> Any:
    return _without_brackets(node.this) if type(node).__name__ == "Paren" else node


def _number(node: Any) -> int | float | None:
    if type(node).__name__ != "Literal" or node.is_string:
        return None
    value = float(node.this)
    return int(value) if value == int(value) else value


def _case(node: Any, text_of: Callable[[Any], str]) -> SqlDimension:
    """A case as the number of its result, with a bin for each."""
    import sqlglot.expressions as nodes

    counted = node.copy()
    results: list[str | int] = []

    def number_of(result: Any) -> Any:
        is_text = type(result).__name__ == "Literal" and result.is_string
        value = str(result.this) if is_text else _number(result)
        if not isinstance(value, (str, int)):
            raise _refused(node)
        if value not in results:
            results.append(value)
        return nodes.Literal.number(results.index(value))

    for branch in counted.args["ifs"]:
        branch.set("true", number_of(branch.args["true"]))
    if (default := counted.args.get("default")) is not None:
        counted.set("default", number_of(default))
    edges = list(range(len(results) + 1))
    fields = {"column": text_of(counted), "edges": edges, "other": default is None}
    return SqlDimension(fields, results=tuple(results))
