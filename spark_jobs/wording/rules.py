"""The per-record rules of a release in plain sentences; public, and independent of the table's contents."""

from __future__ import annotations

import json
from collections.abc import Mapping

from spark_jobs.contract.grids import EARLIEST_ROUNDING, LINEAR_SCORE_CELLS, PAIR_CELLS, ROUNDING, SCORE_CELLS
from spark_jobs.contract.options import (
    CrossProductCells,
    GroupedScoreCells,
    LabelledRowCells,
    PairedScoreCells,
    PointCells,
    PointSums,
    ResidualCells,
    ScoreCells,
    Statistic,
    ValueCells,
)
from spark_jobs.contract.options.aggregates import DiscoverableCells
from spark_jobs.contract.options.rows_per_unit import UnitRowCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import ColumnsModel, Label, LinearModel, LogisticModel, Model, SparkMLModel

_ON_GRID = (
    f"A score is rounded down to a fixed grid of {SCORE_CELLS:,} cells before anything is counted: a 65,536th wide, "
    "and finer towards 0 and 1. Thresholds are rounded alike, so that rows at a threshold count."
)
_ON_LINEAR_GRID = f"A score is rounded down to a fixed grid of {LINEAR_SCORE_CELLS:,} cells before anything is counted."
_OF_A_PAIR = (
    "For the comparison, both scores are rounded down to a fixed grid of {0}; a row that lacks one of the scores "
)
_OF_A_PAIR += "is left out."
GRID_RULES: Mapping[str, Mapping[type[Statistic], str]] = {
    ROUNDING: {
        ScoreCells: _ON_GRID,
        GroupedScoreCells: _ON_GRID,
        PairedScoreCells: _OF_A_PAIR.format(
            f"{PAIR_CELLS:,} cells, each at most a 64th as wide as its distance to the nearer end"
        ),
    },
    EARLIEST_ROUNDING: {
        ScoreCells: _ON_LINEAR_GRID,
        GroupedScoreCells: _ON_LINEAR_GRID,
        PairedScoreCells: _OF_A_PAIR.format("1,408 cells, a 1,024th wide and finer towards 0 and 1"),
    },
}
"""What is said of the grid of a statistic, by the rounding of the draw."""


def rules(request: ReleaseRequest) -> tuple[str, ...]:
    """The treatment of invalid rows and values under ``request``, in order of application."""
    lines = [*_reading(request), *_unread(request)]
    if request.uses_model:
        lines += _inputs(request.needed_model)
    for statistic in request.statistics:
        match statistic:
            case ScoreCells():
                lines += _scores(request, request.needed_label, request.needed_model)
            case GroupedScoreCells():
                lines += _scores(request, request.needed_label, request.needed_model)
                lines.append(
                    f"A row counts in the group that its {statistic.group_by} names; a row whose {statistic.group_by} "
                    f"is null or not among the {len(statistic.groups)} groups of the request counts in the group other."
                )
            case PairedScoreCells(model=model):
                lines += _scores(request, request.needed_label, request.needed_model)
                of_scores = _scores(request, request.needed_label, model)[1:]
                lines += [f"Of the second model: {rule[0].lower()}{rule[1:]}" for rule in (*_inputs(model), *of_scores)]
                if ScoreCells() in request.statistics:
                    lines.append(
                        "A row that only the second model's rules leave out counts in the other diagnostics, and in "
                        "the first curve if it is theirs."
                    )
            case ValueCells():
                lines += _values(statistic, scored=request.uses_label)
            case ResidualCells():
                lines += _residuals(statistic)
            case PointCells() | PointSums():
                lines += _points(statistic, request)
            case CrossProductCells() | LabelledRowCells():
                lines += _products(statistic, request)
    return tuple(dict.fromkeys((*lines, *_units(request))))


def _reading(request: ReleaseRequest) -> list[str]:
    lines = []
    if request.table.form == "csv":
        lines.append(
            "Each line of a csv file is a row: a record whose quoted field holds line breaks counts as several rows. "
            "A value that is not of its column's type counts as null."
        )
    if request.table.form == "json":
        lines.append(
            "Each line of a JSON file is a row. A line that is not a JSON object counts as a row of nulls, and a value "
            "that is missing or not of its column's type counts as null."
        )
    if request.table.file_form is not None:
        lines.append(f"The values of the files are written with {request.table.file_form.describe()}.")
    if request.table.form == "jdbc":
        lines.append(
            "All rows come from one snapshot of the database, exported when the run began; a run that is repeated "
            "because the first drew no noise takes another. A value that is not of its column's type counts as null."
        )
    if request.block_filter is not None:
        lines.append(
            f"Only rows in the charged blocks {request.written_blocks} of {request.block_expression}, in UTC, are "
            "read; a row without a value there is in no block."
        )
    if request.where is not None:
        lines.append(f"Only rows for which this condition is true are used: {request.where}.")
    return lines


def _unread(request: ReleaseRequest) -> list[str]:
    given = {"label": (request.label, request.uses_label), "model": (request.model, request.uses_model)}
    unread = [name for name, (value, used) in given.items() if value is not None and not used]
    if not unread:
        return []
    return [f"No requested diagnostic needs a {' or a '.join(unread)}, so that part of the request is ignored."]


def _inputs(model: Model) -> list[str]:
    lines = []
    match model:
        case LinearModel() | LogisticModel():
            if model.coefficients:
                lines.append("A feature that overflows, divides by zero or does not convert to a number is null.")
            if model.bounds:
                bounds = ", ".join(f"{name} from {low:.6g} to {high:.6g}" for name, (low, high) in model.bounds.items())
                lines.append(f"In the model, a value beyond its bounds counts as the nearer bound: {bounds}.")
            if model.categorical:
                names = ", ".join(model.categorical)
                lines.append(f"A level of {names} that the model does not list, or null, adds nothing to the score.")
        case SparkMLModel():
            lines.append("The pipeline's stages receive null numbers as NaN, and a row that they skip is left out.")
    if model.recalibrated is not None:
        clip = model.recalibrated.clip
        lines.append(
            f"The model's score is clipped to between {clip:g} and {1 - clip:g}, and then recalibrated: "
            f"{model.recalibrated.intercept:.6g} + {model.recalibrated.slope:.6g} times its log-odds are the log-odds "
            "that count."
        )
    return lines


def _scores(request: ReleaseRequest, label: Label, model: Model) -> list[str]:
    lines = [_label(label)]
    match model:
        case ColumnsModel(score=score):
            lines.append(f"A row whose {score} is null or NaN is left out.")
            if model.scale is not None:
                lines.append(
                    f"Scores are {score} on a scale {model.scale.describe()}, mapped to 0 to 1 in the same order."
                )
        case LinearModel() | LogisticModel():
            lines += ["A row with a feature that is null or NaN is left out."] if model.coefficients else []
        case SparkMLModel():
            lines.append("A row whose score is null or NaN is left out.")
    if not isinstance(model, LogisticModel):
        drop = request.scoring.outside == "drop"
        lines.append(
            "A row whose score is below 0 or above 1 is left out."
            if drop
            else "A score below 0 counts as 0 and a score above 1 as 1."
        )
    return lines


def _values(statistic: ValueCells, *, scored: bool) -> list[str]:
    name = statistic.column
    whatever = ", whatever their label and score" if scored else ""
    return [
        f"For the distribution of {name}, a row whose {name} is null or NaN is left out, and all other rows count"
        f"{whatever}; a value below {statistic.lower:.6g} counts as {statistic.lower:.6g}, a value above "
        f"{statistic.upper:.6g} as {statistic.upper:.6g}, and values are rounded down to a fixed grid."
    ]


def _residuals(statistic: ResidualCells) -> list[str]:
    outcome, unit = statistic.outcome, statistic.unit
    return [
        f"A residual is {outcome} minus the model's unclipped output. A row is left out of the residuals if {outcome} "
        "or the output is null or NaN; the output is null or NaN where a feature is.",
        f"Fitted values and residuals are rounded to fixed cells, {unit / 128:.6g} wide up to a size of "
        f"{unit / 2:.6g} and a 64th of each doubling beyond; larger sizes than {unit * 2.0**60:.6g} count as this.",
    ]


def _points(statistic: PointCells | PointSums, request: ReleaseRequest) -> list[str]:
    x, y, (x_low, x_high), (y_low, y_high) = statistic.x, statistic.y, statistic.x_bounds, statistic.y_bounds
    lines = []
    if statistic.group_by is not None:
        lines.append(
            f"A row counts in the group that its {statistic.group_by} names; a row whose {statistic.group_by} is null "
            f"or not among the {len(statistic.groups or ()):,} groups of the request is left out of the lines."
        )
    lines += [
        f"A row whose {x} or {y} is null or NaN {_pointless(statistic, request)}.",
        f"A value of {x} below {x_low:.6g} or above {x_high:.6g}, and one of {y} below {y_low:.6g} or "
        f"above {y_high:.6g}, counts as the nearer bound. Both are rounded to the middles of {statistic.cells:,} equal "
        "cells.",
    ]
    return lines


def _pointless(statistic: PointCells | PointSums, request: ReleaseRequest) -> str:
    """The treatment of a row without a point: it is kept if sizes are public, as it may replace a row with a point."""
    if request.sizes_are_public(statistic):
        return "stays a row of its line: in sums it counts at the middle of the bounds, in pairs of rows it is skipped"
    return "is left out of the lines"


def _products(statistic: CrossProductCells | LabelledRowCells, request: ReleaseRequest) -> list[str]:
    numbers = [*statistic.features]
    lines = []
    if isinstance(statistic, CrossProductCells):
        numbers.append(statistic.outcome)
    else:
        lines.append(_label(request.needed_label))
    bounds = ", ".join(f"{number.name} from {number.lower:.6g} to {number.upper:.6g}" for number in numbers)
    if numbers:
        lines.append(
            f"For the fit, a value beyond its bounds counts as the nearer bound: {bounds}. Values are rounded to 8,192 "
            "equal steps between them; a row with a value that is null or NaN is left out."
        )
    for column in statistic.categorical:
        lines.append(
            f"For the fit, a {column.column} that is null or not among the listed levels is {column.levels[0]}."
        )
    return lines


def _label(label: Label) -> str:
    positive, negative = json.dumps(label.positive, ensure_ascii=False), json.dumps(label.negative, ensure_ascii=False)
    if label.rest:
        return (
            f"A row counts as positive if {label.column} is {positive} and as negative if it is anything else; "
            "a row without a value there is left out."
        )
    return (
        f"A row counts as positive if {label.column} is {positive} and as negative if it is {negative}; "
        "a row with any other value there, or none, is left out."
    )


def _units(request: ReleaseRequest) -> list[str]:
    unit = request.unit
    if unit.column is None:
        return []
    rows = "1 row is" if request.rows_of_unit == 1 else f"{request.rows_of_unit} rows are"
    order = (
        "a secret order" if request.row_id is None else f"a secret order, in which {request.row_id} distinguishes them"
    )
    if any(isinstance(statistic, UnitRowCells) for statistic in request.statistics):
        return [
            f"All rows that share a value of {unit.column} count as one number of rows; a row without {unit.column} is "
            "left out."
        ]
    if request.of_unit_totals:
        return [
            f"The values of rows that share a value of {unit.column} are added up in each cell of the table, and their "
            f"totals clipped to the bounds; those of at most {request.rows_of_unit} cells are used, chosen by a secret "
            f"order; a row without {unit.column} is left out."
        ]
    return [
        f"Of the rows that share a value of {unit.column}, at most {rows} used{_in_few_groups(request)}, chosen by "
        f"{order}; a row without {unit.column} is left out."
    ]


def _in_few_groups(request: ReleaseRequest) -> str:
    bound = request.group_bound
    if bound is None:
        return ""
    if isinstance(request.statistics[0], DiscoverableCells):
        return f", of at most {bound.groups} keys of {request.statistics[0].dimension.column}, with one row in each"
    return f", of at most {bound.groups} cells of the table and at most {bound.rows} in one of them"
