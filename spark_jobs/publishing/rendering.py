"""What a renderer returns for one released result: data columns, plots and a section of the report.

A renderer is a pure function from a released result and its request to a ``Rendering``. It writes no file and no HTML.
The renderer of a kind is ``render`` in the module ``page`` of its package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.published import PublishedFields, Result
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@runtime_checkable
class InColumns(Protocol):
    """A result with so many groups that its values are written from arrays instead of lists."""

    def to_columns(self) -> dict[str, Any]:
        """The fields of ``to_dict``, with long lists replaced by sequences that are read slice by slice."""
        ...


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a result's data file.

    Attributes:
        values: one-dimensional, of the same length in every column of the file.
        meaning: one line of text, stored in the file's schema.
    """

    values: NDArray[Any]
    meaning: str


def figure_columns(
    result: PublishedFields, field: str, meaning: str, ends: Mapping[str, str], *, share: str = ""
) -> dict[str, Column]:
    """The columns of a figure: its value, and both ends of each kind of interval that it publishes.

    Args:
        result: the result.
        field: the result's field that holds the figure.
        meaning: what the value is.
        ends: for each kind of interval, what its ends are, without ``lower`` or ``upper``.
        share: the meaning of the column with the share that is due to the noise; empty to leave that column out.
    """
    figures, spec = getattr(result, field), result.specs()[field]
    values = spec.write(figures)
    meanings = {spec.value: meaning}
    meanings |= {
        name: f"{end} {ends[of]}"
        for of, pair in spec.names.items()
        for end, name in zip(pair._fields, pair, strict=True)
    }
    if share and spec.share is not None:
        meanings[spec.share] = share
    return {name: Column(values=values[name], meaning=line) for name, line in meanings.items()}


Legend = tuple[tuple[str, str], ...]
"""Keys of the style sheet, and what is drawn in them; the page leaves out what a picture does not have."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One point of a plot whose values are shown when the pointer is near.

    Attributes:
        x, low, y, high: position of the point, and ends of its whisker, as fractions of the axes.
        lines: the text, up to three short lines.
    """

    x: float
    y: float
    low: float
    high: float
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A plot, as files and in the report.

    Attributes:
        name: file name without its suffix.
        title: a few words, without text of a user.
        description: text alternative for readers who cannot see the plot.
        draw: draws the figure: ``draw(True)`` for a file of its own, with a heading; ``draw(False)`` for the report.
        axes: left, bottom, width and height of the axes, as fractions of the figure without a heading.
        probes: points with values to show, from left to right.
        legend: colour tokens and what is drawn in them; None to use the section's legend.
    """

    name: str
    title: str
    description: str
    draw: Callable[[bool], Figure]
    axes: tuple[float, float, float, float]
    probes: tuple[Probe, ...] = ()
    legend: Legend | None = None


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A labelled number with a note."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The main number of a section, on a scale with public ends.

    Attributes:
        label: name of the number, such as ``AUC``.
        value: the number as text.
        interval: its confidence interval as text; None if it has no interval.
        scale: texts at the two ends of the scale.
        marks: lower end, value and upper end, as fractions of the scale; None if they are undefined.
        reference: name and position, as a fraction of the scale, of a reference point.
        others: further main numbers, shown directly below the scale.
    """

    label: str
    value: str
    interval: str | None
    scale: tuple[str, str]
    marks: tuple[float, float, float] | None = None
    reference: tuple[str, float] | None = None
    others: tuple[Measure, ...] = ()


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
        title: the heading.
        reading: paragraphs on how to read the plot, of one or two sentences each.
        headline: the main number.
        measures: further numbers.
        notes: notes below the numbers.
        table: the values of the plot as a table.
        legend: colour tokens and what is drawn in them.
        notice: a statement that qualifies the whole section, such as that the result is undefined.
    """

    title: str
    reading: tuple[str, ...]
    headline: Headline | None = None
    measures: tuple[Measure, ...] = ()
    notes: tuple[str, ...] = ()
    table: ValueTable | None = None
    legend: Legend = ()
    notice: str | None = None


@dataclass(frozen=True, kw_only=True)
class Multiples:
    """Small plots of the same kind, side by side in the report; they are no files of their own.

    Attributes:
        heading: a few words.
        note: what the plots have in common; may be empty.
        plots: for each plot its caption, which may be text of a user, its scale, and the plot.
        wide: whether the plots have text of their own, and need room for it.
        legend: colour tokens and what is drawn in them; the note says which of these a plot has.
    """

    heading: str
    note: str
    plots: tuple[tuple[str, str, Plot], ...]
    wide: bool = False
    legend: Legend = ()


@dataclass(frozen=True, kw_only=True)
class Rendering:
    """Everything that is published of one result.

    Attributes:
        columns: columns of the data file, by name.
        plots: the plots.
        section: the section of the report.
        multiples: small plots below the section.
        tables: the columns of further data files, by the names of these files without suffix.
    """

    columns: Mapping[str, Column]
    plots: tuple[Plot, ...]
    section: Section
    multiples: tuple[Multiples, ...] = ()
    tables: Mapping[str, Mapping[str, Column]] = field(default_factory=dict)


Renderer = Callable[[Any, ReleaseRequest], Rendering]
"""``renderer(result, request)``: renders a result of its own kind."""

Released = tuple[Result, Renderer]
"""A released result, and the renderer of its kind."""


def finite(value: float | None) -> TypeGuard[float]:
    """Whether a released number can be drawn or printed."""
    return value is not None and bool(np.isfinite(value))


def known(value: float | None) -> float:
    """A released number; NaN if it is undefined."""
    return float("nan") if value is None else value


def ends_of(interval: tuple[float, float] | None) -> tuple[float, float]:
    """The ends of a released interval; NaN if it is undefined."""
    return (float("nan"), float("nan")) if interval is None else interval
