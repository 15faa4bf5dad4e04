"""The headline figures of a release: what its last line, XCom, the asset event and the ledger say was found.

Which figures are headlines follows from the type of each kind's result (``contract.figure``), and their names are those
of ``contract.figure_names``. Everything is read from the JSON form of a committed result, so that retries agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spark_jobs.contract.figure_names import MOST, SIZES, FigureName, ResultOf, Results, results_of, single_figures

_SHOWN = 3
_LABELS = {"auc": "AUC", "average_precision": "average precision"}
"""What the kinds of one figure call it."""


@dataclass(frozen=True, kw_only=True)
class HeadlineFigure:
    """A headline figure of a release.

    Attributes:
        name: by which gates and histories name it.
        label: what a line calls it.
        status: that of its result; ``undefined`` for a figure that the noise hides.
        value: the figure; None if it is undefined.
        interval, population: both ends of its intervals; None without one.
        cause: what may be behind an undefined figure, from numbers of the same release; empty if it is defined.
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


def headlines(results: Results) -> tuple[HeadlineFigure, ...]:
    """The headline figures of a release's results, in the order of its diagnostics; at most ``MOST``."""
    return tuple(_headline(*one) for one in islice(_places(results), MOST))


def figures_text(results: Results) -> str:
    """The first headline figures in one line; empty without any."""
    shown = [str(_headline(*one)) for one in islice(_places(results), _SHOWN)]
    more = sum(1 for _ in _places(results)) - len(shown)
    return ", ".join([*shown, *([f"{more:,} more"] if more else [])])


def figure_text(label: str, value: float | None, interval: tuple[float, float] | None) -> str:
    """``AUC 0.730 (0.721 to 0.742)``."""
    if value is None or interval is None:
        return f"{label} {number_text(value)}"
    return f"{label} {number_text(value)} ({interval_text(interval)})"


def interval_text(interval: tuple[float, float]) -> str:
    """``0.721 to 0.742``."""
    return " to ".join(map(number_text, interval))


def _places(results: Results) -> Iterator[tuple[ResultOf, str]]:
    """Each headline figure's result, and its name within it."""
    for one in results_of(results):
        for figure, spec in single_figures(one.kind).items():
            if spec.headline and figure == spec.value and figure in one.result:
                yield one, figure


def _headline(one: ResultOf, figure: str) -> HeadlineFigure:
    found = one.read(figure)
    label = _LABELS.get(one.kind, single_figures(one.kind)[figure].headline)
    if one.kind == "quantile":
        label = "median" if one.result["level"] == 0.5 else f"{100 * one.result['level']:g}% quantile"
    interval, population = ((None if pair is None else tuple(pair)) for pair in (found.interval, found.population))
    return HeadlineFigure(
        name=str(FigureName(kind=one.kind, group=one.group, figure=figure)),
        label=label if one.group is None else f"{label} of {one.group}",
        status=one.status,
        value=found.value,
        interval=interval,
        population=population,
        cause="" if found.value is not None else _cause(one.result),
    )


def _cause(result: Mapping[str, Any]) -> str:
    """What may be behind an undefined figure: the noisy sizes, if they are part of the release."""
    sizes = {name: result.get(name) for name in SIZES}
    known = [f"about {size:,.0f} {name}" for name, size in sizes.items() if isinstance(size, int | float)]
    return f"too few rows for this noise: {', '.join(known)}" if known else ""


def number_text(value: float | None) -> str:
    """A number as a line prints it: three decimals up to 10, then four digits; ``undefined`` for None."""
    if value is None:
        return "undefined"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
