"""Labels, scores and fitted values as columns, by public row-wise rules.

No control flow depends on a value: an invalid row has a null label or score and is left out of every count.
``spark_jobs.wording.rules`` states the rules in plain sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from spark_jobs.contract.column_checks import level_value
from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.columns import ColumnNeed, categorical_need, label_need, score_need
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.score_scale import ScoreScale
from spark_jobs.contract.snapshots import Literalish
from spark_jobs.contract.tables import (
    ColumnsModel,
    Label,
    LinearModel,
    LogisticModel,
    Model,
    Scoring,
    SparkMLModel,
)
from spark_jobs.tables.expressions import Typed, as_double, balanced, feature_column, one_nan, read
from spark_jobs.tables.pipelines import apply_pipeline

PIPELINE_SCORE = "__dp_score"


class LabelAndScore(NamedTuple):
    """The label column and the score column of a table.

    Attributes:
        label: int, 0 or 1; null where the row is left out.
        score: double within [0, 1]; null where the row is left out.
    """

    label: Column
    score: Column


def prepare_model(frame: DataFrame, model: Model) -> DataFrame:
    """Prepare ``frame`` for ``label_and_score`` and ``fitted_value``: add the output of a saved pipeline, if any.

    Rows that the pipeline's stages skip are removed.

    Raises:
        InvalidRequest: the pipeline is not one of row-wise, total stages, or does not fit the table's schema.
    """
    return apply_pipeline(frame, model, PIPELINE_SCORE) if isinstance(model, SparkMLModel) else frame


def label_and_score(frame: DataFrame, request: ReleaseRequest, model: Model | None = None) -> LabelAndScore:
    """The label and the score of each row of ``frame``, which ``prepare_model`` has prepared.

    Args:
        frame: the table.
        request: defines the label and the treatment of scores outside [0, 1].
        model: the model of the scores; by default that of the request.

    Raises:
        InvalidRequest: a column of the label or the model is missing or has an unsuitable type.
    """
    score = _score(frame, model or request.needed_model, request.scoring)
    return LabelAndScore(label=label_column(request.needed_label, frame.schema), score=score)


def fitted_value(frame: DataFrame, model: Model) -> Column:
    """The model's unclipped output for each row of ``frame``, which ``prepare_model`` has prepared: a double.

    The output is the linear predictor of a linear model, the probability of a logistic model, the named column, or the
    output of the saved pipeline. If the model has a recalibration map, the map is applied to this output. Null or NaN
    where a feature is null or NaN.

    Raises:
        InvalidRequest: a column of the model is missing or has an unsuitable type.
    """
    return _recalibrated(_output(frame, model), model)


def _output(frame: DataFrame, model: Model) -> Column:
    schema = frame.schema
    match model:
        case ColumnsModel(score=name):
            return as_double(read(score_need(name), schema))
        case LinearModel():
            return _linear(model, schema)
        case LogisticModel():
            return 1.0 / (1.0 + sf.exp(-_linear(model, schema)))
        case SparkMLModel():
            if PIPELINE_SCORE not in schema.names:
                raise ValueError("the table has no scores of the pipeline: apply prepare_model to it first")
            return sf.col(PIPELINE_SCORE)


def label_column(label: Label, schema: StructType) -> Column:
    """The label of each row: int, 0 or 1; null for any other value.

    Raises:
        InvalidRequest: its column is missing or has an unsuitable type.
    """
    values = read(label_need(label), schema)
    if values.kind is Kind.BOOLEAN:
        positive = values.column if label.positive else ~values.column
        return positive.cast("int")
    is_positive = _equals(values, label.positive, "label.positive")
    if label.rest:
        known = values.column.isNotNull()
        if values.kind is Kind.NUMBER:
            known &= ~sf.isnan(values.column)
        return sf.when(is_positive, 1).when(known, 0)
    is_negative = _equals(values, label.negative, "label.negative")
    return sf.when(is_positive, 1).when(is_negative, 0)


def _score(frame: DataFrame, model: Model, scoring: Scoring) -> Column:
    value = _output(frame, model)
    if isinstance(model, ColumnsModel) and model.scale is not None:
        value = _scaled(value, model.scale)
    # a probability is in [0, 1], or NaN
    bounded = (
        sf.nanvl(value, sf.lit(None).cast("double")) if isinstance(model, LogisticModel) else _bounded(value, scoring)
    )
    return _recalibrated(bounded, model)


def _scaled(score: Column, scale: ScoreScale) -> Column:
    """Where a score lies on its scale, by the formula of ``score_grid.places_on``; beyond an end, outside [0, 1]."""
    if scale.kind == "logit":
        return 1.0 / (1.0 + sf.exp(-score))
    lower, upper = scale.ends
    if scale.step is not None:
        # what is beyond the ends, and NaN, stays there: a whole number of it may overflow
        inside = (score >= lower - scale.step) & (score <= upper + scale.step)
        nearest = sf.floor((score - lower) / scale.step + 0.5) / float(scale.steps)
        return sf.when(inside, nearest).otherwise((score - lower) / (upper - lower))
    if scale.kind == "linear":
        return (score - lower) / (upper - lower)
    # below the scale, where the logarithm may have no value, as far below 0 as no rule of scores can miss
    place = sf.log1p((score - lower) / scale.unit) / math.log1p((upper - lower) / scale.unit)
    return sf.when(score < lower, -1.0).otherwise(place)


def _recalibrated(score: Column, model: Model) -> Column:
    """What the model's map, if it has one, makes of its scores; null of null and NaN."""
    of = model.recalibrated
    if of is None:
        return score
    clipped = _clipped(score, of.clip, 1.0 - of.clip)
    return 1.0 / (1.0 + sf.exp(-(float(of.intercept) + float(of.slope) * sf.ln(clipped / (1.0 - clipped)))))


def _bounded(score: Column, scoring: Scoring) -> Column:
    """The score by the rules of ``scoring``; NaN, which Spark puts above infinity, becomes null."""
    if scoring.outside == "drop":
        return sf.when((score >= 0.0) & (score <= 1.0), score)
    return sf.when(score < 0.0, 0.0).when(score <= 1.0, score).when(score <= math.inf, 1.0)


def _linear(model: LinearModel | LogisticModel, schema: StructType) -> Column:
    terms = [sf.lit(float(model.intercept))]
    for feature, coefficient in model.coefficients.items():
        value = feature_column(feature, schema)
        if feature in model.bounds:
            value = _clipped(value, *model.bounds[feature])
        terms.append(sf.lit(float(coefficient)) * value)
    for name, levels in model.categorical.items():
        terms.append(_categorical(name, levels, schema))
    return one_nan(balanced(Column.__add__, terms))


def _categorical(name: str, levels: dict[str, float], schema: StructType) -> Column:
    """The coefficient of the row's level; levels are converted to the column's type, and not the column to text."""
    return _by_level(categorical_need(name), {level: float(value) for level, value in levels.items()}, 0.0, schema)


def level_number(need: ColumnNeed, levels: Sequence[str], schema: StructType) -> Column:
    """The index of a row's level in ``levels``, by the rules of ``model.categorical``; 0 for null and for other values.

    If two levels are the same value of the column's type, such as 1 and 01, the first one counts.

    Raises:
        InvalidRequest: the column is missing or its type has no levels, or a level is not a value of this type.
    """
    return _by_level(need, {level: place for place, level in enumerate(levels)}, 0, schema)


def _by_level(need: ColumnNeed, values: Mapping[str, float | int], other: float | int, schema: StructType) -> Column:
    """The value of the first level that equals the row's, or ``other``."""
    column = read(need, schema)
    matched: Column | None = None
    for level, value in values.items():
        matches = _equals(column, level_value(need, level, column.kind), f"{need.field}.{need.name}")
        matched = sf.when(matches, value) if matched is None else matched.when(matches, value)
    return sf.lit(other) if matched is None else matched.otherwise(other)


def _clipped(value: Column, lower: float, upper: float) -> Column:
    """The value, clipped to its bounds; null and NaN, which in Spark is above all numbers, become null."""
    return sf.when(value < lower, lower).when(value <= upper, value).when((value > upper) & ~sf.isnan(value), upper)


def _equals(values: Typed, value: Literalish, field: str) -> Column:
    """Whether the column equals ``value``, a constant of the request."""
    try:
        if isinstance(value, str):
            value.encode()
            return values.column == sf.lit(value)
        if values.kind is Kind.BOOLEAN:
            return values.column == sf.lit(bool(value))
        if values.kind is Kind.INTEGER and value == int(value) and -(2**63) <= value < 2**63:
            return values.column == sf.lit(int(value)).cast("bigint")
        return as_double(values) == sf.lit(float(value))
    except (OverflowError, ValueError):  # not a valid text, or a number that no column can contain
        raise InvalidRequest(
            field, value, "must be a valid text, or a number within the range of a double", "correct it"
        ) from None
