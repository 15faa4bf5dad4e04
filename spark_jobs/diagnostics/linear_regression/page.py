"""The page of a linear regression: its data file, its plots and its section of the report."""

from __future__ import annotations

from collections import Counter

import numpy as np

from spark_jobs.arrays import BoolArray
from spark_jobs.contract.figure import Figure
from spark_jobs.contract.figures import OK
from spark_jobs.contract.options import LinearRegressionOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.lines import LinearFit
from spark_jobs.diagnostics.linear_regression.method_choice import MIN_GROUPS
from spark_jobs.diagnostics.linear_regression.plots import (
    MAX_LINES,
    MAX_ROWS,
    all_lines_plot,
    groups_plot,
    hidden_groups,
    places_of,
)
from spark_jobs.publishing.formats import ABSENT, SPACE, count, level
from spark_jobs.publishing.rendering import (
    Column,
    Headline,
    Measure,
    Plot,
    Rendering,
    Section,
    ValueTable,
    figure_columns,
    finite,
)
from spark_jobs.publishing.value_axis import number

TITLE = "Linear regression"
_LISTED = 24
"""Largest number of groups in the report's table: the first of the list. The data file has all of them."""
_NAMES = {
    "noisy_stats": "noisy sums",
    "noisy_stats_zcdp": "noisy sums (Gaussian)",
    "noisy_moments": "noisy moments",
    "noisy_moments_zcdp": "noisy moments (Gaussian)",
    "noisy_intercept": "noisy mean",
    "dp_exp_theil_sen": "Theil-Sen, exponential mechanism",
    "dp_wide_theil_sen": "Theil-Sen, widened exponential mechanism",
    "dp_ss_theil_sen": "Theil-Sen, smooth sensitivity",
    "dp_grad_descent": "gradient descent",
    "dp_grad_descent_zcdp": "gradient descent (Gaussian)",
}


def render(result: LinearFit, request: ReleaseRequest) -> Rendering:
    """The data file, plots and section of released lines, with one row per group of the request, empty or not."""
    x_name, y_name = _axes_of(request)
    plots: tuple[Plot, ...] = (all_lines_plot(result, x_name, y_name),)
    if result.keys is not None:
        plots += (groups_plot(result, x_name, y_name),)
    return Rendering(columns=_columns(result), plots=plots, section=_section(result, x_name, y_name))


def _axes_of(request: ReleaseRequest) -> tuple[str, str]:
    for options in request.diagnostics:
        if isinstance(options, LinearRegressionOptions):
            return options.x, options.y
    return "x", "y"


def _columns(result: LinearFit) -> dict[str, Column]:
    """One row per group, so that the file can be joined to a map by the groups' keys."""
    nominal = f"{100 * result.confidence:.4g} % confidence interval, for the same method without noise"
    unknown = f"end of its {nominal}; NaN where unknown"
    keys = [""] if result.keys is None else [str(key) for key in result.keys]
    columns = {
        "group": Column(values=np.array(keys, dtype=object), meaning="public key of the group; empty for all rows"),
        "status": Column(values=np.array(result.status, dtype=object), meaning="ok, or undefined: without a slope"),
        "method": Column(values=np.array(result.methods, dtype=object), meaning="the method that released the line"),
        "rows": Column(
            values=result.rows,
            meaning="public number of rows of the group"
            if result.public_sizes
            else "noisy number of rows of the group, at least 0: its sum over many groups is too large",
        ),
    }
    for name, meaning in (
        ("slope", "slope of the line, in units of y per unit of x"),
        ("intercept", "value of the line at x = 0"),
    ):
        columns |= figure_columns(result, name, meaning, {"interval": unknown})
    for k, at in enumerate(result.at):
        name, figure = f"prediction_{at:g}", result.predictions.at((slice(None), k))
        where = f"the line at {at:g} of the range of x, x = {result.x[k]:.6g}"
        columns[name] = Column(values=figure.value, meaning=where)
        for end, values in zip(("lower", "upper"), figure.ends(), strict=True):
            columns[f"{name}_{end}"] = Column(values=values, meaning=f"{end} {unknown}")
    return columns


def _interval(low: float, high: float) -> str:
    return f"{number(low, 4)} to {number(high, 4)}" if finite(low) and finite(high) else ABSENT


def _section(result: LinearFit, x_name: str, y_name: str) -> Section:
    failed = sum(status != "ok" for status in result.status)
    used = Counter(result.methods)
    grouped = result.keys is not None
    sizes = "public" if result.public_sizes else "released with noise"
    measures = [
        Measure(label="Groups", value=f"{result.groups:,}", note="in the request's list"),
        Measure(label="Undefined lines", value=f"{failed:,}", note="without a slope"),
        *(
            (Measure(label="Hidden by noise", value=f"{int(hidden_groups(result).sum()):,}", note="drawn in grey"),)
            if grouped
            else ()
        ),
        Measure(
            label="Rows",
            value=(f"≈{SPACE}" if not result.public_sizes else "") + count(result.total_rows),
            note=f"{sizes}{', all groups' if grouped else ''}",
        ),
        Measure(
            label="Method",
            value=_NAMES.get(used.most_common(1)[0][0], result.method),
            note=_others(used, result.method),
        ),
    ]
    return Section(
        title=TITLE,
        reading=(
            f"A line through the points of {'each group' if grouped else 'the table'}: how {y_name} varies with "
            f"{x_name}."
            + (
                " The second plot compares the groups at both ends of the lines."
                if grouped
                else " Dots show where the line is evaluated."
            ),
            f"Whiskers are {level(result.confidence)} confidence intervals of the line that the same method would give "
            "without noise. They do not account for the sampling of the rows.",
        ),
        headline=_headline(result) if not grouped else None,
        measures=tuple(measures if grouped else measures[1:]),
        table=_groups_table(result) if grouped else _line_table(result),
        legend=(
            ("curve", "released line"),
            ("chance", "the noise hides the line" if grouped else "line without a slope of its own"),
            *(() if grouped else (("point", "where it is evaluated, with interval"),)),
        ),
        notes=_notes(result),
        notice=None
        if failed < result.groups
        else "Undefined: there are too few rows for this noise to show a slope. The release has been made and charged "
        "like any other.",
    )


def _others(used: Counter[str], requested: str) -> str:
    if len(used) == 1:
        return "chosen from public facts" if requested == "auto" else "as requested"
    return "; ".join(f"{_NAMES.get(name, name)}: {groups:,}" for name, groups in used.most_common())


def _headline(result: LinearFit) -> Headline:
    """The slope, on a scale that ends where a line crosses the public box from corner to corner."""
    (left, right), (low, high) = result.x_bounds, result.y_bounds
    steepest = (high - low) / (right - left)
    slope = float(result.slope.value[0])
    interval = float(result.slope.lower[0]), float(result.slope.upper[0])
    bounded = all(finite(end) for end in interval)
    marks = None
    if finite(slope):
        ends = (interval[0], slope, interval[1]) if bounded else (slope,) * 3
        first, middle, last = (float(np.clip(0.5 + end / steepest / 2, 0.0, 1.0)) for end in ends)
        marks = (first, middle, last)
    return Headline(
        label="Slope",
        value=number(slope, 4) if finite(slope) else "undefined",
        interval=f"{level(result.confidence)} interval {_interval(*interval)}" if bounded else None,
        scale=(number(-steepest, 4), number(steepest, 4)),
        marks=marks,
        reference=("0", 0.5),
    )


def _line_table(result: LinearFit) -> ValueTable:
    rows = []
    for name in ("slope", "intercept"):
        figure: Figure[float] = getattr(result, name).at(0)
        rows.append((name.capitalize(), number(figure.number, 4), _interval(*figure.ends())))
    rows += [
        (
            f"At {number(float(result.x[k]), 4)}",
            number(float(result.predictions.value[0, k]), 4),
            _interval(*result.predictions.at((0, k)).ends()),
        )
        for k in range(result.at.size)
    ]
    return ValueTable(
        caption="The released line.", header=("", "Released", f"{level(result.confidence)} interval"), rows=tuple(rows)
    )


def _groups_table(result: LinearFit) -> ValueTable:
    places = places_of(result)
    rows = []
    for g in range(min(result.groups, _LISTED)):
        predicted = [number(float(result.predictions.value[g, k]), 4) for k in places]
        rows.append(
            (
                str((result.keys or ("",))[g]),
                *predicted,
                number(float(result.slope.value[g]), 4),
                _interval(*result.slope.at(g).ends()),
                ("" if result.public_sizes else f"≈{SPACE}") + count(float(result.rows[g])),
                result.status[g],
            )
        )
    shown = (
        "All groups." if result.groups <= _LISTED else f"The first {_LISTED} of the {result.groups:,} listed groups."
    )
    return ValueTable(
        caption=f"{shown} The data file has one row per group.",
        header=(
            "Group",
            *(f"At {number(float(result.x[k]), 4)}" for k in places),
            "Slope",
            f"{level(result.confidence)} interval",
            "Rows",
            "Status",
        ),
        rows=tuple(rows),
    )


def _notes(result: LinearFit) -> tuple[str, ...]:
    (left, right), (low, high) = result.x_bounds, result.y_bounds
    notes = [
        f"Values are clipped to the public ranges {number(left, 4)} to {number(right, 4)} and {number(low, 4)} to "
        f"{number(high, 4)} and rounded to a fixed grid before they are counted.",
    ]
    if result.keys is not None:
        notes.append(
            "The groups are those of the request: an empty group has a line like any other, which is all noise. Each "
            "row is in one group only, so every group is released at the full epsilon."
        )
        if result.groups > MAX_ROWS:
            drawn = f"; {MAX_LINES} evenly spaced groups are drawn in one plot" if result.groups > MAX_LINES else ""
            notes.append(f"The first {MAX_ROWS} groups of the list are compared{drawn}.")
    if result.groups > 1 and any(method.startswith("noisy_moments") for method in result.methods):
        notes.append(
            "Lines of noisy moments are shrunk towards a common line of all groups, more where the noise is larger: "
            "groups then appear more alike than they are. "
            + (
                "Intervals hold at their level on average over groups; a group unlike all others may be missed."
                if result.groups >= MIN_GROUPS
                else "Intervals are those of each group alone."
            )
        )
    if _without_intervals(result):
        notes.append(
            "Where no interval is given, the method's noise depends on the rows, so an interval would cost budget."
        )
    return tuple(notes)


def _without_intervals(result: LinearFit) -> bool:
    """Whether any defined line has no interval."""
    given: BoolArray = np.array(result.status) == OK
    return bool(np.isnan(result.slope.lower[given]).any())
