"""The page of a quantile: its data file and its section of the report."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.options import QuantileOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics.quantile import SingleQuantile
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level, one_line, percent
from spark_jobs.publishing.rendering import Column, Headline, Measure, Rendering, Section, known
from spark_jobs.publishing.value_axis import number

_NAME_CHARACTERS = 60


def render(result: SingleQuantile, request: ReleaseRequest) -> Rendering:
    """Data file and section of a released quantile; names, columns and rows do not depend on the values."""
    return Rendering(columns=_columns(result), plots=(), section=_section(result, request))


def _columns(result: SingleQuantile) -> dict[str, Column]:
    low, high = result.figure.ends()
    nominal = f"{100 * result.confidence:.4g} %"
    end = f"end of the {nominal} interval for the quantile of the same rows without noise; null if not paid for"
    return {
        "level": Column(values=np.array([result.level]), meaning="share of the rows that the quantile is not below"),
        "value": Column(values=np.array([result.figure.number]), meaning="the quantile, with noise"),
        "lower": Column(values=np.array([low]), meaning=f"lower {end}"),
        "upper": Column(values=np.array([high]), meaning=f"upper {end}"),
        "rows": Column(values=np.array([known(result.rows)]), meaning="noisy number of rows; null if not paid for"),
    }


def _marks(result: SingleQuantile, request: ReleaseRequest) -> tuple[float, float, float] | None:
    """Where the value and its interval lie between public bounds; None on a logarithmic grid, whose ends are far."""
    linear = all(
        options.scale == "linear" and (options.column is None) == (options.bounds is None)
        for options in request.diagnostics
        if isinstance(options, QuantileOptions)
    )
    value, interval = result.figure.value, result.figure.interval
    if value is None or not linear:
        return None
    bottom, top = result.bounds
    low, high = (value, value) if interval is None else result.figure.ends()
    first, middle, last = ((end - bottom) / (top - bottom) for end in (low, value, high))
    return first, middle, last


def _section(result: SingleQuantile, request: ReleaseRequest) -> Section:
    name = "scores" if result.named is None else one_line(result.named, _NAME_CHARACTERS)
    label = f"Median of {name}" if result.level == 0.5 else f"{percent(result.level)} quantile of {name}"
    defined = result.figure.value is not None
    low, high = result.figure.ends()
    bottom, top = result.bounds
    return Section(
        title=label,
        reading=(
            f"About {percent(result.level)} of the rows have at most this value. It was chosen at random: values that "
            "split the rows nearly as well are nearly as likely.",
        ),
        headline=Headline(
            label=label,
            value=number(result.figure.number, 4) if defined else "undefined",
            interval=f"{level(result.confidence)} interval {number(low, 4)} to {number(high, 4)}"
            if result.figure.interval is not None
            else None,
            scale=(number(bottom, 4), number(top, 4)),
            marks=_marks(result, request),
        ),
        measures=(
            Measure(
                label="Rows",
                value=ABSENT if result.rows is None else f"≈{SPACE}{count(result.rows)}",
                note="not paid for"
                if result.rows is None
                else "with a score"
                if result.named is None
                else f"with a value of {name}",
            ),
        ),
        notes=(
            "Values are rounded down to a fixed grid; values beyond the bounds count at the nearer bound. The interval "
            "accounts for the noise that protects these rows, not for the sampling of the rows. An end at a bound "
            "means that the noise hides the rows on that side.",
        ),
        notice=None
        if defined
        else "Undefined: there are too few rows for this noise. The release has been made and charged like any other.",
    )
