"""Rules for released results: the options of each kind declare them, and ``violations`` lists those that are broken.

Rules read the JSON form of a result, which is noisy already: a broken rule reveals nothing about anyone, but shows an
error of the program. A broken rule is reported as a line that states the rule, never a value.

Rules name fields. ``distance.value`` is the field ``value`` of the object ``distance``, and null if the object is null.
A field is a number or a list of numbers, possibly nested; a rule for numbers applies to each of them. If a rule is
``nullable``, numbers may be null.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from spark_jobs.contract.figures import STATUSES, UNDEFINED, is_withheld

Fields = Mapping[str, Any]
EXPECTED_FORM = "the result has the form that its kind declares"
_ERRORS_OF_FORM = (KeyError, TypeError, IndexError, ValueError, OverflowError)


@dataclass(frozen=True, kw_only=True)
class ResultCheck:
    """A rule for some fields of a result.

    Attributes:
        names: the fields that the rule reads.
        broken: returns a line for each part of the rule that a result breaks; raises ``KeyError``, ``TypeError``,
            ``IndexError``, ``ValueError`` or ``OverflowError`` if the result does not have the expected form.
    """

    names: tuple[str, ...]
    broken: Callable[[Fields], Iterable[str]]


class NotANumberError(ValueError):
    """A field contains NaN; the message is the line that states the rule."""


def violations(result: Fields, *, figures: tuple[str, ...], checks: tuple[ResultCheck, ...]) -> list[str]:
    """The rules that a result breaks, each once; the only rule for an undefined result is that its figures are null.

    Args:
        result: the JSON form of a result.
        figures: the fields that are null in an undefined result; empty if the result has a status for each group.
        checks: the rules for a defined result.
    """
    lines: list[str] = []
    try:
        if figures and result["status"] == UNDEFINED:
            return [] if is_withheld(figures, result) else ["every figure of an undefined result is null"]
    except _ERRORS_OF_FORM:
        return [EXPECTED_FORM]
    for check in (among("status", values=STATUSES), *checks):
        try:
            lines += check.broken(result)
        except NotANumberError as error:
            lines.append(str(error))
        except _ERRORS_OF_FORM:
            lines.append(EXPECTED_FORM)
    return list(dict.fromkeys(lines))


def value_at(result: Fields, name: str) -> Any:
    """The value of a field, by its dotted name; null inside an object that is null.

    Raises:
        KeyError, TypeError: the result has no such field.
    """
    value: Any = result
    for part in name.split("."):
        value = None if value is None else value[part]
    return value


def numbers(result: Fields, name: str, *, nullable: bool = False) -> list[Any]:
    """All numbers of a field, in order, and its nulls if it is ``nullable``.

    Raises:
        KeyError, TypeError: the result has no such field, or the field contains something other than numbers.
        NotANumberError: the field contains NaN.
    """
    values = _flat(value_at(result, name))
    for kind in set(map(type, values)):  # a field may have millions of numbers
        if issubclass(kind, bool) or not (issubclass(kind, (int, float)) or (nullable and kind is type(None))):
            raise TypeError(f"{name} contains something other than numbers")
    if any(map(operator.ne, values, values)):
        raise NotANumberError(f"{name} is a number")
    return values


def _flat(value: Any) -> list[Any]:
    """The entries of lists in lists, in order; of anything else, itself."""
    values = [value]
    while list in set(map(type, values)):
        values = [entry for one in values for entry in (one if isinstance(one, list) else (one,))]
    return values


def _listed(result: Fields, name: str) -> list[Any]:
    value = value_at(result, name)
    if not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return value


def _per_field(
    names: tuple[str, ...], rule: str, holds: Callable[[list[Any]], bool], nullable: bool = False
) -> ResultCheck:
    """A rule for the numbers of each single field."""

    def broken(result: Fields) -> Iterator[str]:
        for name in names:
            if not holds([value for value in numbers(result, name, nullable=nullable) if value is not None]):
                yield f"{name} {rule}"

    return ResultCheck(names=names, broken=broken)


def _together(names: tuple[str, ...], line: str, holds: Callable[[Fields], bool]) -> ResultCheck:
    """A rule for all fields together."""
    return ResultCheck(names=names, broken=lambda result: [] if holds(result) else [line])


def within(*names: str, low: float = 0, high: float = 1, nullable: bool = False) -> ResultCheck:
    """The rule that numbers are from ``low`` to ``high``."""

    def holds(values: list[Any]) -> bool:
        return all(low <= value <= high for value in values)

    return _per_field(names, f"is within [{low:g}, {high:g}]", holds, nullable)


def finite(*names: str, low: float | None = None, nullable: bool = False) -> ResultCheck:
    """The rule that numbers are finite, and not below ``low`` if it is given."""

    def holds(values: list[Any]) -> bool:
        return all(math.isfinite(value) and (low is None or value >= low) for value in values)

    rule = "is finite" if low is None else f"is finite and not below {low:g}"
    return _per_field(names, rule, holds, nullable)


def positive(*names: str) -> ResultCheck:
    """The rule that numbers are above 0."""
    return _per_field(names, "is above 0", lambda values: all(value > 0 for value in values))


def whole(*names: str) -> ResultCheck:
    """The rule that numbers are whole."""
    return _per_field(names, "is whole", lambda values: all(value == int(value) for value in values))


def _steps(
    names: tuple[str, ...], rule: str, follows: Callable[[Any, Any], bool], nullable: bool = False
) -> ResultCheck:
    return _per_field(
        names, rule, lambda values: all(follows(right, left) for left, right in pairwise(values)), nullable
    )


def never_falls(*names: str) -> ResultCheck:
    """The rule that no number is below the previous one."""
    return _steps(names, "never falls", operator.ge)


def never_rises(*names: str, nullable: bool = False) -> ResultCheck:
    """The rule that no number is above the previous one."""
    return _steps(names, "never rises", operator.le, nullable)


def always_rises(*names: str) -> ResultCheck:
    """The rule that every number is above the previous one."""
    return _steps(names, "always rises", operator.gt)


def counts_up(*names: str) -> ResultCheck:
    """The rule that every number equals the one before it, or exceeds it by 1."""
    return _steps(names, "goes up by 0 or 1 at a time", lambda right, left: right - left in (0, 1))


def ends(*names: str, first: float, last: float) -> ResultCheck:
    """The rule that the first number is ``first``, and the last one ``last``."""
    rule = f"runs from {first:g} to {last:g}"
    return _per_field(names, rule, lambda values: [values[0], values[-1]] == [first, last])


def interval(name: str, *, nullable: bool = False) -> ResultCheck:
    """The rule that a field is two numbers, the second not below the first, or null where it may be."""

    def holds(result: Fields) -> bool:
        if value_at(result, name) is None:
            return nullable
        values = numbers(result, name)
        return len(values) == 2 and values[0] <= values[1]

    return _together((name,), f"{name} is an interval", holds)


def among(*names: str, values: tuple[str, ...]) -> ResultCheck:
    """The rule that all values are in a public list."""

    def broken(result: Fields) -> Iterator[str]:
        for name in names:
            if any(value not in values for value in _flat(value_at(result, name))):
                yield f"{name} is one of {', '.join(values)}"

    return ResultCheck(names=names, broken=broken)


def null_first(name: str) -> ResultCheck:
    """The rule that the first value of a list is null, and no other is."""

    def holds(result: Fields) -> bool:
        first, *others = _listed(result, name)
        return first is None and None not in others

    return _together((name,), f"{name} is null in the first place and nowhere else", holds)


def ascending(*names: str, nullable: bool = False) -> ResultCheck:
    """The rule that numbers do not decrease from one field to the next, at every position of lists.

    So do the lower ends of nested intervals, the value, and the upper ends.

    Args:
        names: an odd number of fields.
        nullable: whether numbers may be null.
    """

    def broken(result: Fields) -> Iterator[str]:
        for lower, upper in pairwise(names):
            columns = (numbers(result, name, nullable=nullable) for name in (lower, upper))
            if any(None not in pair and pair[1] < pair[0] for pair in zip(*columns, strict=True)):
                yield f"{upper} is not below {lower}"

    return ResultCheck(names=names, broken=broken)


def inside(name: str, ends_of: str, *, nullable: bool = False) -> ResultCheck:
    """The rule that the numbers of a field lie in the interval in the field ``ends_of``.

    Args:
        name: the field.
        ends_of: the field with both ends.
        nullable: whether the interval may be null.
    """

    def holds(result: Fields) -> bool:
        if nullable and value_at(result, ends_of) is None:
            return True
        low, high = numbers(result, ends_of)
        return all(low <= value <= high for value in numbers(result, name))

    return _together((name, ends_of), f"{name} is within {ends_of}", holds)


def adjoining(lower: str, upper: str, *, first: float, last: float) -> ResultCheck:
    """The rule that each bin begins where the previous one ends, from ``first`` up to ``last``."""
    line = f"{lower} and {upper} follow each other from {first:g} to {last:g}"
    return _together(
        (lower, upper), line, lambda result: [*numbers(result, lower), last] == [first, *numbers(result, upper)]
    )


def same_length(*names: str) -> ResultCheck:
    """The rule that all lists have the same length."""
    line = f"{', '.join(names)} have the same length"
    return _together(names, line, lambda result: len({len(_listed(result, name)) for name in names}) == 1)


def shape(*names: str, sizes: tuple[str, ...], more: int = 0) -> ResultCheck:
    """The rule that lists have, along each axis, the size that a field gives: its number, or the length of its list.

    Args:
        names: the lists.
        sizes: the field for each axis; null stands for 1.
        more: by how much the lists are longer than these sizes, along every axis.
    """

    def holds(result: Fields) -> bool:
        wanted = [_size(value_at(result, name)) + more for name in sizes]
        return all(_has_shape(value_at(result, name), wanted) for name in names)

    size = " by ".join(f"{name} + {more}" if more else name for name in sizes)
    return _together((*names, *sizes), f"the size of {', '.join(names)} is {size}", holds)


def _size(value: Any) -> int:
    if value is None:
        return 1
    return len(value) if isinstance(value, list) else int(value)


def _has_shape(value: Any, sizes: list[int]) -> bool:
    if not sizes or not isinstance(value, list):
        return not sizes and not isinstance(value, list)
    if len(sizes) == 1:
        return len(value) == sizes[0] and list not in set(map(type, value))
    return len(value) == sizes[0] and all(_has_shape(entry, sizes[1:]) for entry in value)


def add_up(*parts: str, total: str) -> ResultCheck:
    """The rule that the numbers of some fields add up to the number in another."""

    def holds(result: Fields) -> bool:
        return [sum(value for name in parts for value in numbers(result, name))] == numbers(result, total)

    return _together((*parts, total), f"{', '.join(parts)} add up to {total}", holds)


def null_together(*names: str) -> ResultCheck:
    """The rule that fields are null together, and lists at the same positions."""

    def holds(result: Fields) -> bool:
        values = [value_at(result, name) for name in names]
        lists = all(isinstance(value, list) for value in values)
        return len({bytes(entry is None for entry in (_flat(value) if lists else [value])) for value in values}) == 1

    return _together(names, f"{', '.join(names)} are null together", holds)


def null_where(*names: str, by: str, value: str, only: bool = True) -> ResultCheck:
    """The rule that lists are null where the list ``by`` has the given value, and, if ``only``, nowhere else."""

    def holds(result: Fields) -> bool:
        null = [entry == value for entry in _listed(result, by)]
        return all(
            (given is None) == must if only else given is None or not must
            for name in names
            for given, must in zip(_listed(result, name), null, strict=True)
        )

    line = f"{', '.join(names)} are null where {by} is {value}"
    return _together((*names, by), f"{line} and nowhere else" if only else line, holds)


def rows(name: str, *checks: ResultCheck) -> ResultCheck:
    """The rule that each object of a list meets the given rules."""

    def broken(result: Fields) -> Iterator[str]:
        for row in _listed(result, name):
            for check in checks:
                yield from (f"{name}: {line}" for line in check.broken(row))

    return ResultCheck(
        names=(name, *(f"{name}.{inner}" for check in checks for inner in check.names)),
        broken=broken,
    )


def optional(name: str, check: ResultCheck) -> ResultCheck:
    """The rule that a field is null, or an object that meets a rule."""

    def broken(result: Fields) -> list[str]:
        return [] if result[name] is None else [f"{name}: {line}" for line in check.broken(result[name])]

    return ResultCheck(names=tuple(f"{name}.{inner}" for inner in check.names), broken=broken)


def part(name: str, *, figures: tuple[str, ...], checks: tuple[ResultCheck, ...]) -> ResultCheck:
    """The rule that a field is itself a valid result, with its own status."""
    inner = (*figures, *(read for check in checks for read in check.names))
    return ResultCheck(
        names=(name, *(f"{name}.{read}" for read in inner)),
        broken=lambda result: [f"{name}: {line}" for line in violations(result[name], figures=figures, checks=checks)],
    )
