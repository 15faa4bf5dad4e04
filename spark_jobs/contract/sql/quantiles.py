"""Quantiles in a statement: their functions, and the level that each of them names."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.language import NotAllowedError
from spark_jobs.contract.options.measures import quantile_figure

WRITTEN = "MEDIAN(x), PERCENTILE(x, 0.9) and PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)"
NODES = ("ApproxQuantile", "Median", "Quantile", "WithinGroup")
"""What sqlglot calls them."""
_OF_GROUP = ("PercentileCont", "PercentileDisc")
_NAMES = frozenset({"APPROX_PERCENTILE", "APPROX_QUANTILE", "PERCENTILE", "PERCENTILE_APPROX", "QUANTILE"})
"""Functions of a number and a level, of which sqlglot drops some further arguments."""
_MEDIAN = "p50"


def quantile_of(node: Any) -> tuple[str, Any]:
    """The figure of a quantile, such as ``p50``, and the node of the expression whose quantile it is.

    Args:
        node: sqlglot's node, of a kind in ``NODES``.

    Raises:
        NotAllowedError: the level is not a number, or WITHIN GROUP does not order by one ascending expression.
    """
    match type(node).__name__:
        case "Median":
            return _MEDIAN, node.this
        case "WithinGroup":
            return _figure(_argument(node)), _ordered(node)
        case _:
            return _figure(node.args.get("quantile")), node.this


def require_two_arguments(tokens: Iterable[Any]) -> None:
    """Refuse a quantile with a third argument (frequency or accuracy), which sqlglot's tree may have dropped.

    Raises:
        NotAllowedError: a quantile has a third argument.
    """
    listed = list(tokens)
    for place, (name, bracket) in enumerate(pairwise(listed)):
        called = name.text.upper() in _NAMES and bracket.token_type.name == "L_PAREN"
        if called and _commas(listed[place + 2 :]) > 1:
            raise NotAllowedError(
                f"{name.text.upper()} of more than a number and a level is not allowed",
                f"leave the others out, and write {WRITTEN}: the interval says how near the figure is",
            )


def _commas(tokens: Iterable[Any]) -> int:
    """The commas between arguments, up to the bracket that closes them."""
    depth = commas = 0
    for token in tokens:
        kind = token.token_type.name
        depth += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
        if depth < 0:
            break
        commas += kind == "COMMA" and depth == 0
    return commas


def _argument(node: Any) -> Any:
    function = node.this
    if type(function).__name__ not in _OF_GROUP or function.args.get("expression") is not None:
        raise NotAllowedError("WITHIN GROUP of another function cannot be answered", f"use {WRITTEN}")
    return function.this


def _ordered(node: Any) -> Any:
    ordered = node.expression.expressions
    if len(ordered) != 1 or ordered[0].args.get("desc"):
        raise NotAllowedError(
            "WITHIN GROUP must have one expression, in ascending order", "leave DESC out, and give the level from below"
        )
    return ordered[0].this


def _figure(level: Any) -> str:
    remedy = f"write {WRITTEN}, with levels such as 0.25 or 0.999"
    if type(level).__name__ != "Literal" or level.is_string:
        raise NotAllowedError("a quantile must have one level, written out", remedy)
    try:
        return quantile_figure(Decimal(str(level.this)))
    except (InvalidOperation, InvalidRequest):
        raise NotAllowedError(
            f"the level {level.this} must be above 0 and below 1, with six decimals at most", remedy
        ) from None
