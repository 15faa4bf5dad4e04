"""The page of points of a distribution function: its data file and its part of the report."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.figures import OK
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.values import CdfPoints
from spark_jobs.publishing.formats import ABSENT, SPACE, count, decimals, level, one_line, percent
from spark_jobs.publishing.rendering import Column, Measure, Rendering, Section, ValueTable
from spark_jobs.publishing.value_axis import number

_NAME_CHARACTERS = 60


def render(result: CdfPoints, request: ReleaseRequest) -> Rendering:
    """Data file and section of released points; names, columns and rows do not depend on the values."""
    return Rendering(columns=_columns(result), plots=(), section=_section(result))


def _columns(result: CdfPoints) -> dict[str, Column]:
    nominal = f"{100 * result.confidence:.4g} %"
    end = f"end of the {nominal} interval, for the same rows without noise: of the share at a threshold, of the value"
    searched = result.quantiles
    return {
        "searched": Column(
            values=np.repeat([False, True], [result.thresholds.size, len(searched)]),
            meaning="whether the value is a quantile that was searched for; otherwise it is a threshold that was given",
        ),
        "value": Column(
            values=np.append(result.thresholds, [quantile.figure.number for quantile in searched]),
            meaning="a threshold, or a quantile",
        ),
        "share": Column(
            values=np.append(result.cdf.value, [quantile.level for quantile in searched]),
            meaning="share of the rows up to the threshold, or level of the quantile",
        ),
        "lower": Column(
            values=np.append(result.cdf.lower, [quantile.figure.lower for quantile in searched]),
            meaning=f"lower {end} of a quantile",
        ),
        "upper": Column(
            values=np.append(result.cdf.upper, [quantile.figure.upper for quantile in searched]),
            meaning=f"upper {end} of a quantile",
        ),
    }


def _section(result: CdfPoints) -> Section:
    name = "scores" if result.named is None else one_line(result.named, _NAME_CHARACTERS)
    defined = result.status == OK
    return Section(
        title=f"Points of the distribution of {name}",
        reading=(
            "The first rows of the table show which share of the rows lies up to a value that was given; the others, "
            "up to which value a given share of the rows lies.",
        ),
        measures=(
            Measure(label="Rows", value=f"≈{SPACE}{count(result.rows)}", note=f"with a value of {name}"),
            Measure(
                label="Evaluations left",
                value=f"{result.left:,}",
                note=f"of {result.evaluations:,} that are paid for",
            ),
        ),
        table=ValueTable(
            caption=f"Shares and quantiles of {name}, each with its interval.",
            header=("Value", "Share of the rows", f"{level(result.confidence)} interval"),
            rows=(*_thresholds(result, defined=defined), *_quantiles(result, defined=defined)),
        ),
        notes=(
            "Values are counted in the cells of a fixed grid, where a threshold stands for all of its cell: the table "
            "shows the end of the cell. Values beyond the bounds count at the nearer bound. Intervals "
            "account for the noise that protects these rows, not for the sampling of the rows. An end at a bound means "
            "that the noise hides the rows on that side.",
            "The number of evaluations was fixed and paid for beforehand; each has the same noise, wherever it was "
            "asked for.",
        ),
        notice=None
        if defined
        else "Undefined: there are too few rows for this noise. The release has been made and charged like any other.",
    )


def _thresholds(result: CdfPoints, *, defined: bool) -> list[tuple[str, ...]]:
    points = zip(result.thresholds, result.cdf.value, *result.cdf.ends(), strict=True)
    return [
        (
            f"below {number(at, 6)}",
            decimals(share) if defined else ABSENT,
            f"{decimals(low)} to {decimals(high)}" if defined else ABSENT,
        )
        for at, share, low, high in points
    ]


def _quantiles(result: CdfPoints, *, defined: bool) -> list[tuple[str, ...]]:
    return [
        (
            f"up to {number(quantile.figure.number, 6)}" if defined else ABSENT,
            percent(quantile.level),
            " to ".join(number(end, 6) for end in quantile.figure.ends()) if defined else ABSENT,
        )
        for quantile in result.quantiles
    ]
