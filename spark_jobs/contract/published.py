"""The base of all released results: fields declare what they hold; JSON form, rules and intervals follow from that.

A result is a frozen dataclass. A field that holds figures is declared by ``figure``, one that holds further objects
with figures by ``nested``; all other fields are public facts and noisy sizes. This module needs no NumPy: the side that
checks a release before it is committed has no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from spark_jobs.contract.figure import Ends, Figure, Number, Span, Spec, is_array, spec_of, without
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.privacy import Neighbours, plain
from spark_jobs.contract.result_checks import ResultCheck, optional, part, rows, same_length, violations


def withheld() -> Any:
    """A dataclass field that is no figure, but is also null in an undefined result, such as a model."""
    return field(metadata={"is_figure": True})


def nested(kind: type[PublishedFields], *, many: bool = False, absent: bool = False, is_figure: bool = False) -> Any:
    """A dataclass field that holds another published object with figures of its own, or a tuple of such objects.

    Args:
        kind: the type of the object.
        many: whether the field holds a tuple of objects.
        absent: whether the field may be null.
        is_figure: whether the object's figures are withheld in an undefined result.
    """
    return field(metadata={"nested": kind, "many": many, "absent": absent, "is_figure": is_figure})


if TYPE_CHECKING:
    F = TypeVar("F", bound=Callable[..., Any])

    def _once(of_class: F) -> F:
        """Remember what a function says of a class; the types of the cache know no classes."""
        ...
else:
    _once = lru_cache(maxsize=None)


class PublishedFields:
    """A frozen dataclass that is published as a JSON object, as its fields declare by ``figure`` and ``nested``.

    Attributes:
        ORDER: the order in which fields are published; ``*`` stands for all fields not named here, as they are defined.
        ARRAYS_LAST: whether arrays follow all other fields.
        RULES: the rules that do not follow from the declaration of a single field.
    """

    ORDER: ClassVar[str] = "*"
    ARRAYS_LAST: ClassVar[bool] = True
    RULES: ClassVar[tuple[ResultCheck, ...]] = ()

    @classmethod
    def specs(cls) -> dict[str, Spec]:
        """The specification of each field that holds figures, by the field's name."""
        return _specs(cls)

    @classmethod
    def figure_names(cls) -> tuple[str, ...]:
        """The published fields that are null if the object is undefined."""
        return (*(name for spec in cls.specs().values() for name in spec.published), *_withheld(cls))

    @classmethod
    def checks(cls) -> tuple[ResultCheck, ...]:
        """The rules that the JSON form of a defined result meets."""
        return _checks(cls)

    @classmethod
    def intervals(cls) -> tuple[Span, ...]:
        """The intervals whose widths can be forecast."""
        content = [one for spec in cls.specs().values() for one in spec.intervals()]
        for name, about in _nested_fields(cls):
            content += [one.within(name) for one in about["nested"].intervals()]
        return tuple(content)

    def withheld(self) -> Self:
        """This object without its figures: None in place of numbers, and NaN in arrays."""
        return replace(self, **{name: _nothing(getattr(self, name)) for name in _figure_fields(type(self))})  # type: ignore[type-var]

    def without_population(self) -> Self:
        """This object without intervals for the population; figures of nested objects keep theirs."""
        own = {name: getattr(self, name) for name in self.specs()}
        changed = {name: one.without_population() for name, one in own.items() if isinstance(one, Figure)}
        return replace(self, **changed)  # type: ignore[type-var]

    def published(self) -> dict[str, Any]:
        """The published fields by name, in order; arrays are not converted to lists."""
        content: dict[str, Any] = {}
        specs = self.specs()
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            content |= specs[one.name].write(value) if one.name in specs else {one.name: value}
        before, _, after = self.ORDER.partition("*")
        first, last = ([name for name in part.split() if name in content] for part in (before, after))
        names = (*first, *(name for name in content if name not in {*first, *last}), *last)
        if not self.ARRAYS_LAST:
            return {name: content[name] for name in names}
        return {name: content[name] for arrays in (False, True) for name in names if is_array(content[name]) is arrays}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The object in a result of ``to_dict``; only for classes whose fields are figures and single values."""
        specs = cls.specs()
        names = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        return cls(**{name: specs[name].read(content) if name in specs else content.get(name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; null for what is undefined."""
        return {name: as_json(value) for name, value in self.published().items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class Result(PublishedFields):
    """The fields that every released result has; figures given to an undefined result are withheld.

    Attributes:
        status: see ``contract.figures``; a list with one for each group in a result by groups.
        confidence: nominal level of its intervals.
        epsilon: cost of the release.
        neighbours: the relation of the guarantee.
        guarantee: ``differentially private`` or ``NOT PRIVATE``.
    """

    ORDER: ClassVar[str] = "status * confidence positives negatives epsilon delta neighbours guarantee"

    status: str
    confidence: float
    epsilon: Decimal
    neighbours: Neighbours
    guarantee: str

    def __post_init__(self) -> None:
        """Withhold the figures of an undefined result."""
        if self.status == UNDEFINED:
            for name in _figure_fields(type(self)):
                object.__setattr__(self, name, _nothing(getattr(self, name)))

    @classmethod
    def violations(cls, result: Mapping[str, Any]) -> list[str]:
        """The rules that the JSON form of a result breaks; see ``result_checks.violations``."""
        return violations(result, figures=cls.figure_names(), checks=cls.checks())


class OfOneFigure:
    """An object with a single figure, whose value and intervals are attributes of the object too."""

    figure: Number

    @property
    def value(self) -> float | None:
        """The released number; None if it is undefined."""
        return self.figure.value

    @property
    def interval(self) -> Ends[Any] | None:
        """The ends of ``Figure.interval``; None if there is no such interval."""
        return self.figure.interval

    @property
    def population(self) -> Ends[Any] | None:
        """The ends of ``Figure.population``; None if there is no such interval."""
        return self.figure.population

    @property
    def privacy_share(self) -> float | None:
        """The noise's share of the width of ``population``; None if there is no such interval."""
        return self.figure.privacy_share


def as_json(value: Any) -> Any:
    """A published value as plain JSON types; NaN is null."""
    if is_array(value):
        return _null(value.tolist())
    if isinstance(value, PublishedFields):
        return value.to_dict()
    if isinstance(value, tuple):
        return [as_json(one) for one in value]
    if isinstance(value, Decimal):
        return plain(value)
    return str(value) if isinstance(value, StrEnum) else _null(value)


def _null(value: Any) -> Any:
    if isinstance(value, list):
        return [_null(one) for one in value]
    return None if isinstance(value, float) and value != value else value


def _nothing(value: Any) -> Any:
    """What takes the place of a field that is withheld."""
    if isinstance(value, (Figure, PublishedFields)):
        return value.withheld()
    if isinstance(value, tuple) and value and isinstance(value[0], PublishedFields):
        return tuple(one.withheld() for one in value)
    return without(value)


@_once
def _specs(cls: Any) -> dict[str, Spec]:
    content = [one for one in fields(cls) if "figure" in one.metadata]
    return {one.name: spec_of(one.name, one.metadata["figure"]) for one in content}


def _nested_fields(cls: type[PublishedFields]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(one.name, one.metadata) for one in fields(cls) if "nested" in one.metadata]  # type: ignore[arg-type]


def _withheld(cls: type[PublishedFields]) -> list[str]:
    return [one.name for one in fields(cls) if one.metadata.get("is_figure")]  # type: ignore[arg-type]


@_once
def _figure_fields(cls: Any) -> tuple[str, ...]:
    return (*_specs(cls), *_withheld(cls))


@_once
def _checks(cls: Any) -> tuple[ResultCheck, ...]:
    specs, content = list(cls.specs().values()), []
    for axis in dict.fromkeys(spec.axis for spec in specs if spec.axis is not None):
        content.append(same_length(axis, *(name for spec in specs if spec.axis == axis for name in spec.published)))
    content += [check for spec in specs for check in spec.checks()]
    for name, about in _nested_fields(cls):
        kind: type[PublishedFields] = about["nested"]
        if about["many"]:
            content.append(rows(name, *kind.checks()))
        elif issubclass(kind, Result):
            content.append(part(name, figures=kind.figure_names(), checks=kind.checks()))
        else:
            content += [optional(name, check) for check in kind.checks()]
    return (*cls.RULES, *content)
