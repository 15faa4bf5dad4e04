"""The language of filters and features: SQL expressions that are computed from one row and cannot fail.

A text is parsed and at once rebuilt from the few frozen types of ``tree``. Everything else is rejected. Spark only ever
runs what is built from these types, never the text, so a text that two parsers understand differently does no harm.

The language is small on purpose. A subquery or a window would let one row change the values of all others; a function
that may raise would answer a yes/no question about one person by the exit code; and a cast that fails would print the
value that it failed on.
``spark_jobs.tables.expressions`` defines the value of every expression on every row, and why none of them raises.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.language import ALLOWED, FUNCTION_NAMES, NotAllowedError
from spark_jobs.contract.expressions.tree import (
    And,
    Arithmetic,
    Case,
    Cast,
    CastType,
    ColumnReference,
    Compare,
    Contains,
    Expression,
    Function,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    size,
)
from spark_jobs.contract.nested_fields import path_of

MAX_CHARACTERS = 10_000
MAX_DEPTH = 100
MAX_NODES = 2_000
MAX_NESTING = 20
"""The deepest nesting of brackets, CASEs and signs: so low that the caller's own frames of Python's stack, of which
sqlglot needs some 25 for each level, do not decide whether a text is accepted."""
MAX_PATTERN = 200
"""The most characters of a LIKE pattern."""


def check_feature(text: str) -> None:
    """Reject a feature that is not an expression of the allow-list.

    Raises:
        InvalidRequest: the feature is rejected; the message names what is not allowed, and lists what is.
    """
    parse(text, what="model.coefficients")


def parse(text: str, *, what: str = "expression") -> Expression:
    """``text`` as an expression of the allow-list.

    Args:
        text: one SQL expression in Spark's dialect.
        what: the request's field that contains it, for messages.

    Raises:
        InvalidRequest: the text is not such an expression; the message names what is not allowed, and lists what is.
    """
    try:
        return _allowed(text)
    except NotAllowedError as refused:
        raise InvalidRequest(what, text, refused.requirement, refused.remedy) from None
    except RecursionError:
        raise InvalidRequest(what, text, "is nested too deeply", "simplify it") from None


@lru_cache(maxsize=1024)  # one request asks for a text at several places
def _allowed(text: str) -> Expression:
    if len(text) > MAX_CHARACTERS:
        raise NotAllowedError(f"must have at most {MAX_CHARACTERS} characters", "shorten it")
    return parse_node(syntax_tree(text))


def syntax_tree(text: str, *, what: str = "expression") -> Any:
    """Sqlglot's tree of the one expression or statement in a text.

    Raises:
        NotAllowedError: the text has comments, a semicolon or several parts, or cannot be read.
        RecursionError: the text is nested too deeply.
    """
    import sqlglot

    unreadable = NotAllowedError(f"must be one SQL {what}", f"check its syntax; use {ALLOWED}")
    try:
        text.encode()  # Spark cannot take a lone surrogate
        tokens = sqlglot.tokenize(text, dialect="spark")
        _check_nesting(tokens)
        statements = sqlglot.parse(text, dialect="spark")
    except (RecursionError, NotAllowedError):
        raise
    except Exception:  # whatever sqlglot fails on is not in the language
        raise unreadable from None
    if any(token.comments for token in tokens):
        raise NotAllowedError("comments are not allowed", "remove them")
    if any(token.token_type.name == "SEMICOLON" for token in tokens):
        raise NotAllowedError(f"must be one {what} without a semicolon", "remove it and what follows")
    if len(statements) != 1 or statements[0] is None:
        raise unreadable
    return statements[0]


def tokens_of(text: str) -> list[Any]:
    """Sqlglot's tokens of a text that ``syntax_tree`` accepts."""
    import sqlglot

    return list(sqlglot.tokenize(text, dialect="spark"))


def parse_node(node: Any) -> Expression:
    """An expression of the allow-list, from sqlglot's tree.

    Raises:
        NotAllowedError: the tree contains something else.
    """
    _check_size(expression := _expression(node))
    return expression


def _check_nesting(tokens: Iterable[Any]) -> None:
    brackets = signs = 0
    for token in tokens:
        name = token.token_type.name
        brackets += {"L_PAREN": 1, "CASE": 1, "R_PAREN": -1, "END": -1}.get(name, 0)
        signs = signs + 1 if name in ("NOT", "DASH", "PLUS", "TILDE") else 0
        if max(brackets, signs) > MAX_NESTING:
            raise NotAllowedError(f"may nest at most {MAX_NESTING} brackets, CASEs and signs", "simplify it")


def _check_size(expression: Expression) -> None:
    nodes, depth = size(expression)
    if depth > MAX_DEPTH or nodes > MAX_NODES:
        raise NotAllowedError(f"must have at most {MAX_DEPTH} levels and {MAX_NODES} parts", "simplify it")


# From sqlglot's tree to ours. A node is recognised by the exact name of its class, and any argument that its handler
# does not name is rejected, so that a newer sqlglot cannot extend the language.


def _expression(node: Any) -> Expression:
    handler = _HANDLERS.get(type(node).__name__)
    if handler is None:
        raise NotAllowedError(f"{spelling(node)} is not allowed")
    return handler(node)


def spelling(node: Any) -> str:
    """The name of a node of sqlglot's tree in messages."""
    name = type(node).__name__
    if name == "Anonymous":
        return f"the function {str(node.name).upper()[:40]}"
    if hasattr(node, "sql_names"):
        return f"the function {node.sql_name()}"
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]*", name)).upper() or name


def _only(node: Any, *arguments: str) -> None:
    for name, value in node.args.items():
        if name not in arguments and value not in (None, False, []):
            raise NotAllowedError(f"{name.strip('_').upper()} of {spelling(node)} is not allowed")


def _paren(node: Any) -> Expression:
    _only(node, "this")
    return _expression(node.this)


def _names(node: Any) -> tuple[str, ...]:
    """The names in a column's path; sqlglot takes the first of several for a catalog, a database and a table."""
    if type(node).__name__ == "Identifier":
        return (str(node.this),)
    if type(node).__name__ not in ("Column", "Dot"):
        raise NotAllowedError(f"{spelling(node)} is not allowed")
    _only(node, *_PATH)
    return tuple(name for part in _PATH if node.args.get(part) is not None for name in _names(node.args[part]))


def _literal(node: Any) -> Literal:
    _only(node, "this", "is_string")
    return Literal(value=str(node.this)) if node.is_string else _number(str(node.this))


def _number(text: str) -> Literal:
    if re.fullmatch(r"-?\d+", text):
        whole = int(text) if len(text) <= 20 else 1 << 64
        if -(1 << 63) <= whole < 1 << 63:
            return Literal(value=whole)
    elif re.fullmatch(r"-?(\d+\.\d*|\.?\d+)([eE][+-]?\d+)?", text) and math.isfinite(float(text)):
        return Literal(value=float(text))
    raise NotAllowedError(f"the number {text[:40]} is out of range", "use whole numbers of 64 bits, or doubles")


def _negative(node: Any) -> Expression:
    _only(node, "this")
    if type(node.this).__name__ == "Literal" and not node.this.is_string:
        return _number(f"-{node.this.this}")
    return Arithmetic(op="*", left=Literal(value=-1), right=_expression(node.this))


def _binary(node: Any) -> Expression:
    _only(node, "this", "expression", "typed", "safe")
    left, right = _expression(node.this), _expression(node.expression)
    name = type(node).__name__
    if name in _COMPARISONS:
        return Compare(op=_COMPARISONS[name], left=left, right=right)
    return Arithmetic(op=_ARITHMETIC[name], left=left, right=right)


def _junction(node: Any) -> Expression:
    name = type(node).__name__
    parts: list[Expression] = []
    while type(node).__name__ == name:  # a chain is nested to the left, and may be long
        _only(node, "this", "expression")
        parts.append(_expression(node.expression))
        node = node.this
    parts.append(_expression(node))
    return (And if name == "And" else Or)(parts=tuple(reversed(parts)))


def _not(node: Any) -> Expression:
    _only(node, "this")
    return Not(part=_expression(node.this))


def _is_null(node: Any) -> Expression:
    _only(node, "this", "expression")
    if type(node.expression).__name__ != "Null":
        raise NotAllowedError("IS is allowed only before NULL and NOT NULL", "write a comparison")
    return IsNull(part=_expression(node.this))


def _in(node: Any) -> Expression:
    _only(node, "this", "expressions")
    values = tuple(_expression(value) for value in node.args.get("expressions") or ())
    literals = tuple(value for value in values if isinstance(value, Literal) and value.value is not None)
    if not values or len(literals) != len(values):
        raise NotAllowedError("IN must be followed by literals that are not NULL", "list them in brackets")
    return In(part=_expression(node.this), values=literals)


def _between(node: Any) -> Expression:
    _only(node, "this", "low", "high")
    part = _expression(node.this)
    low = Compare(op=">=", left=part, right=_expression(node.args["low"]))
    return And(parts=(low, Compare(op="<=", left=part, right=_expression(node.args["high"]))))


def _like(node: Any) -> Expression:
    _only(node, "this", "expression", "negate")
    pattern = _expression(node.expression)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise NotAllowedError("LIKE must be followed by a pattern in quotes", "write it out")
    like = _matches(_expression(node.this), pattern.value)
    return Not(part=like) if node.args.get("negate") else like


def _matches(part: Expression, pattern: str) -> Expression:
    """``part LIKE pattern`` as tests of the length and of the text at given positions.

    Spark's own LIKE is a regular expression: on some values a long pattern overflows the stack, or takes a time that
    grows like a power of the value's length.
    """
    if len(pattern) > MAX_PATTERN:
        raise NotAllowedError(f"LIKE takes a pattern of at most {MAX_PATTERN} characters", "shorten it")
    head, *rest = pattern.split("%")
    if "\\" in pattern or len(rest) > 2 or (len(rest) == 2 and (head or rest[1])):
        raise NotAllowedError(
            "LIKE takes % at the start or end of its pattern or once inside, and no backslash", "simplify it"
        )
    if not rest and "_" not in pattern:
        return Compare(op="=", left=part, right=Literal(value=pattern))
    length = Compare(
        op=">=" if rest else "=",
        left=Function(name="LENGTH", arguments=(part,)),
        right=Literal(value=len(pattern) - len(rest)),
    )
    if len(rest) == 2 and rest[0].strip("_"):
        if "_" in rest[0]:
            raise NotAllowedError("LIKE takes no _ between two %", "simplify it")
        return Contains(part=part, text=rest[0])
    tail = rest[0] if len(rest) == 1 else ""
    runs = [Contains(part=part, text=run[0], at=run.start() + 1) for run in re.finditer("[^_]+", head)]
    runs += [Contains(part=part, text=run[0], at=run.start() - len(tail)) for run in re.finditer("[^_]+", tail)]
    if len(runs) == 1 and len(runs[0].text) == len(pattern) - len(rest):
        return runs[0]
    return And(parts=(length, *runs)) if runs else length


def _case(node: Any) -> Expression:
    _only(node, "this", "ifs", "default")
    this, default = node.args.get("this"), node.args.get("default")
    base = None if this is None else _expression(this)
    branches = []
    for branch in node.args["ifs"]:
        condition = _expression(branch.this)
        if base is not None:
            condition = Compare(op="=", left=base, right=condition)
        branches.append((condition, _expression(branch.args["true"])))
    return Case(branches=tuple(branches), otherwise=Literal(value=None) if default is None else _expression(default))


def _cast(node: Any) -> Expression:
    _only(node, "this", "to", "safe")
    target = _CAST_TYPES.get(node.args["to"].this.name) if not node.args["to"].expressions else None
    if target is None:
        types = ", ".join(name.upper() for name in CastType)
        raise NotAllowedError("a cast to this type is not allowed", f"cast to one of {types}")
    part = _expression(node.this)
    if isinstance(part, Literal) and isinstance(part.value, str) and target in (CastType.DATE, CastType.TIMESTAMP):
        return _moment(part.value, target)
    return Cast(part=part, to=target)


def _moment(text: str, target: CastType) -> Literal:
    try:
        if target is CastType.DATE:
            return Literal(value=datetime.date.fromisoformat(text.strip()))
        moment = datetime.datetime.fromisoformat(text.strip())
        if moment.tzinfo is not None:
            moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise NotAllowedError(
            f"{text[:40]!r} is not a {target.value}",
            "write DATE '2026-01-31' or TIMESTAMP '2026-01-31 12:00:00', in UTC",
        ) from None
    return Literal(value=moment)


def _function(node: Any) -> Expression:
    _only(node, "this", "expression", "expressions", "ignore_nulls")
    name = FUNCTION_NAMES[type(node).__name__]
    arguments = [node.this, node.args.get("expression"), *(node.args.get("expressions") or ())]
    if name in ("YEAR", "MONTH", "DAY") and type(node.this).__name__ == "TsOrDsToDate":
        _only(node.this, "this")  # sqlglot adds this node itself; a user's call of that name has more arguments
        arguments = [node.this.this]
    present = tuple(_expression(part) for part in arguments if part is not None)
    if name in ("GREATEST", "LEAST") and len(present) < 2:
        raise NotAllowedError(f"{name} takes two or more arguments", "add one, or leave the function out")
    return Function(name=name, arguments=present)


_PATH = ("catalog", "db", "table", "this", "expression")
_COMPARISONS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_CAST_TYPES = {
    "DOUBLE": CastType.DOUBLE,
    "BIGINT": CastType.BIGINT,
    "INT": CastType.INT,
    "TEXT": CastType.STRING,
    "BOOLEAN": CastType.BOOLEAN,
    "DATE": CastType.DATE,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"), CastType.TIMESTAMP),
}
_HANDLERS: dict[str, Callable[[Any], Expression]] = {
    "Paren": _paren,
    **dict.fromkeys(("Column", "Dot"), lambda node: ColumnReference(name=path_of(_names(node)))),
    "Literal": _literal,
    "Boolean": lambda node: Literal(value=bool(node.this)),
    "Null": lambda node: Literal(value=None),
    "Neg": _negative,
    **dict.fromkeys((*_COMPARISONS, *_ARITHMETIC), _binary),
    **dict.fromkeys(("And", "Or"), _junction),
    "Not": _not,
    "Is": _is_null,
    "In": _in,
    "Between": _between,
    "Like": _like,
    "Case": _case,
    **dict.fromkeys(("Cast", "TryCast"), _cast),
    **dict.fromkeys(FUNCTION_NAMES, _function),
}
