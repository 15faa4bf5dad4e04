"""The status of a released result; an undefined result publishes null in place of its figures.

Noisy sizes alone decide whether a result is defined. If it is not, every figure is null (None in Python, NaN in arrays,
null in the manifest and in data files), because a number would be mistaken for a finding. Public facts, the noisy sizes
that decided, and other noisy counts are still published. The options of each kind declare which fields of its result
are figures (``contract.options``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

OK, UNDEFINED, PARTLY = "ok", "undefined", "partly undefined"
SHRUNK, UNCHECKED = "shrunk", "unchecked"
"""The status of a fit with a ridge, and of a score figure whose noisy sizes were not paid for."""
COARSE = "coarse"
"""The status of an area under a ROC curve where scores at the ends of their range hide the order of many rows; its
interval allows for any order."""
WEAK = "weak"
"""The status of a cell of a table whose noisy count may be noise alone: its means are withheld, its intervals hold."""
STATUSES = (OK, SHRUNK, UNCHECKED, COARSE, WEAK, UNDEFINED)
"""The possible statuses of a single result, or of a group."""
DEFINED_ABOVE = 3.0
"""How many standard deviations of its noise a noisy size must reach for the result to be defined."""

_NO_FIGURES = {"level", "confidence"}
"""The public fields inside a figure that is an object."""


def status_of(result: Mapping[str, Any]) -> str:
    """The status of a result; a result by groups is ``partly undefined`` if some, but not all, groups are undefined."""
    status = result.get("status", OK)
    if isinstance(status, str):
        return status
    undefined = [entry == UNDEFINED for entry in status]
    return UNDEFINED if all(undefined) else PARTLY if any(undefined) else OK


def undefined_kinds(statuses: Mapping[str, str]) -> tuple[str, ...]:
    """The kinds whose result is undefined as a whole."""
    return tuple(kind for kind, status in statuses.items() if status == UNDEFINED)


def is_withheld(figures: Iterable[str], result: Mapping[str, Any]) -> bool:
    """Whether all of these fields of a result are null, except for the public fields inside them."""
    return all(_is_null(result[name]) for name in figures)


def _is_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _all_null(entry for name, entry in value.items() if name not in _NO_FIGURES)
    if isinstance(value, (list, tuple)):
        return _all_null(value)
    return value is None


def _all_null(values: Iterable[Any]) -> bool:
    return all(_is_null(value) for value in values)
