"""The names of single cells of a table of aggregates, in the grammar of ``contract.figure_names``.

``aggregates.north.2026-Q1.mean.spend.lower``: the kind, a group of each dimension in the order of the dimensions, the
figure and the column that it describes, and the end of an interval. ``*`` in the place of a group means all groups of
that dimension. The cell is then one of a table by fewer dimensions, which must be among ``marginals``:
``aggregates.north.*.count``, and ``aggregates.*.*.count`` for the total.

One rule of quoting, that of SQL: a part that is empty, is ``*``, begins or ends with a space, or contains a dot, a
double quote, a control character or one of ``<``, ``>``, ``=`` stands in double quotes, and a double quote within them
is doubled: ``aggregates."0.5 to 1".mean."ABS(a.b)"``. Any other part may be quoted, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import Ends, Figure, Spec
from spark_jobs.contract.results.aggregates import Aggregate, CellsOfTable
from spark_jobs.contract.values import did_you_mean

if TYPE_CHECKING:
    from spark_jobs.contract.options import AggregatesOptions

KIND, ALL = "aggregates", "*"
_COUNT, _INCOMPLETE = "count", "incomplete"
_PLAIN = re.compile(r'[^."<>=\s\x00-\x1f]([^."<>=\x00-\x1f]*[^."<>=\s\x00-\x1f])?')
_PART = re.compile(r'"((?:[^"]|"")*)"(?=\.|$)|([^.]*)')
_SHOWN = 20


class NamePart(NamedTuple):
    """A part of a cell's name, between two dots.

    Attributes:
        text: the part, without its quotes.
        quoted: whether it stood in quotes.
    """

    text: str
    quoted: bool


@dataclass(frozen=True)
class CellName:
    """The name of a figure of a cell.

    Attributes:
        labels: a group of each dimension; None for all groups of that dimension together.
        figure: ``("count",)``, ``("incomplete",)``, or a figure and its column or expression: ``("mean", "spend")``.
    """

    labels: tuple[str | None, ...]
    figure: tuple[str, ...]

    @property
    def group(self) -> str | None:
        """The groups of the cell as a name writes them; None in a table without dimensions."""
        return ".".join(ALL if label is None else written(label) for label in self.labels) or None

    @property
    def within(self) -> str:
        """The figure as a name writes it, such as ``mean.spend``."""
        name, *of = self.figure
        return ".".join((written(name), *(written(one, quoted=one in (_COUNT, _INCOMPLETE)) for one in of)))

    @property
    def label(self) -> str:
        """The figure and its cell in words, such as ``mean of spend in north, 2026-Q1``."""
        groups = ", ".join(label for label in self.labels if label is not None)
        return " of ".join(self.figure) + (f" in {groups}" if groups else " in all" if self.labels else "")


class NamedCell(NamedTuple):
    """A cell of a released table.

    Attributes:
        labels: a group of each dimension; None for all groups of that dimension together.
        table: the released table that contains the cell.
        place: the index of the cell in the table's arrays.
    """

    labels: tuple[str | None, ...]
    table: Mapping[str, Any]
    place: int

    @property
    def status(self) -> str:
        """The cell's status."""
        return str(self.table["status"][self.place])

    def read(self, figure: tuple[str, ...]) -> Figure[Any]:
        """A figure of the cell with its intervals, by the ``figure`` of a ``CellName``."""
        name, *of = figure
        if name == _INCOMPLETE:
            return Figure(value=self.table[_INCOMPLETE][self.place])
        content = self.table
        if name != _COUNT or of:
            content = next(one for one in self.table["measures"] if [one["name"], one["of"]] == [name, *of])
        own: Figure[Any] = spec_of_cell(figure).read(content).at(self.place)
        return Figure(value=own.value, **{part: _whole(getattr(own, part)) for part in ("interval", "population")})


@dataclass(frozen=True, kw_only=True)
class CellNames:
    """The cells that a table of aggregates has or will have, and their figures.

    Attributes:
        by: the names of the dimensions.
        keys: the groups of each dimension.
        tables: the tables that are measured, each as the indices of its dimensions in ``by``.
        figures: the figures of every cell, each as in ``CellName.figure``.
    """

    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    tables: tuple[tuple[int, ...], ...]
    figures: tuple[tuple[str, ...], ...]

    @classmethod
    def requested(cls, options: AggregatesOptions) -> CellNames:
        """The names of the cells and figures that a request for a table of aggregates asks for."""
        return cls(
            by=tuple(one.name for one in options.by),
            keys=tuple(one.labels for one in options.by),
            tables=options.tables(options.by),
            figures=_figures((name, one.of) for one in options.measures for name in one.figures),
        )

    @classmethod
    def released(cls, result: Mapping[str, Any]) -> CellNames:
        """The names of the cells and figures that a released table of aggregates contains."""
        by = tuple(result["by"])
        return cls(
            by=by,
            keys=tuple(map(tuple, result["keys"])),
            tables=tuple(tuple(map(by.index, one["by"])) for one in (result, *result["marginals"])),
            figures=_figures((one["name"], one["of"]) for one in result["measures"]),
        )

    def parse(self, rest: str, *, name: str, what: str, others: Iterable[str] = ()) -> tuple[CellName, str]:
        """The figure that a name means, and the end of its interval, such as ``lower``; no end means the figure itself.

        Args:
            rest: the name without the kind.
            name: the whole name.
            what: the field in which it was given, for messages.
            others: figures of the kind that are not of a cell, to be listed in messages.

        Raises:
            InvalidRequest: there is no such cell or figure, or its table is not measured.
        """
        parts = parts_of(rest)
        labels: list[str | None] = []
        for place, keys in enumerate(self.keys):
            part = parts[place] if place < len(parts) else NamePart("", quoted=False)
            if part != (ALL, False) and part.text not in keys:
                known = [*(() if place else others), *map(written, keys)]
                raise _no_cell(what, name, part, known, self.by[place])
            labels.append(None if part == (ALL, False) else part.text)
        table = tuple(place for place, label in enumerate(labels) if label is not None)
        if table not in self.tables:
            dimensions = ", ".join(self.by[place] for place in table)
            raise InvalidRequest(
                what, name, f"must be a cell of a measured table, and the table [{dimensions}] is not measured",
                f"name a group of each of {', '.join(self.by)}, or list that table in marginals",
            )  # fmt: skip
        return self._figure(tuple(labels), parts[len(labels) :], name=name, what=what)

    def _figure(
        self, labels: tuple[str | None, ...], parts: Sequence[NamePart], *, name: str, what: str
    ) -> tuple[CellName, str]:
        texts = tuple(part.text for part in parts)
        for figure in self.figures:
            end = ".".join(texts[len(figure) :])
            bare = len(figure) > 1 or not (parts and parts[0].quoted)
            if bare and texts[: len(figure)] == figure and (not end or end in spec_of_cell(figure).ends):
                return CellName(labels, figure), end
        known = [CellName((), figure).within for figure in self.figures]
        raise _no_cell(what, name, NamePart(".".join(texts), quoted=False), known, None)


def written(text: str, *, quoted: bool = False) -> str:
    """A part of a cell's name, in double quotes where the rule of quoting, or ``quoted``, demands it."""
    if not quoted and text != ALL and _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def parts_of(name: str) -> tuple[NamePart, ...]:
    """The parts of a name between its dots; dots within double quotes do not separate parts."""
    parts, place = [], 0
    while name and place <= len(name):
        match = _PART.match(name, place)
        if match is None:
            raise ValueError(name)  # never: the second form fits anything
        quoted = match[1] is not None
        parts.append(NamePart(match[1].replace('""', '"') if quoted else match[2], quoted))
        place = match.end() + 1
    return tuple(parts)


def cells_of(result: Mapping[str, Any], limit: int | None = None) -> Iterator[NamedCell]:
    """The cells of a table of aggregates and of its marginal tables, at most ``limit`` of each."""
    by = list(result["by"])
    for table in (result, *result["marginals"]):
        dimensions = [by.index(one) for one in table["by"]]
        for place, labels in islice(enumerate(product(*table["keys"])), limit):
            own = dict(zip(dimensions, labels, strict=True))
            yield NamedCell(tuple(map(own.get, range(len(by)))), table, place)


def cell_at(result: Mapping[str, Any], labels: Sequence[str | None]) -> NamedCell:
    """The cell with these labels: a group of each dimension, or None for all groups of that dimension.

    Raises:
        KeyError: the result has no table by these dimensions.
    """
    names = [name for name, label in zip(result["by"], labels, strict=True) if label is not None]
    for table in (result, *result["marginals"]):
        if list(table["by"]) == names:
            place, own = 0, (label for label in labels if label is not None)
            for keys, label in zip(table["keys"], own, strict=True):
                place = place * len(keys) + keys.index(label)
            return NamedCell(tuple(labels), table, place)
    raise KeyError(", ".join(names))


def few_cells(result: Mapping[str, Any], limit: int) -> Iterator[tuple[CellName, NamedCell]]:
    """The figures, apart from incomplete rows, of all cells of the smallest tables: ``limit`` figures at most."""
    figures = [one for one in CellNames.released(result).figures if one != (_INCOMPLETE,)]
    room, tables = limit // len(figures), []
    for table in sorted((result, *result["marginals"]), key=lambda one: len(one["status"])):
        room -= len(table["status"])
        if room >= 0:
            tables.append(table)
    for cell in cells_of(result, limit) if tables else ():
        if any(cell.table is table for table in tables):
            yield from ((CellName(cell.labels, figure), cell) for figure in figures)


def recorded_label(rest: str) -> str:
    """A cell's figure in words (``CellName.label``), from a recorded name without the kind."""
    *parts, last = parts_of(rest)
    of_count = last.text in (_COUNT, _INCOMPLETE) and not last.quoted
    figure = [last] if of_count or not parts else [parts.pop(), last]
    labels = tuple(None if part == (ALL, False) else part.text for part in parts)
    return CellName(labels, tuple(part.text for part in figure)).label


def spec_of_cell(figure: tuple[str, ...]) -> Spec:
    """The published names, limits and intervals of a cell's figure."""
    if figure == (_INCOMPLETE,):
        return Spec(
            meaning="incomplete rows", limits=(None, None), axis=None, along=None, value=_INCOMPLETE, names={},
            share=None, nullable=True, optional=(), inside=(), forecast=False, headline="",
        )  # fmt: skip
    return CellsOfTable.specs()[_COUNT] if figure == (_COUNT,) else Aggregate.specs()["values"]


def _figures(measures: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    listed = tuple(measures)
    return ((_COUNT,), *(((_INCOMPLETE,),) if listed else ()), *listed)


def _whole(ends: Ends[Any] | None) -> Ends[Any] | None:
    return None if ends is None or None in ends else ends


def _no_cell(what: str, name: str, part: NamePart, known: Sequence[str], dimension: str | None) -> InvalidRequest:
    shown = ", ".join((*known[:_SHOWN], *(["..."] if len(known) > _SHOWN else [])))
    of = "" if dimension is None else f" of {dimension}"
    return InvalidRequest(
        what,
        name,
        f"must name a figure of the release: {part.text or 'nothing'} is none of {shown}"
        + (f", the groups{of}" if of else ""),
        f"write {KIND}.group.figure, with .lower or .upper for an end, and groups with dots in double quotes"
        f"{did_you_mean(part.text, list(known))}",
    )
