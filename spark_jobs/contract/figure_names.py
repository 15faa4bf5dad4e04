"""The one grammar of figures' names, for gates, XCom, histories, suites of Great Expectations and SQL.

A name is ``kind[.group].figure[.end]``: ``roc_curve.auc``, ``auc.value.lower``, ``calibration.ece.population.upper``,
``roc_curve.north.auc`` (of a group of ``by_group``), ``linear_regression.7.slope`` (of a group's line),
``roc_comparison.first.auc`` (of a part of a result), ``aggregates.north.mean.spend`` (of a cell:
``contract.cell_names``). Groups of any kind may stand in double quotes, like the groups of cells. The type of a kind's
result (``contract.figure``) decides which names the kind has: one for each figure that is a single number, in the
result or in one of its parts, and one for each noisy size. Everything is read from the JSON form of a committed result,
so that a retry reads the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from spark_jobs.contract.cell_names import (
    ALL,
    KIND,
    CellName,
    CellNames,
    cell_at,
    cells_of,
    parts_of,
    spec_of_cell,
    written,
)
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import Figure, Spec
from spark_jobs.contract.figures import OK, status_of
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.published import PublishedFields
from spark_jobs.contract.values import did_you_mean

Results = Mapping[str, Mapping[str, Any]]
Groups = Mapping[str, tuple[str | None, ...] | CellNames]
"""The groups of each kind whose figures there are, None standing for all rows, and the cells of a table."""
ENDS = ("lower", "upper", "population.lower", "population.upper")
SIZES = ("positives", "negatives", "rows")
"""The noisy sizes that results state."""
LIMIT = 100
"""The most groups of a kind, and the most headline figures, that are listed; any group can be named."""
_OF_LINES = ("slope", "intercept")
"""The figures of ``linear_regression`` that are one number for each line."""
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class FigureName:
    """The parsed name of a figure of one number, or of an end of its interval.

    Attributes:
        kind: the kind of diagnostic.
        group: the group, as text; None for all rows.
        figure: the figure's name in the result, with the part of the result before it, as in ``first.auc``.
        end: one of ``ENDS``; empty for the figure itself.
    """

    kind: str
    group: str | None
    figure: str
    end: str = ""

    def __str__(self) -> str:
        return ".".join(part for part in (self.kind, self.group, self.figure, self.end) if part)


class ResultOf(NamedTuple):
    """The result of one kind for all rows or for a group.

    Attributes:
        place: the group's index in a result that holds all groups; None if the result is of these rows alone.
    """

    kind: str
    group: str | None
    result: Mapping[str, Any]
    place: int | None = None

    @property
    def status(self) -> str:
        """The status of the result for these rows."""
        return status_of(self.result) if self.place is None else str(self.result["status"][self.place])

    def read(self, figure: str) -> Figure[Any]:
        """The figure of this name with its intervals; undefined if the result lacks it."""
        *parts, _ = figure.split(".")
        content: Mapping[str, Any] | None = self.result
        for part in parts:
            content = None if content is None else content.get(part)
        read = None if content is None else single_figures(self.kind)[figure].read(content)
        own = read if isinstance(read, Figure) else Figure(value=read)
        if isinstance(own.value, list):  # of each group
            own = own.at(self.place or 0)
        ends = own.interval
        return own if ends is None or None not in ends else Figure(value=own.value)


@cache
def single_figures(kind: str) -> Mapping[str, Spec]:
    """The figures of a kind that are one number each, by their names within the kind."""
    return dict(_singles(DIAGNOSTICS[kind].result))


def results_of(results: Results, *, limit: int | None = None) -> Iterator[ResultOf]:
    """Each result with its kind; those by group as one result for each group, up to ``limit`` groups of a kind."""
    for kind, result in results.items():
        if kind == "by_group":
            for key, by_kind in islice(zip(result["keys"], result["results"], strict=True), limit):
                yield from (ResultOf(one, str(key), of_group) for one, of_group in by_kind.items())
        elif kind == "linear_regression" and result["keys"] is not None:
            for place, key in islice(enumerate(result["keys"]), limit):
                yield ResultOf(kind, str(key), result, place)
        elif kind in DIAGNOSTICS:
            yield ResultOf(kind, None, result)


def groups_of(results: Results) -> Groups:
    """The groups of each kind in released results, or the cells of a table of aggregates."""
    cells = {KIND: CellNames.released(results[KIND])} if KIND in results else {}
    return {**_by_kind((one.kind, one.group) for one in results_of(results)), **cells}


def requested_groups(diagnostics: Iterable[Any]) -> Groups:
    """The groups of each kind that the results of a request will have, or the cells of a table of aggregates."""
    pairs: list[tuple[str, str | None]] = []
    cells: dict[str, CellNames] = {}
    for options in diagnostics:
        groups = tuple(map(str, getattr(options, "groups", None) or ()))
        if options.kind == KIND:
            cells[KIND] = CellNames.requested(options)
        elif options.kind == "by_group":
            pairs += [(one.kind, group) for one in options.kinds for group in (*groups, "other")]
        else:
            pairs += [(options.kind, group) for group in groups or (None,)]
    return {**_by_kind(pairs), **cells}


def parse_name(name: str, groups: Groups, *, what: str = "gate") -> FigureName:
    """The figure that a name means.

    Args:
        name: the name.
        groups: the kinds that may be named, with their groups.
        what: the field in which the name was given, for messages.

    Raises:
        InvalidRequest: there is no such figure.
    """
    kind, _, rest = name.partition(".")
    if kind not in groups:
        raise _unknown(what, name, kind, groups)
    figures, keys = single_figures(kind), groups[kind]
    if isinstance(keys, CellNames):
        if rest in figures:
            return FigureName(kind=kind, group=None, figure=rest)
        cell, end = keys.parse(rest, name=name, what=what, others=figures)
        return FigureName(kind=kind, group=cell.group, figure=cell.within, end=end)
    inner = rest
    for group in keys:
        before = () if group is None else (f"{group}.", f"{written(group, quoted=True)}.")
        start = next((len(one) for one in before if rest.startswith(one)), None)
        if group is not None and start is None:
            continue
        inner = rest[start:]
        for figure, spec in figures.items():
            if inner == figure or (inner.startswith(f"{figure}.") and inner[len(figure) + 1 :] in spec.ends):
                return FigureName(kind=kind, group=group, figure=figure, end=inner[len(figure) + 1 :])
    if inner == rest and None not in keys:
        raise _unknown(what, name, rest.partition(".")[0], [str(one) for one in keys])
    own = next((one for one in figures if inner.startswith(f"{one}.")), None)
    part, known = (inner, list(figures)) if own is None else (inner[len(own) + 1 :], list(figures[own].ends))
    raise _unknown(what, name, part, known)


def find_figure(results: Results, name: FigureName) -> tuple[float | None, str]:
    """The number that a parsed name means, None if it is undefined, and the status of its result."""
    if name.kind == KIND and name.figure not in single_figures(KIND):
        parts = parts_of(name.group or "")
        cell = cell_at(results[KIND], [None if part == (ALL, False) else part.text for part in parts])
        return _number(cell.read(tuple(part.text for part in parts_of(name.figure))), name.end), cell.status
    for one in results_of(results):
        if (one.kind, one.group) == (name.kind, name.group):
            return _number(one.read(name.figure), name.end), one.status
    return None, OK


def figure_named(results: Results, name: str) -> float | None:
    """The number that a name means; None if it is undefined.

    Raises:
        InvalidRequest: the results have no figure of this name.
    """
    return find_figure(results, parse_name(name, groups_of(results)))[0]


def figure_columns(results: Results) -> dict[str, float | str | None]:
    """The numbers of results by their names, and each status as ``kind[.group].status``.

    These are the columns of a release's row, for suites of Great Expectations. Only the first ``LIMIT`` groups of a
    kind, or cells of a table, have columns.
    """
    columns: dict[str, float | str | None] = {}
    for one in results_of(results, limit=LIMIT):
        for figure, spec in single_figures(one.kind).items():
            number = one.read(figure)
            for end in ("", *spec.ends):
                name = FigureName(kind=one.kind, group=one.group, figure=figure, end=end)
                columns[str(name)] = _number(number, end)
        columns[str(FigureName(kind=one.kind, group=one.group, figure="status"))] = one.status
    if KIND in results:
        columns |= _columns_of_cells(results[KIND])
    return columns


def _columns_of_cells(result: Mapping[str, Any]) -> dict[str, float | str | None]:
    columns: dict[str, float | str | None] = {}
    names = CellNames.released(result)
    for cell in cells_of(result, LIMIT):
        for figure in names.figures:
            own, number = CellName(cell.labels, figure), cell.read(figure)
            for end in ("", *spec_of_cell(figure).ends):
                columns[str(FigureName(kind=KIND, group=own.group, figure=own.within, end=end))] = _number(number, end)
        if cell.labels:  # else it is the column of the whole
            columns[str(FigureName(kind=KIND, group=own.group, figure="status"))] = cell.status
    return columns


def _number(figure: Figure[Any], end: str) -> float | None:
    if not end:
        return None if figure.value is None else float(figure.value)
    pair = figure.population if end.startswith("population") else figure.interval
    number = None if pair is None else pair[end.endswith("upper")]
    return None if number is None else float(number)


def _singles(result: type[PublishedFields], within: str = "") -> Iterator[tuple[str, Spec]]:
    of_lines = "predictions" in result.specs()
    for spec in result.specs().values():
        if spec.axis is None and (not of_lines or spec.value in _OF_LINES):
            yield f"{within}{spec.value}", spec
    for one in fields(result):  # type: ignore[arg-type]
        if (
            one.name in SIZES
            and one.name not in result.specs()
            and (of_lines or str(one.type).partition(" ")[0] == "float")
        ):
            yield f"{within}{one.name}", _size(one.name)
        if "nested" in one.metadata and not one.metadata["many"] and not within:
            yield from _singles(one.metadata["nested"], f"{one.name}.")


def _size(name: str) -> Spec:
    return Spec(
        meaning="noisy size", limits=(None, None), axis=None, along=None, value=name, names={}, share=None,
        nullable=True, optional=(), inside=(), forecast=False, headline="",
    )  # fmt: skip


def _by_kind(pairs: Iterable[tuple[str, str | None]]) -> Groups:
    groups: dict[str, list[str | None]] = {}
    for kind, group in pairs:
        groups.setdefault(kind, []).append(group)
    return {kind: tuple(keys) for kind, keys in groups.items() if kind in DIAGNOSTICS}


def _unknown(what: str, name: str, part: str, known: Iterable[str]) -> InvalidRequest:
    names = list(islice(known, _SHOWN + 1))
    shown = ", ".join((*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else []))) or "what it has"
    return InvalidRequest(
        what, name, f"must name a figure of the release: {part or 'nothing'} is none of {shown}",
        "write kind.figure, or kind.figure.lower and kind.figure.upper for the ends of its "
        f"interval{did_you_mean(part, names)}",
    )  # fmt: skip
