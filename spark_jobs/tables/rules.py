"""The per-record rules of a release in plain sentences: public, and the same whatever the table holds."""

from __future__ import annotations

import json

from spark_jobs.contract.diagnostics import ScoreCells, ValueCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.tables import ColumnsModel, LinearModel, LogisticModel, SparkMLModel


def rules(request: ReleaseRequest) -> tuple[str, ...]:
    """What ``request`` does with rows and values that do not fit, in the order it is done."""
    scored = (*_labels(request), *_features(request), *_scores(request))
    asked = any(isinstance(statistic, ScoreCells) for statistic in request.statistics)
    return (*_reading(request), *(scored if asked else ()), *_values(request), *_units(request))


def _reading(request: ReleaseRequest) -> list[str]:
    told = []
    if request.table.format == "csv":
        told.append("A value of a csv file that is not of its column's type counts as null.")
    if request.block_filter is not None:
        told.append(
            f"Only rows are read that lie in the charged blocks {', '.join(request.blocks)} of "
            f"{request.block_expression}, in UTC; a row without a value there lies in none."
        )
    if request.where is not None:
        told.append(f"A row is used only if this is true of it: {request.where}.")
    return told


def _labels(request: ReleaseRequest) -> list[str]:
    label = request.label
    positive, negative = json.dumps(label.positive, ensure_ascii=False), json.dumps(label.negative, ensure_ascii=False)
    return [
        f"A row counts as positive if {label.column} is {positive} and as negative if it is {negative}; "
        "a row with any other value there, or none, is left out."
    ]


def _features(request: ReleaseRequest) -> list[str]:
    match request.model:
        case ColumnsModel(score=score):
            return [f"A row whose {score} is null or NaN is left out."]
        case LinearModel() | LogisticModel() as model:
            told = []
            if model.coefficients:
                told.append("A feature that overflows, divides by zero or does not convert to a number is null.")
                told.append("A row with a feature that is null or NaN is left out.")
            if model.categorical:
                names = ", ".join(model.categorical)
                told.append(f"A level of {names} that the model does not list, or null, adds nothing to the score.")
            return told
        case SparkMLModel():
            return [
                "Numbers that are null are NaN to the pipeline's stages, and a row that they skip is left out.",
                "A row whose score is null or NaN is left out.",
            ]


def _scores(request: ReleaseRequest) -> list[str]:
    if isinstance(request.model, LogisticModel):
        return []
    if request.scoring.outside == "drop":
        return ["A row whose score is below 0 or above 1 is left out."]
    return ["A score below 0 counts as 0 and a score above 1 as 1."]


def _values(request: ReleaseRequest) -> list[str]:
    told = []
    for statistic in request.statistics:
        if isinstance(statistic, ValueCells):
            name = statistic.column
            told.append(
                f"For the distribution of {name}, a row whose {name} is null or NaN is left out, and any other counts, "
                f"whatever its label and score; a value below {statistic.lower:.6g} counts as that, one above "
                f"{statistic.upper:.6g} as that, and values are rounded down to a fixed grid."
            )
    return told


def _units(request: ReleaseRequest) -> list[str]:
    unit = request.unit
    if unit.column is None:
        return []
    rows = "1 row is" if unit.max_rows == 1 else f"{unit.max_rows} rows are"
    return [
        f"Of the rows that share a value of {unit.column}, at most {rows} used, chosen by a secret order; "
        f"a row without {unit.column} is left out."
    ]
