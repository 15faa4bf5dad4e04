"""The page of a result by group: its data files, its plots and its section of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spark_jobs.contract.figure import Number
from spark_jobs.contract.figures import UNDEFINED
from spark_jobs.contract.options import ByGroupOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.groups import ByGroup, GroupComparison
from spark_jobs.diagnostics.by_group.plots import (
    MAX_DRAWN,
    MAX_FIGURES,
    TITLE,
    differences_plot,
    figure_plot,
    is_unequal,
    name_of,
)
from spark_jobs.diagnostics.diagnostic import diagnostic
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, p_text
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Multiples,
    Rendering,
    Section,
    ValueTable,
    known,
)

_LISTED = 8
"""Largest number of groups in the report's table."""


def render(result: ByGroup, request: ReleaseRequest) -> Rendering:
    """The data files, plots and section of released results; each kind of a group is rendered by its own page."""
    by_kind = {
        kind: [diagnostic(kind).render(results[kind], request) for results in result.results]
        for kind in result.results[0]
    }
    return Rendering(
        columns=_columns(result),
        plots=(differences_plot(result),),
        section=_section(result, _column_of(request)),
        multiples=(_figures(result), *(_multiples(result, kind, pages) for kind, pages in by_kind.items())),
        tables={
            "by_group_differences": _differences(result),
            **{f"by_group_{kind}": _stacked(result, pages) for kind, pages in by_kind.items()},
        },
    )


def _column_of(request: ReleaseRequest) -> str:
    return next((options.group_by for options in request.diagnostics if isinstance(options, ByGroupOptions)), "group")


def _texts(values: list[str]) -> Column:
    return Column(values=np.array(values, dtype=object), meaning="the group; other for the rows of no listed group")


def _columns(result: ByGroup) -> dict[str, Column]:
    """One row for each figure and group."""
    compared, groups = result.comparisons, len(result.keys)
    nominal = f"{100 * result.confidence:.4g} % interval for the population of the group: noise and sampling"

    def flat(name: str) -> np.ndarray:
        return np.array([known(value) for one in compared for value in one.published()[name]], dtype=np.float64)

    return {
        "figure": Column(
            values=np.repeat(np.array([one.figure for one in compared], dtype=object), groups),
            meaning="the figure by which groups are compared",
        ),
        "threshold": Column(
            values=np.repeat([known(one.threshold) for one in compared], groups),
            meaning="rows with at least this score are predicted positive; null for figures without a threshold",
        ),
        "group": _texts([key for _ in compared for key in result.keys]),
        "value": Column(values=flat("values"), meaning="the figure of the group, with noise; null if undefined"),
        "lower": Column(values=flat("lower"), meaning=f"lower end of the {nominal}"),
        "upper": Column(values=flat("upper"), meaning=f"upper end of the {nominal}"),
    }


def _differences(result: ByGroup) -> dict[str, Column]:
    """One row for each figure."""
    compared = result.comparisons
    nominal = f"{100 * result.confidence:.4g} % interval"
    ends = np.array([(*one.difference.ends(), *one.overall.ends()) for one in compared])
    numbers = {
        "threshold": "rows with at least this score are predicted positive; null for figures without a threshold",
        "overall": "the figure of all rows, with noise; null for the AUC, or if undefined",
        "difference": "what the highest group has more than the lowest, of the two that differ most in standard errors",
        "p_value": "how often equal groups differ as much",
        "adjusted_p_value": "the same, adjusted for the number of figures",
    }
    columns = {"figure": Column(values=np.array([one.figure for one in compared], dtype=object), meaning="the figure")}
    for name, meaning in numbers.items():
        columns[name] = Column(values=np.array([known(one.published()[name]) for one in compared]), meaning=meaning)
    meanings = {
        "difference_lower": f"lower end of the difference's {nominal} for all pairs of groups",
        "difference_upper": f"upper end of the difference's {nominal} for all pairs of groups",
        "overall_lower": f"lower end of the {nominal} for the population of all rows: noise and sampling",
        "overall_upper": f"upper end of the {nominal} for the population of all rows: noise and sampling",
    }
    for place, (name, meaning) in enumerate(meanings.items()):
        columns[name] = Column(values=ends.reshape(-1, 4)[:, place], meaning=meaning)
    for name in ("highest", "lowest"):
        columns[name] = _texts([getattr(one, name) or "" for one in compared])
    return columns


def _stacked(result: ByGroup, pages: list[Rendering]) -> Mapping[str, Column]:
    """The columns of a kind, group below group."""
    rows = [next(iter(page.columns.values())).values.size for page in pages]
    groups = [key for key, times in zip(result.keys, rows, strict=True) for _ in range(times)]
    return {
        "group": _texts(groups),
        **{
            name: replace(column, values=np.concatenate([page.columns[name].values for page in pages]))
            for name, column in pages[0].columns.items()
        },
    }


def _figures(result: ByGroup) -> Multiples:
    shown = range(min(len(result.comparisons), MAX_FIGURES))
    plots = tuple((name_of(result.comparisons[place]), "", figure_plot(result, place)) for place in shown)
    return Multiples(
        heading="Each figure by group",
        note=f"Whiskers are {level(result.confidence)} intervals for the population of each group: they account for "
        "noise and for the sampling of the rows. Grey: rows of no listed group, which take no part in the tests. "
        "Dashed: all rows." + _cut(result),
        plots=plots,
        wide=True,
    )


def _cut(result: ByGroup) -> str:
    cut = [f"the first {MAX_DRAWN} groups"] if len(result.keys) > MAX_DRAWN else []
    cut += [f"the first {MAX_FIGURES} figures"] if len(result.comparisons) > MAX_FIGURES else []
    return f" Only {' and '.join(cut)} are drawn." if cut else ""


def _multiples(result: ByGroup, kind: str, pages: list[Rendering]) -> Multiples:
    """The first plot of a kind, for each group."""
    plots = tuple(
        (key, status if status == UNDEFINED else "", replace(page.plots[0], name=f"by_group_{kind}_{place}", probes=()))
        for place, (key, status, page) in enumerate(zip(result.keys, result.status, pages, strict=True))
    )
    legend = pages[0].plots[0].legend or pages[0].section.legend
    return Multiples(
        heading=pages[0].section.title,
        note=_cut(result).strip(),
        plots=plots[:MAX_DRAWN],
        wide=True,
        legend=legend,
    )


def _section(result: ByGroup, column: str) -> Section:
    undefined = sum(status == UNDEFINED for status in result.status[:-1])
    tested = [one for one in result.comparisons if one.difference.value is not None]
    unequal = [one for one in tested if is_unequal(one)]
    groups = len(result.keys) - 1
    return Section(
        title=TITLE,
        reading=(
            f"What scores say of the rows of each {column}. The plot has, for every figure, the two groups that differ "
            "most in standard errors, and by how much.",
            f"Whiskers are {level(result.confidence)} intervals for the populations that the rows are samples of, for "
            "all pairs of groups together. Grey: no more than noise and sampling explain.",
        ),
        headline=_headline(result, tested),
        measures=(
            Measure(label="Groups", value=f"{groups:,}", note="in the request's list, and one of all other rows"),
            Measure(label="Undefined groups", value=f"{undefined:,}", note="a class has too few rows for the noise"),
            Measure(
                label="Unequal figures",
                value=f"{len(unequal)} of {len(tested)}",
                note="p below 0.05, adjusted for the number of figures",
            ),
        ),
        table=_table(result),
        legend=(("point", "groups differ"), ("speck", "no more than noise and sampling explain")),
        notes=(
            "Each row is in one group only, so that every group is released at the full epsilon and all of them "
            "together cost as much as one.",
            "A difference between groups is a fact about these scores and labels; it does not say why they differ.",
        ),
        notice=None if tested else "Undefined: fewer than two groups have enough rows of both classes for the noise.",
    )


def _headline(result: ByGroup, tested: list[GroupComparison]) -> Headline | None:
    """The figure in which groups differ most surely."""
    if not tested:
        return None
    surest = min(tested, key=lambda one: (known(one.p_value), -one.difference.number))
    low, high = surest.difference.ends()
    first, middle, last = (float(np.clip(end, 0.0, 1.0)) for end in (low, surest.difference.number, high))
    return Headline(
        label=f"{name_of(surest)}: {surest.highest} above {surest.lowest} by",
        value=decimals(surest.difference.value),
        interval=f"{level(result.confidence)} interval {decimals(low)} to {decimals(high)}, {_p(result, surest)}",
        scale=("0 equal", "1"),
        marks=(first, middle, last),
    )


def _p(result: ByGroup, comparison: GroupComparison) -> str:
    return p_text(known(comparison.p_value), floor=result.p_value_floor)


def _table(result: ByGroup) -> ValueTable:
    """A row for each figure; the data file has all of them, with intervals."""
    shown = result.comparisons[:MAX_FIGURES]
    keys = result.keys if len(result.keys) <= _LISTED + 1 else (*result.keys[:_LISTED], result.keys[-1])
    places = [result.keys.index(key) for key in keys]
    rows = [
        (f"{name} rows", "", *(f"≈{SPACE}{count(sizes[place])}" for place in places),
         "", "", "")
        for name, sizes in (("Positive", result.positives), ("Negative", result.negatives))
    ]  # fmt: skip
    for one in shown:
        cells = (_cell(one.values.at(place)) for place in places)
        pair = f"{one.highest} above {one.lowest}" if one.highest is not None else ABSENT
        rows.append((name_of(one), _cell(one.overall), *cells, pair,
                     _cell(one.difference),
                     ABSENT if one.p_value is None else _p(result, one)))  # fmt: skip
    return ValueTable(
        caption=f"Figures with {level(result.confidence)} intervals for the populations; p-values are not adjusted.",
        header=("", "All rows", *keys, "Pair", "Difference", "p"),
        rows=tuple(rows),
    )


def _cell(figure: Number) -> str:
    if figure.value is None:
        return ABSENT
    low, high = figure.ends()
    return f"{decimals(figure.value)} ({decimals(low)} to {decimals(high)})"
