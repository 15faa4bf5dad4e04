"""The per-record rules of a release in plain sentences: public, and the same whatever the table holds."""

from __future__ import annotations

import json

from spark_jobs.contract.options import (
    CrossProductCells,
    LabelProductCells,
    OtherScoreCells,
    PointCells,
    PointSums,
    ResidualCells,
    ScoreCells,
    ValueCells,
)
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import ColumnsModel, Label, LinearModel, LogisticModel, Model, SparkMLModel


def rules(request: ReleaseRequest) -> tuple[str, ...]:
    """What ``request`` does with rows and values that do not fit, in the order it is done."""
    lines = [*_reading(request), *_unread(request)]
    if request.uses_model:
        lines += _inputs(request.needed_model)
    for statistic in request.statistics:
        match statistic:
            case ScoreCells():
                lines += _scores(request, request.needed_label, request.needed_model)
            case OtherScoreCells(model=model):
                of_scores = _scores(request, request.needed_label, model)[1:]
                lines += [f"Of the second model: {rule[0].lower()}{rule[1:]}" for rule in (*_inputs(model), *of_scores)]
            case ValueCells():
                lines += _values(statistic, scored=request.uses_label)
            case ResidualCells():
                lines += _residuals(statistic)
            case PointCells() | PointSums():
                lines += _points(statistic, request)
            case CrossProductCells() | LabelProductCells():
                lines += _products(statistic, request)
    return tuple(dict.fromkeys((*lines, *_units(request))))


def _reading(request: ReleaseRequest) -> list[str]:
    lines = []
    if request.table.form == "csv":
        lines.append(
            "Each line of a csv file is a row: a record whose quoted field holds line breaks counts as several rows. "
            "A value that is not of its column's type counts as null."
        )
    if request.block_filter is not None:
        lines.append(
            f"Only rows are read that lie in the charged blocks {request.written_blocks} of "
            f"{request.block_expression}, in UTC; a row without a value there lies in none."
        )
    if request.where is not None:
        lines.append(f"A row is used only if this is true of it: {request.where}.")
    return lines


def _unread(request: ReleaseRequest) -> list[str]:
    given = {"label": (request.label, request.uses_label), "model": (request.model, request.uses_model)}
    unread = [name for name, (value, used) in given.items() if value is not None and not used]
    if not unread:
        return []
    return [f"Nothing that is asked for needs a {' or a '.join(unread)}: what the request says of it is not read."]


def _inputs(model: Model) -> list[str]:
    lines = []
    match model:
        case LinearModel() | LogisticModel():
            if model.coefficients:
                lines.append("A feature that overflows, divides by zero or does not convert to a number is null.")
            if model.bounds:
                bounds = ", ".join(f"{name} from {low:.6g} to {high:.6g}" for name, (low, high) in model.bounds.items())
                lines.append(f"To the model a value beyond its bounds counts as the nearer one: {bounds}.")
            if model.categorical:
                names = ", ".join(model.categorical)
                lines.append(f"A level of {names} that the model does not list, or null, adds nothing to the score.")
        case SparkMLModel():
            lines.append(
                "Numbers that are null are NaN to the pipeline's stages, and a row that they skip is left out."
            )
    return lines


def _scores(request: ReleaseRequest, label: Label, model: Model) -> list[str]:
    lines = [_label(label)]
    match model:
        case ColumnsModel(score=score):
            lines.append(f"A row whose {score} is null or NaN is left out.")
        case LinearModel() | LogisticModel():
            lines += ["A row with a feature that is null or NaN is left out."] if model.coefficients else []
        case SparkMLModel():
            lines.append("A row whose score is null or NaN is left out.")
    if isinstance(model, LogisticModel):
        return lines
    if request.scoring.outside == "drop":
        return [*lines, "A row whose score is below 0 or above 1 is left out."]
    return [*lines, "A score below 0 counts as 0 and a score above 1 as 1."]


def _values(statistic: ValueCells, *, scored: bool) -> list[str]:
    name = statistic.column
    whatever = ", whatever its label and score" if scored else ""
    return [
        f"For the distribution of {name}, a row whose {name} is null or NaN is left out, and any other counts"
        f"{whatever}; a value below {statistic.lower:.6g} counts as that, one above "
        f"{statistic.upper:.6g} as that, and values are rounded down to a fixed grid."
    ]


def _residuals(statistic: ResidualCells) -> list[str]:
    outcome, unit = statistic.outcome, statistic.unit
    return [
        f"A residual is {outcome} minus the model's output as it is, not moved to any bounds. A row is left out of the "
        f"residuals if {outcome} or the output is null or NaN, as the output is where a feature is.",
        f"Fitted values and residuals are rounded to fixed cells, {unit / 128:.6g} wide up to a size of "
        f"{unit / 2:.6g} and a 64th of each doubling beyond; what is larger than {unit * 2.0**60:.6g} counts as that.",
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
        f"A value of {x} below {x_low:.6g} counts as that, one above {x_high:.6g} as that; of {y}, below "
        f"{y_low:.6g} and above {y_high:.6g}. Both are rounded to the middles of {statistic.cells:,} equal cells.",
    ]
    return lines


def _pointless(statistic: PointCells | PointSums, request: ReleaseRequest) -> str:
    """What becomes of a row without a point: where sizes are public it stays, for a replacement may have one."""
    if request.sizes_are_public(statistic):
        return (
            "stays a row of its line: in sums it counts at the middle of the bounds, in pairs of rows it is passed by"
        )
    return "is left out of the lines"


def _products(statistic: CrossProductCells | LabelProductCells, request: ReleaseRequest) -> list[str]:
    numbers = [*statistic.features]
    lines = []
    if isinstance(statistic, CrossProductCells):
        numbers.append(statistic.outcome)
    else:
        lines.append(_label(request.needed_label))
    bounds = ", ".join(f"{number.name} from {number.lower:.6g} to {number.upper:.6g}" for number in numbers)
    if numbers:
        lines.append(
            f"For the fit, a value beyond its bounds counts as the nearer one: {bounds}. Values are rounded to 8,192 "
            "equal steps between them; a row with one that is null or NaN is left out."
        )
    for column in statistic.categorical:
        lines.append(
            f"For the fit, a {column.column} that is null or not among the listed levels is {column.levels[0]}."
        )
    return lines


def _label(label: Label) -> str:
    positive, negative = json.dumps(label.positive, ensure_ascii=False), json.dumps(label.negative, ensure_ascii=False)
    return (
        f"A row counts as positive if {label.column} is {positive} and as negative if it is {negative}; "
        "a row with any other value there, or none, is left out."
    )


def _units(request: ReleaseRequest) -> list[str]:
    unit = request.unit
    if unit.column is None:
        return []
    rows = "1 row is" if unit.max_rows == 1 else f"{unit.max_rows} rows are"
    return [
        f"Of the rows that share a value of {unit.column}, at most {rows} used, chosen by a secret order; "
        f"a row without {unit.column} is left out."
    ]
