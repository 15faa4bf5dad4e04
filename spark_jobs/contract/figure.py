"""The type of a released figure, and the declaration of a result's fields that hold figures.

Each field declares once, by ``figure``, what its numbers are: their limits, the sorts of intervals that they have, and
the field along which an array runs. Everything else follows from this declaration: the JSON form, the fields that are
null if the result is undefined, the rules of the release contract, and the intervals whose widths can be forecast
(``contract.published``). Names in JSON are derived from the field's name: for a single number ``auc``,
``auc_interval``, ``auc_population_interval`` and ``auc_privacy_share``; for an array ``tpr``, ``tpr_lower``,
``tpr_upper``, ``tpr_population_lower`` and so on.

Values may be numbers or arrays; this module reads arrays only by ``tolist`` and arithmetic, and so needs no NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from spark_jobs.contract.result_checks import (
    ResultCheck,
    ascending,
    finite,
    inside,
    interval,
    null_together,
    within,
)

if TYPE_CHECKING:
    from spark_jobs.arrays import FloatArray

V = TypeVar("V", covariant=True)
Part = Literal["interval", "everywhere", "population", "population_everywhere"]
PARTS: tuple[Part, ...] = ("interval", "everywhere", "population", "population_everywhere")
"""The sorts of intervals, in the order in which they are published."""
DECIMALS = 9
"""Decimal places of published figures: finer than any noise, coarser than the differences between machines."""


class Ends(NamedTuple, Generic[V]):
    """The lower and the upper end of an interval, or arrays of the ends of several."""

    lower: V
    upper: V


@dataclass(frozen=True, kw_only=True)
class Figure(Generic[V]):
    """A released number, or an array of numbers, with its confidence intervals at the result's level.

    An interval is None if it was not paid for, or if the kind does not have it.

    Attributes:
        value: what was released; None, or NaN in an array, if it is undefined.
        interval: for the figure of the same rows without noise: it covers the noise, not the sampling of the rows.
        population: for the figure of the population that the rows are a sample of: it covers noise and sampling.
        privacy_share: the share of the width of ``population`` that is due to the noise.
        everywhere: simultaneous band for the same rows: it holds at all points together.
        population_everywhere: simultaneous band for the population.
    """

    value: V
    interval: Ends[Any] | None = None
    population: Ends[Any] | None = None
    privacy_share: V | None = None
    everywhere: Ends[Any] | None = None
    population_everywhere: Ends[Any] | None = None

    @property
    def number(self) -> float:
        """The value of a single figure; NaN if it is undefined."""
        return math.nan if self.value is None else float(self.value)  # type: ignore[arg-type]

    def ends(self, of: Part = "interval") -> Ends[Any]:
        """The lower and the upper end of this sort of interval; NaN if there is none."""
        pair: Ends[Any] | None = getattr(self, of)
        return Ends(math.nan, math.nan) if pair is None else pair

    @property
    def lower(self) -> Any:
        """The lower end of ``interval``; NaN if there is none."""
        return self.ends().lower

    @property
    def upper(self) -> Any:
        """The upper end of ``interval``; NaN if there is none."""
        return self.ends().upper

    def withheld(self) -> Figure[Any]:
        """The figure with its value and intervals undefined, as an undefined result publishes it."""
        ends = {of: None if (pair := getattr(self, of)) is None else _without(*pair) for of in PARTS}
        return Figure(value=without(self.value), privacy_share=without(self.privacy_share), **ends)

    def without_population(self) -> Figure[Any]:
        """The figure with its intervals for the population, and the noise's share of them, undefined."""
        return replace(
            self,
            population=None if self.population is None else _without(*self.population),
            population_everywhere=None if self.population_everywhere is None else _without(*self.population_everywhere),
            privacy_share=without(self.privacy_share),
        )

    def at(self, place: Any) -> Figure[Any]:
        """The figure at one index, or at several indices, of its arrays."""
        share = None if self.privacy_share is None else self.privacy_share[place]  # type: ignore[index]
        return replace(self.mapped(lambda values: values[place]), privacy_share=share)

    def mapped(self, change: Any) -> Figure[Any]:
        """The figure with ``change``, a nondecreasing function, applied to its value and to all ends of intervals."""
        ends = {of: pair if (pair := getattr(self, of)) is None else Ends(*map(change, pair)) for of in PARTS}
        return Figure(value=change(self.value), privacy_share=self.privacy_share, **ends)


def without(value: Any) -> Any:
    """What is published in place of a withheld value: NaN in every place of an array, None for a number."""
    return value * math.nan if is_array(value) else None


def _without(lower: Any, upper: Any) -> Ends[Any] | None:
    return Ends(without(lower), without(upper)) if is_array(lower) else None


def is_array(value: Any) -> bool:
    """Whether a published value is an array."""
    return hasattr(value, "tolist")


Number: TypeAlias = "Figure[float | None]"
Numbers: TypeAlias = "Figure[FloatArray]"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a field's figures are, and the names under which they are published.

    Attributes:
        meaning: one line on the numbers, as in a data file.
        limits: the smallest and the largest possible number; None for no limit.
        axis: the field that an array is as long as; None for a single number.
        along: the field along which the widths of a band are averaged in a forecast; None for the median width.
        value: the published name of the value.
        names: the published names of the two ends of each sort of interval; the same name twice for a single number.
        share: the published name of the noise's share of the population's interval; None if it is not published.
        nullable: whether numbers of a defined result may be null, with their intervals.
        optional: the sorts of intervals that a defined result may lack: those for a population, and those that were not
            paid for.
        inside: the sorts of intervals that contain the value.
        forecast: whether widths can be forecast: False if the width of an interval depends on how badly a model fits.
        headline: the figure's name in the lines that sum up a release; empty if they leave it out.
    """

    meaning: str
    limits: tuple[float | None, float | None]
    axis: str | None
    along: str | None
    value: str
    names: Mapping[Part, Ends[str]]
    share: str | None
    nullable: bool
    optional: tuple[Part, ...]
    inside: tuple[Part, ...]
    forecast: bool
    headline: str

    @property
    def published(self) -> tuple[str, ...]:
        """All published names of the figure, in the order in which they are published."""
        ends = [name for pair in self.names.values() for name in dict.fromkeys(pair)]
        return (self.value, *ends, *(() if self.share is None else (self.share,)))

    @property
    def ends(self) -> tuple[str, ...]:
        """The ends of its intervals as ``contract.figure_names`` spells them, such as ``population.lower``."""
        before: Mapping[Part, str] = {"interval": "", "population": "population."}
        return tuple(f"{text}{end}" for part, text in before.items() if part in self.names for end in Ends._fields)

    def write(self, value: Any) -> dict[str, Any]:
        """The published fields of a figure, or of a plain number."""
        if not isinstance(value, Figure):
            return {self.value: value}
        content = {self.value: value.value}
        for of, (lower, upper) in self.names.items():
            ends = getattr(value, of)
            content |= {lower: ends} if lower == upper else dict(zip((lower, upper), ends or (None, None), strict=True))
        return content if self.share is None else {**content, self.share: value.privacy_share}

    def read(self, content: Mapping[str, Any]) -> Any:
        """The figure in published fields, or the number of a field without intervals; the inverse of ``write``.

        A release of an earlier version may lack intervals.
        """
        if len(self.published) == 1:
            return content.get(self.value)
        ends: dict[str, Any] = {}
        for of, (lower, upper) in self.names.items():
            pair = content.get(lower) if lower == upper else (content.get(lower), content.get(upper))
            ends[of] = None if pair is None else Ends(*pair)
        share = None if self.share is None else content.get(self.share)
        return Figure(value=content.get(self.value), privacy_share=share, **ends)

    def checks(self) -> Iterator[ResultCheck]:
        """The rules of the release contract for the figure's numbers."""
        null = self.nullable
        yield self._limited(self.value, nullable=null)
        for of, pair in self.names.items():
            yield self._limited(*dict.fromkeys(pair), nullable=null or of in self.optional)
        if self.share is not None:
            yield within(self.share, nullable=null or "population" in self.optional)
        always = [name for of, pair in self.names.items() if of not in self.optional for name in dict.fromkeys(pair)]
        together = (self.value, *always) if null else ()
        if len(together) > 1:
            yield null_together(*together)
        for of in self.optional:
            lacking = (*dict.fromkeys(self.names[of]), *((self.share,) if self.share and of == "population" else ()))
            if len(lacking) > 1:
                yield null_together(*lacking)
        for of, (name, other) in self.names.items():
            if name == other:
                free = null or of in self.optional
                yield inside(self.value, name, nullable=free) if of in self.inside else interval(name, nullable=free)
        yield from self._nested()

    def _limited(self, *names: str, nullable: bool) -> ResultCheck:
        low, high = self.limits
        if low is None or high is None:
            return finite(*names, low=low, nullable=nullable)
        return within(*names, low=low, high=high, nullable=nullable)

    def _nested(self) -> Iterator[ResultCheck]:
        for one, other in (PARTS[:2], PARTS[2:]):
            inner = [self.names[of] for of in (one, other) if of in self.names and len(set(self.names[of])) == 2]
            if inner:
                lower, upper = ([pair[end] for pair in inner] for end in (0, 1))
                yield ascending(*reversed(lower), self.value, *upper, nullable=self.nullable or bool(self.optional))

    def intervals(self) -> tuple[Span, ...]:
        """The figure's intervals, if their widths can be forecast; otherwise none."""
        return tuple(Span(*pair, self.along) for pair in self.names.values()) if self.forecast else ()


class Span(NamedTuple):
    """The published fields of an interval whose width can be forecast.

    Attributes:
        low, high: the fields of its ends; the same field if that has both.
        along: the field along which a band's width is averaged; None for its median width, or for a single interval.
    """

    low: str
    high: str
    along: str | None

    @property
    def name(self) -> str:
        """The name of the interval's field, or of the fields of both ends."""
        return self.low if self.low == self.high else f"{self.low} to {self.high}"

    def within(self, name: str) -> Span:
        """The same interval, where its fields are in the object or the list of objects ``name``."""
        return Span(*(None if one is None else f"{name}.{one}" for one in self))  # type: ignore[arg-type]


def figure(
    meaning: str,
    *parts: Part,
    limits: tuple[float | None, float | None] = (None, None),
    share: bool = False,
    axis: str | None = None,
    along: str | None = None,
    value: str | None = None,
    stem: str | None = None,
    population_last: bool = False,
    split: bool = False,
    nullable: bool = False,
    optional: tuple[Part, ...] = (),
    inside: tuple[Part, ...] = PARTS,
    forecast: bool = True,
    headline: str = "",
) -> Any:
    """A field of a result that holds figures: a ``Figure``, or a number or an array that has no interval.

    Args:
        meaning: one line on the numbers.
        parts: the sorts of intervals that are published.
        limits: the smallest and the largest possible number; None for no limit.
        share: whether the noise's share of the width of the population's interval is published.
        axis: the field that an array is as long as.
        along: the field along which the widths of a band are averaged in a forecast.
        value: the published name of the value, if it is not the field's.
        stem: what the names of the ends begin with, if not with the value's name; empty for ``lower`` and ``interval``.
        population_last: whether the names of the ends end with ``population``, as in ``lower_population``.
        split: whether both ends of an interval have names of their own, as they have in arrays with an axis.
        nullable: whether numbers of a defined result may be null, with their intervals.
        optional: the sorts of intervals that a defined result may lack.
        inside: the sorts of intervals that contain the value.
        forecast: whether widths can be forecast.
        headline: the figure's name in the lines that sum up a release; empty if they leave it out.
    """
    return field(
        metadata={
            "figure": {
                "meaning": meaning, "limits": limits, "axis": axis, "along": along, "nullable": nullable,
                "optional": optional, "inside": inside, "forecast": forecast, "names": parts, "value": value,
                "stem": stem, "share": share, "population_last": population_last, "split": split,
                "headline": headline,
            }
        }
    )  # fmt: skip


def spec_of(name: str, about: Mapping[str, Any]) -> Spec:
    """The specification of the field ``name``, from the metadata ``about`` that ``figure`` gave it."""
    given = dict(about)
    value = given.pop("value") or name
    stem = given.pop("stem")
    stem = f"{value}_" if stem is None else f"{stem}_" if stem else ""
    last, parts, share = given.pop("population_last"), given.pop("names"), given.pop("share")
    split = given.pop("split") or given["axis"] is not None

    def named(of: Part, end: str) -> str:
        before, after = "population_" if of.startswith("population") else "", "_everywhere" if "every" in of else ""
        text = f"{end}_{before}".rstrip("_") if last else f"{before}{end}"
        return f"{stem}{text}{after}"

    names = {of: Ends(*(named(of, end if split else "interval") for end in ("lower", "upper"))) for of in parts}
    ordered = {of: names[of] for of in PARTS if of in names}
    # units that are too few have no interval for their population
    given["optional"] = tuple(of for of in ordered if of in given["optional"] or of.startswith("population"))
    return Spec(**given, value=value, names=ordered, share=f"{stem}privacy_share" if share else None)
