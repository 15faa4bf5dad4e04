"""The value types between a diagnostic's renderer and what becomes of it: files, and a section of the report.

A renderer is a pure function from one released result to a ``Rendering``. It names no file, writes no HTML and knows
no other diagnostic; each kind's is ``render`` in its package's module ``page``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Result(Protocol):
    """What is published of a released result of any kind, beside what its own renderer makes of it."""

    @property
    def guarantee(self) -> str:
        """``differentially private`` or ``NOT PRIVATE``."""
        ...

    @property
    def neighbours(self) -> Neighbours:
        """The relation it was released under."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """The released values as plain JSON types."""
        ...


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a result's data file.

    Attributes:
        values: one-dimensional, the same length in every column of the file.
        meaning: one line, stored in the file's schema.
    """

    values: NDArray[Any]
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One point of a plot that a pointer can ask for.

    Attributes:
        x, low, y, high: axes fractions of the point and of its whisker.
        lines: what is shown, up to three short lines.
    """

    x: float
    y: float
    low: float
    high: float
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A picture.

    Attributes:
        name: file name without its ending.
        title: a few words; no text of a user.
        description: what it shows, for those who do not see it.
        draw: makes the figure; with a heading where it has to stand alone.
        axes: left, bottom, width and height of its axes, in fractions of the figure without a heading.
        probes: points to ask for, from left to right, in the report.
        legend: token of a colour and what is drawn in it; None for the section's.
    """

    name: str
    title: str
    description: str
    draw: Callable[[bool], Figure]
    axes: tuple[float, float, float, float]
    probes: tuple[Probe, ...] = ()
    legend: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The one number a section is about, on a scale of public ends.

    Attributes:
        label: what it is, e.g. ``AUC``.
        value: as printed.
        interval: its uncertainty in words; None where there is none.
        scale: the scale's ends, with their names.
        marks: value and interval's ends on the scale, as fractions of it; None where they are undefined.
        reference: a named point on the scale, as a fraction of it.
    """

    label: str
    value: str
    interval: str | None
    scale: tuple[str, str]
    marks: tuple[float, float, float] | None = None
    reference: tuple[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A labelled number with a note."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class ValueTable:
    """A short table of values, as text; its first column heads the rows."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A diagnostic's part of the report.

    Attributes:
        title: its heading.
        reading: how to read it, in a sentence or two each.
        headline: its main number.
        measures: further numbers.
        notes: small print below the numbers.
        table: the plot's values in numbers.
        legend: token of a colour and what is drawn in it.
        notice: a line that qualifies everything above, such as an undefined result.
    """

    title: str
    reading: tuple[str, ...]
    headline: Headline | None = None
    measures: tuple[Measure, ...] = ()
    notes: tuple[str, ...] = ()
    table: ValueTable | None = None
    legend: tuple[tuple[str, str], ...] = ()
    notice: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """All that is made of one result.

    Attributes:
        columns: of its data file.
        plots: its pictures.
        section: its part of the report.
    """

    columns: Mapping[str, Column]
    plots: tuple[Plot, ...]
    section: Section


Renderer = Callable[[Any, ReleaseRequest], Rendering]
"""From a result of the renderer's own kind, and the request it answers."""

Released = tuple[Result, Renderer]
"""A released result, and the renderer of its kind."""


def finite(value: float | None) -> TypeGuard[float]:
    """Whether a released number can be drawn or printed."""
    return value is not None and bool(np.isfinite(value))


def known(value: float | None) -> float:
    """A released number; NaN where it is undefined."""
    return float("nan") if value is None else value


def ends_of(interval: tuple[float, float] | None) -> tuple[float, float]:
    """The ends of a released interval; NaN where it is undefined."""
    return (float("nan"), float("nan")) if interval is None else interval
