"""Strict readers of JSON and YAML: a document means exactly what its author wrote, or it is rejected.

YAML follows the core schema of YAML 1.2, so that ``yes`` and ``1:30`` are text and ``010`` is ten. Numbers with a
fraction become exact decimals. Duplicate keys, anchors, aliases, tags, numbers out of range, and documents that are too
long or nested too deeply are rejected, with the line and the column where these are known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from decimal import Decimal
from functools import cache
from typing import Any

from spark_jobs.contract.errors import InvalidRequest

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 50
MAX_EXPONENT = 400
"""The largest power of ten in a number; a float reaches 308."""
MAX_INTEGER_DIGITS = 400

_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", re.ASCII)


class Respelled(int):
    """A whole number of a YAML document in an unusual spelling, such as ``01067``, which may be meant as text.

    It is accepted where only a number may stand, and refused where a text or a key may stand (``contract.values``).

    Attributes:
        text: its spelling in the document.
    """

    text: str


def parse_json(text: str | bytes, *, what: str = "request") -> Any:
    """The value of a JSON document; numbers with a fraction or an exponent are ``Decimal``.

    Args:
        text: the document.
        what: what the document is, for messages.

    Raises:
        InvalidRequest: the text is not JSON, is too long or nested too deeply, or has a duplicate key or a number out
            of range.
    """
    _require_size(text, what)
    try:
        data = json.loads(
            text,
            object_pairs_hook=lambda pairs: _unique(pairs, what),
            parse_float=lambda number: _fraction(number, what),
            parse_int=lambda number: _integer(number, what),
            parse_constant=lambda name: _not_a_number(name, what),
        )
    except RecursionError:
        raise _too_deep(what) from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(
            what, None, f"must be a JSON document, but has a syntax error at {place}", "correct its syntax there"
        ) from None
    except InvalidRequest:
        raise
    except ValueError:  # bytes that are not text
        raise InvalidRequest(what, None, "must be a JSON document in UTF-8", "check its encoding") from None
    _require_depth(data, what)
    return data


def parse_yaml(text: str | bytes, *, what: str = "request") -> Any:
    """The value of a YAML document, by YAML 1.2's core schema; numbers with a fraction are ``Decimal``.

    Args:
        text: the document.
        what: what the document is, for messages.

    Raises:
        InvalidRequest: the text is not YAML, is too long or nested too deeply, or has a duplicate key, an anchor, a tag
            or a number out of range.
    """
    import yaml

    _require_size(text, what)
    try:
        data = yaml.load(text, Loader=_loader())  # noqa: S506 - a SafeLoader
    except RecursionError:
        raise _too_deep(what) from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = "" if mark is None else f", but has a syntax error at {_place(mark)}"
        raise InvalidRequest(
            what, None, f"must be a YAML document{where}", f"correct its syntax: {problem or 'it cannot be read'}"
        ) from None
    _require_depth(data, what)
    return data


def to_yaml(data: Any) -> str:
    """``data``, of plain JSON types, as a YAML document that ``parse_yaml`` reads back."""
    import yaml

    return str(yaml.dump(data, Dumper=_dumper(), sort_keys=False, allow_unicode=True))


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.SafeLoader):
        """The core schema of YAML 1.2 without anchors, tags and duplicate keys."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.events.AliasEvent) or getattr(event, "anchor", None) is not None:
                place = _place(event.start_mark)
                raise InvalidRequest(
                    "request", None, f"must have no anchors and aliases, but has one at {place}",
                    "write the value out where it is used",
                )  # fmt: skip
            if getattr(event, "tag", None) is not None:  # !!int "x" would raise an error of another kind
                raise InvalidRequest(
                    "request", None, f"must have no tags, but has one at {_place(event.start_mark)}",
                    "write the value without its tag",
                )  # fmt: skip
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            keys: set[Hashable] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable) or key in keys:
                    raise InvalidRequest(
                        "request", key, f"must not repeat a key, but repeats one at {_place(key_node.start_mark)}",
                        "remove the repeated entry",
                    )  # fmt: skip
                keys.add(key)
            return super().construct_mapping(node, deep=deep)

    Loader.yaml_implicit_resolvers = _resolvers()
    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: _as_written(node.value))
    Loader.add_constructor("tag:yaml.org,2002:float", lambda loader, node: _fraction(node.value, "request"))
    return Loader


@cache
def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes text that the loader would read as another type."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def represent_text(self, text: str) -> Any:
            # YAML takes more characters for line breaks than other formats do
            style = None if text.isprintable() else '"'
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    # YAML 1.1's rules as well, so that other programs read the same text
    both = {first: list(rules) for first, rules in yaml.SafeDumper.yaml_implicit_resolvers.items()}
    for first, rules in _resolvers().items():
        both[first] = [*rules, *both.get(first, ())]
    Dumper.yaml_implicit_resolvers = both
    Dumper.add_representer(str, Dumper.represent_text)
    return Dumper


def _resolvers() -> dict[Any, list[tuple[str, re.Pattern[str]]]]:
    """The core schema's rules, by the first character of a plain scalar."""
    rules = (
        ("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ("~", "n", "N", "")),
        ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), tuple("tTfF")),
        ("int", re.compile(rf"{_INTEGER.pattern}\Z", re.ASCII), tuple("-+0123456789")),
        ("float", re.compile(rf"{_FLOAT.pattern}\Z", re.ASCII), tuple("-+.0123456789")),
    )
    by_first: dict[Any, list[tuple[str, re.Pattern[str]]]] = {}
    for name, pattern, firsts in rules:
        for first in firsts:
            by_first.setdefault(first, []).append((f"tag:yaml.org,2002:{name}", pattern))
    return by_first


def _unique(pairs: list[tuple[str, Any]], what: str) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(what, twice, "must contain each key only once", "remove the repeated entry")
    return fields


def _fraction(text: str, what: str) -> Decimal:
    # read from the text, because an exponent of billions overflows even a Decimal
    exponent = re.search(r"[eE][-+]?0*([0-9]*)\Z", text)
    if exponent is not None and (len(exponent[1]) > len(str(MAX_EXPONENT)) or int(exponent[1] or 0) > MAX_EXPONENT):
        raise _out_of_range(text, what)
    return Decimal(text)


def _integer(text: str, what: str) -> int:
    if len(text) > MAX_INTEGER_DIGITS:
        raise _out_of_range(text, what)
    return int(text)


def _as_written(text: str) -> int:
    number = _integer(text, "request")
    if str(number) == text:
        return number
    respelled = Respelled(number)
    respelled.text = text
    return respelled


def _out_of_range(text: str, what: str) -> InvalidRequest:
    return InvalidRequest(
        what, text, f"must have numbers between -10^{MAX_EXPONENT} and 10^{MAX_EXPONENT}", "correct the number"
    )


def _not_a_number(name: str, what: str) -> Any:
    raise InvalidRequest(what, name, "must have only finite numbers", "correct the number")


def _require_size(text: str | bytes, what: str) -> None:
    if len(text) > MAX_BYTES:
        raise InvalidRequest(what, f"{len(text)} bytes", f"must have at most {MAX_BYTES} bytes", "shorten it")


def _require_depth(data: Any, what: str) -> None:
    layer = [data]
    for _ in range(MAX_DEPTH):
        layer = [
            part
            for value in layer
            if isinstance(value, (dict, list))
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not layer:
            return
    raise _too_deep(what)


def _too_deep(what: str) -> InvalidRequest:
    return InvalidRequest(what, None, f"must be nested at most {MAX_DEPTH} levels deep", "flatten it")


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"
