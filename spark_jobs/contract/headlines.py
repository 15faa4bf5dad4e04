"""The headline figures of a release, which its last line, XCom, the asset event and the ledger repeat.

The type of each kind's result (``contract.figure``) decides which figures are headlines; their names are those of
``contract.figure_names``. A table of aggregates has as headlines the noisy number of its rows and, after all others,
the cells of its smallest tables, up to ``LIMIT`` figures. Everything is read from the JSON form of a committed result,
so that retries agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.cell_names import KIND, CellName, NamedCell, few_cells, recorded_label
from spark_jobs.contract.figure_names import (
    LIMIT,
    SIZES,
    FigureName,
    ResultOf,
    Results,
    results_of,
    single_figures,
)
from spark_jobs.contract.figures import COARSE, OK, SHRUNK
from spark_jobs.contract.options import DIAGNOSTICS

if TYPE_CHECKING:
    from spark_jobs.contract.left_out import LeftOut

_SHOWN = 3
_LABELS = {"auc": "AUC", "average_precision": "average precision"}
"""What the kinds of one figure call it."""


@dataclass(frozen=True, kw_only=True)
class HeadlineFigure:
    """A headline figure of a release.

    Attributes:
        name: the figure's name in gates and histories (``contract.figure_names``).
        label: the figure's name in lines of text.
        status: the status of its result; ``undefined`` for a figure that the noise hides.
        value: the figure; None if it is undefined.
        interval, population: both ends of the interval for the same rows, and of the interval for their population;
            None if there is no such interval.
        cause: why the figure may be undefined or weak, as numbers of the same release suggest; otherwise empty.
    """

    name: str
    label: str
    status: str
    value: float | None
    interval: tuple[float, float] | None
    population: tuple[float, float] | None
    cause: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, for XCom, asset events and the ledger."""
        ends = {of: None if (pair := getattr(self, of)) is None else list(pair) for of in ("interval", "population")}
        return {"name": self.name, "value": self.value, **ends, "status": self.status}

    def __str__(self) -> str:
        """``AUC 0.730 (0.721 to 0.742)``."""
        text = figure_text(self.label, self.value, self.interval)
        return f"{text} ({self.cause})" if self.cause else text


def headlines(results: Results, left_out: LeftOut | None = None) -> tuple[HeadlineFigure, ...]:
    """The headline figures of a release's results, in the order of its diagnostics; at most ``LIMIT``.

    Args:
        results: the results.
        left_out: the release's noisy counts of rows that did not count, from which causes are suggested.
    """
    return tuple(islice(_headlines(results, left_out), LIMIT))


def figures_text(results: Results, left_out: LeftOut | None = None) -> str:
    """The first headline figures in one line; empty if there are none."""
    shown = [str(one) for one in islice(_headlines(results, left_out), _SHOWN)]
    return _listed(shown, sum(1 for _ in _places(results)) + sum(1 for _ in _cells(results)))


def recorded_text(figures: Sequence[Mapping[str, Any]]) -> str:
    """The first of the headline figures that the ledger recorded by ``HeadlineFigure.to_dict``, in one line."""
    shown = [
        figure_text(
            _recorded_label(one["name"]), one["value"], None if (pair := one["interval"]) is None else tuple(pair)
        )
        for one in figures[:_SHOWN]
    ]
    return _listed(shown, len(figures))


def figure_text(label: str, value: float | None, interval: tuple[float, float] | None) -> str:
    """A figure and its interval in words, such as ``AUC 0.730 (0.721 to 0.742)``."""
    if value is None or interval is None:
        return f"{label} {number_text(value)}"
    return f"{label} {number_text(value)} ({interval_text(interval)})"


def interval_text(interval: tuple[float, float]) -> str:
    """An interval in words, such as ``0.721 to 0.742``."""
    return " to ".join(map(number_text, interval))


def _listed(shown: Sequence[str], of: int) -> str:
    return ", ".join([*shown, *([f"{of - len(shown):,} more"] if of > len(shown) else [])])


def _label(kind: str, group: str | None, figure: str) -> str:
    label = _LABELS.get(kind, single_figures(kind)[figure].headline)
    return label if group is None else f"{label} of {group}"


def _recorded_label(name: str) -> str:
    """The label of a recorded figure; its name, if this version knows no such figure."""
    kind, _, rest = name.partition(".")
    if kind == KIND and rest not in single_figures(KIND):
        return recorded_label(rest)
    for figure in single_figures(kind) if kind in DIAGNOSTICS else ():
        if rest == figure or rest.endswith(f".{figure}"):
            return _label(kind, rest[: -len(figure) - 1] or None, figure)
    return name


def _places(results: Results) -> Iterator[tuple[ResultOf, str]]:
    """Each headline figure's result, and its name within it."""
    for one in results_of(results):
        for figure, spec in single_figures(one.kind).items():
            if spec.headline and figure == spec.value and figure in one.result:
                yield one, figure


def _cells(results: Results) -> Iterator[tuple[CellName, NamedCell]]:
    return few_cells(results[KIND], LIMIT) if KIND in results else iter(())


def _headlines(results: Results, left_out: LeftOut | None) -> Iterator[HeadlineFigure]:
    yield from (_headline(*one, left_out) for one in _places(results))
    yield from (_headline_of_cell(*one) for one in _cells(results))


def _headline_of_cell(name: CellName, cell: NamedCell) -> HeadlineFigure:
    number, rows = cell.read(name.figure), cell.table["count"][cell.place]
    few = f"too few rows for this noise: about {rows:,.0f} rows"
    return HeadlineFigure(
        name=str(FigureName(kind=KIND, group=name.group, figure=name.within)),
        label=name.label,
        status=cell.status,
        value=number.value,
        interval=None if number.interval is None else tuple(number.interval),
        population=None if number.population is None else tuple(number.population),
        cause=few if number.value is None else "" if cell.status == OK else cell.status,
    )


def _headline(one: ResultOf, figure: str, left_out: LeftOut | None = None) -> HeadlineFigure:
    number = one.read(figure)
    label = _label(one.kind, one.group, figure)
    if one.kind == "quantile":
        label = "median" if one.result["level"] == 0.5 else f"{100 * one.result['level']:g}% quantile"
    interval, population = ((None if pair is None else tuple(pair)) for pair in (number.interval, number.population))
    return HeadlineFigure(
        name=str(FigureName(kind=one.kind, group=one.group, figure=figure)),
        label=label,
        status=one.status,
        value=number.value,
        interval=interval,
        population=population,
        cause=_few(one, left_out) if number.value is None else _weak(one),
    )


def _few(one: ResultOf, left_out: LeftOut | None) -> str:
    """What may be behind an undefined figure: noisy sizes, and rows that did not count, if the release states them."""
    sizes = {name: one.read(name).value for name in SIZES if name in single_figures(one.kind)}
    known = [f"about {size:,.0f} {name}" for name, size in sizes.items() if size is not None]
    causes = [f"too few rows for this noise: {', '.join(known)}"] if known else []
    return "; ".join([*causes, *([left_out.short()] if left_out is not None and left_out.short() else [])])


def _weak(one: ResultOf) -> str:
    """What may be behind a figure that is there and whose result is not ``ok``."""
    hidden = one.result.get("at_ends")
    if one.status == COARSE and isinstance(hidden, int | float):
        return f"{COARSE}: about {hidden:.0%} of the rows have scores at 0 or 1, or beyond, and no order"
    return {
        OK: "",
        COARSE: f"{COARSE}: many rows have scores whose order is hidden",
        SHRUNK: f"{SHRUNK}: noise pulled it towards 0",
    }.get(one.status, one.status)


def number_text(value: float | None) -> str:
    """A number as a line prints it: three decimals up to 10, then four digits; ``undefined`` for None."""
    if value is None:
        return "undefined"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
