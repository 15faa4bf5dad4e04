"""The figures of a release by name: one grammar for lines about a release, XCom and gates.

A name is ``kind[.group].figure[.end]``: ``roc_curve.auc``, ``auc.value.lower``, ``calibration.ece.population.upper``,
``roc_curve.north.auc`` (of a group of ``by_group``), ``linear_regression.001.slope``. What figures a kind has, and
which of them are headlines, follows from the type of its result (``contract.figure``). Everything is read from the JSON
form of a committed result, so that a retry reads the same.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure import Figure, Spec
from spark_jobs.contract.figures import OK, status_of
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.request_documents import load_fields
from spark_jobs.contract.values import did_you_mean

Results = Mapping[str, Mapping[str, Any]]
ENDS = ("lower", "upper", "population.lower", "population.upper")
_SHOWN = 3
_LABELS = {"auc": "AUC", "average_precision": "average precision"}
"""What the kinds of one figure call it."""
_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt,
}  # fmt: skip
_GATE = re.compile(r"\s*([^<>=\s]+)\s*(>=|<=|>|<)\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*")


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
        """Plain JSON types, for XCom and asset events."""
        ends = {of: None if (pair := getattr(self, of)) is None else list(pair) for of in ("interval", "population")}
        return {"name": self.name, "value": self.value, **ends, "status": self.status}

    def __str__(self) -> str:
        """``AUC 0.730 (0.721 to 0.742)``."""
        if self.value is None:
            return f"{self.label} undefined" + (f" ({self.cause})" if self.cause else "")
        if self.interval is None:
            return f"{self.label} {_text(self.value)}"
        low, high = map(_text, self.interval)
        return f"{self.label} {_text(self.value)} ({low} to {high})"


def headlines(results: Results) -> tuple[HeadlineFigure, ...]:
    """The headline figures of a release's results, in the order of its diagnostics."""
    return tuple(
        _headline(kind, group, result, spec)
        for kind, group, result in _of_groups(results)
        for spec in DIAGNOSTICS[kind].result.specs().values()
        if spec.headline and spec.value in result
    )


def figures_text(figures: tuple[HeadlineFigure, ...]) -> str:
    """The first headline figures in one line."""
    shown = [str(one) for one in figures[:_SHOWN]]
    more = len(figures) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])])


def figure_named(results: Results, name: str) -> float | None:
    """The number of this name; None if it is undefined.

    Raises:
        InvalidRequest: the results have no figure of this name.
    """
    kind, group, spec, end = _parsed(name, tuple(results), _groups_of(results))
    for one, of_group, result in _of_groups(results):
        if one == kind and of_group == group:
            figure = _read(spec, result, group)
            if not end:
                return None if figure.value is None else float(figure.value)
            pair = figure.population if end.startswith("population") else figure.interval
            return None if pair is None else float(pair[end.endswith("upper")])
    return None


@dataclass(frozen=True)
class Gate:
    """A condition on a released figure, such as ``roc_curve.auc.lower >= 0.7``."""

    name: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Gate:
        """The condition in a text.

        Raises:
            InvalidRequest: it is none.
        """
        content = _GATE.fullmatch(text)
        try:
            bound = float(content[3]) if content else None
        except ValueError:
            bound = None
        if content is None or bound is None:
            raise _no_condition(text)
        return cls(content[1], content[2], bound)

    def check(self, diagnostics: Mapping[str, tuple[str, ...]]) -> None:
        """Reject a figure that a release lacks.

        Args:
            diagnostics: the groups of each kind that is requested; those of ``by_group`` stand with the kinds in it.

        Raises:
            InvalidRequest: the release has no such figure.
        """
        _parsed(self.name, tuple(diagnostics), diagnostics)

    def holds(self, results: Results) -> bool:
        """Whether the figure meets the condition; an undefined one, or a result that is not ``ok``, never does."""
        kind, group, _, _ = _parsed(self.name, tuple(results), _groups_of(results))
        value = figure_named(results, self.name)
        sure = any(
            one == kind and own == group and _status(result, group) == OK for one, own, result in _of_groups(results)
        )
        return sure and value is not None and _COMPARED[self.sign](value, self.bound)

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.bound:g}"


def gate_of(text: str, diagnostics: Any) -> Gate:
    """The gate in a text, whose figure is among those of a request's diagnostics.

    Raises:
        InvalidRequest: it is no condition, or the release has no such figure.
    """
    gate = Gate.parse(text)
    known: dict[str, tuple[str, ...]] = {}
    for options in diagnostics:
        groups = tuple(str(key) for key in getattr(options, "groups", None) or ())
        if options.kind == "by_group":
            known |= {one.kind: (*known.get(one.kind, ()), *groups, "other") for one in options.kinds}
        else:
            known[options.kind] = groups
    gate.check(known)
    return gate


def without_gate(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request's file that shape its release."""
    return {name: value for name, value in fields.items() if name != "gate"}


def gate_in_file(path: str | Path) -> str | None:
    """The gate that stands beside the request in its file; None without one.

    Raises:
        InvalidRequest: the file cannot be read, or its gate is no text.
    """
    text = load_fields(path).get("gate")
    if text is not None and not isinstance(text, str):
        raise _no_condition(text)
    return text


def _of_groups(results: Results) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """Each result with its kind and its group, those of groups one by one."""
    for kind, result in results.items():
        if kind == "by_group":
            for key, by_kind in zip(result["keys"], result["results"], strict=True):
                yield from ((one, str(key), of_group) for one, of_group in by_kind.items())
        elif kind == "linear_regression" and result["keys"] is not None:
            yield from ((kind, str(key), result) for key in result["keys"])
        elif kind in DIAGNOSTICS:
            yield kind, None, result


def _groups_of(results: Results) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for kind, group, _ in _of_groups(results):
        groups[kind] = (*groups.get(kind, ()), *(() if group is None else (group,)))
    return groups


def _parsed(name: str, kinds: tuple[str, ...], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, Any, Spec, str]:
    kind, _, rest = name.partition(".")
    if kind not in groups or kind not in DIAGNOSTICS:
        raise _unknown(name, kind, [one for one in groups if one in DIAGNOSTICS])
    specs = {spec.value: spec for spec in DIAGNOSTICS[kind].result.specs().values() if _is_single(kind, spec)}
    group = next((one for one in groups[kind] if rest.startswith(f"{one}.")), None)
    rest = rest if group is None else rest[len(group) + 1 :]
    figure, _, end = rest.partition(".")
    if figure not in specs:
        raise _unknown(name, figure, list(specs))
    allowed = [one for one in ENDS if one.split(".")[0] in _parts(specs[figure])]
    if end and end not in allowed:
        raise _unknown(name, end, allowed)
    return kind, group, specs[figure], end


def _parts(spec: Spec) -> set[str]:
    return {
        *(("lower", "upper") if "interval" in spec.names else ()),
        *(("population",) if "population" in spec.names else ()),
    }


def _is_single(kind: str, spec: Spec) -> bool:
    """Whether a figure is one number, of the rows or of each group."""
    return spec.axis is None and (kind != "linear_regression" or spec.value in ("slope", "intercept"))


def _no_condition(text: object) -> InvalidRequest:
    return InvalidRequest(
        "gate", value=text, requirement="must be a figure, one of >=, >, <=, <, and a number",
        remedy="write it like 'roc_curve.auc.lower >= 0.7'",
    )  # fmt: skip


def _unknown(name: str, part: str, known: list[str]) -> InvalidRequest:
    return InvalidRequest(
        "gate", value=name, requirement=f"must name a figure of the release: {part or 'nothing'} is none of "
        + (", ".join(known) or "what it has"),
        remedy=f"write kind.figure, with .lower or .upper for an end{did_you_mean(part, known)}",
    )  # fmt: skip


def _read(spec: Spec, result: Mapping[str, Any], group: str | None) -> Figure[Any]:
    content = spec.read(result)
    figure = content if isinstance(content, Figure) else Figure(value=content)
    if isinstance(figure.value, list):  # of each group
        keys = [str(key) for key in result["keys"] or ()]
        place = 0 if group is None else keys.index(group)
        figure = figure.at(place)
    ends = figure.interval
    return figure if ends is None or None not in ends else Figure(value=figure.value)


def _status(result: Mapping[str, Any], group: str | None) -> str:
    status = result.get("status", OK)
    if isinstance(status, str):
        return status
    keys = [str(key) for key in result["keys"] or ("",)]
    return str(status[keys.index(group)] if group is not None else status_of(result))


def _headline(kind: str, group: str | None, result: Mapping[str, Any], spec: Spec) -> HeadlineFigure:
    figure = _read(spec, result, group)
    label = _LABELS.get(kind, spec.headline)
    if kind == "quantile":
        label = "median" if result["level"] == 0.5 else f"{100 * result['level']:g}% quantile"
    return HeadlineFigure(
        name=".".join(part for part in (kind, group, spec.value) if part is not None),
        label=label if group is None else f"{label} of {group}",
        status=_status(result, group),
        value=figure.value,
        interval=None if figure.interval is None else (figure.interval[0], figure.interval[1]),
        population=None if figure.population is None else (figure.population[0], figure.population[1]),
        cause="" if figure.value is not None else _cause(result),
    )


def _cause(result: Mapping[str, Any]) -> str:
    """What may be behind an undefined figure: the noisy sizes, if they are part of the release."""
    sizes = {name: result.get(name) for name in ("positives", "negatives", "rows")}
    known = [f"about {size:,.0f} {name}" for name, size in sizes.items() if isinstance(size, int | float)]
    return f"too few rows for this noise: {', '.join(known)}" if known else ""


def _text(value: float) -> str:
    """A number as a line prints it: three decimals up to 10, then four digits."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
