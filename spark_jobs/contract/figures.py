"""The status of a released result, and what is published of its figures where noise leaves none: null.

Whether a result is defined is decided by noisy sizes alone. Where it is not, every figure is null (None in Python, NaN
in arrays, null in the manifest and in data files): a number there would be read as a finding. What stays are the public
facts, the noisy sizes that decided, and the noisy counts themselves. Which fields are figures is declared by the
options of each kind (``contract.options``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

OK, UNDEFINED, PARTLY = "ok", "undefined", "partly undefined"
SHRUNK, UNCHECKED = "shrunk", "unchecked"
"""Of a fit with a ridge, and of a score figure whose noisy sizes were not paid for."""
STATUSES = (OK, SHRUNK, UNCHECKED, UNDEFINED)
"""What the status of one result can be."""
DEFINED_ABOVE = 3.0
"""Standard deviations of its noise that a noisy size must reach for the result to be defined."""

_NO_FIGURES = {"level", "confidence"}
"""What is public inside a figure that has fields of its own."""


def status_of(result: Mapping[str, Any]) -> str:
    """The status of one result; of a result in groups, ``partly undefined`` where some of them are undefined."""
    status = result.get("status", OK)
    if isinstance(status, str):
        return status
    undefined = [entry == UNDEFINED for entry in status]
    return UNDEFINED if all(undefined) else PARTLY if any(undefined) else OK


def undefined_kinds(statuses: Mapping[str, str]) -> tuple[str, ...]:
    """The kinds that have no figure at all."""
    return tuple(kind for kind, status in statuses.items() if status == UNDEFINED)


def is_withheld(figures: Iterable[str], result: Mapping[str, Any]) -> bool:
    """Whether every one of these fields of a result is null, but for what is public inside it."""
    return all(_is_null(result[name]) for name in figures)


def _is_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _all_null(entry for name, entry in value.items() if name not in _NO_FIGURES)
    if isinstance(value, (list, tuple)):
        return _all_null(value)
    return value is None


def _all_null(values: Iterable[Any]) -> bool:
    return all(_is_null(value) for value in values)
