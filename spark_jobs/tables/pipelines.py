"""Saved ``pyspark.ml`` pipelines of stages that look at one row and cannot fail.

A pipeline is code that somebody saved. Which classes its stages have is read from the saved metadata before anything is
loaded, and looked at again afterwards; only those below pass. Each maps a row to a row, or skips it, and gives a value
for every value: stages that raise on what they do not know (``handleInvalid="error"``), that run SQL, or that look at
other rows are refused. Whether the stages fit together, and fit the table, is tried on made-up rows: a pipeline whose
parts differ in size would otherwise fail exactly when there is somebody in the table.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark, without types
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.columns import FEATURE_KINDS, ColumnNeed
from spark_jobs.contract.errors import RequestRefused
from spark_jobs.contract.tables import SparkMLModel
from spark_jobs.tables.expressions import as_double, quoted, read

_ROOT = "org.apache.spark.ml."
INDEXERS = (f"{_ROOT}feature.StringIndexerModel",)
TRANSFORMERS = (
    *INDEXERS,
    *(
        f"{_ROOT}feature.{name}"
        for name in (
            "Binarizer",
            "Bucketizer",
            "ImputerModel",
            "MaxAbsScalerModel",
            "MinMaxScalerModel",
            "Normalizer",
            "OneHotEncoderModel",
            "PCAModel",
            "RobustScalerModel",
            "StandardScalerModel",
            "VectorAssembler",
        )
    ),
)
CLASSIFIERS = tuple(
    f"{_ROOT}classification.{name}Model"
    for name in (
        "DecisionTreeClassification",
        "GBTClassification",
        "LinearSVC",
        "LogisticRegression",
        "RandomForestClassification",
    )
)
REGRESSORS = tuple(
    f"{_ROOT}regression.{name}Model"
    for name in ("DecisionTreeRegression", "GBTRegression", "LinearRegression", "RandomForestRegression")
)
PREDICTORS = (*CLASSIFIERS, *REGRESSORS)
_PIPELINE = f"{_ROOT}PipelineModel"
_ROW = "__dp_row"
_PARAMETERS = (
    *("handleInvalid", "splits", "splitsArray", "inputCol", "inputCols", "outputCol", "outputCols"),
    *("featuresCol", "predictionCol", "probabilityCol"),
)
_SAMPLES = (None, 0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 1e308)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What is looked at of a stage.

    Attributes:
        name: its full Java class.
        parameters: those that decide what it reads, writes and does with values that do not fit.
    """

    name: str
    parameters: Mapping[str, Any]

    @property
    def short_name(self) -> str:
        """The class without its package."""
        return self.name.rpartition(".")[2]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns it reads."""
        if self.name in PREDICTORS:
            return (str(self.parameters.get("featuresCol")),)
        return _names(self.parameters.get("inputCols") or self.parameters.get("inputCol"))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns it adds."""
        if self.name in PREDICTORS:
            return ()
        return _names(self.parameters.get("outputCols") or self.parameters.get("outputCol"))


def apply_pipeline(frame: DataFrame, model: SparkMLModel, score: str) -> DataFrame:
    """``frame`` with the pipeline's output as the double column ``score``, without the rows that its stages skip.

    Numeric inputs reach the pipeline as doubles, null as NaN, but for columns that an indexer or imputer reads.

    Raises:
        RequestRefused: no saved pipeline, a stage outside the allow-list or that raises on what it does not know, or a
            pipeline that does not fit the table's schema.
    """
    from pyspark.ml import PipelineModel

    spark = frame.sparkSession
    check_stages(read_stages(spark, model.path), model)
    try:
        pipeline = PipelineModel.load(model.path)
    except (PySparkException, Py4JJavaError):
        _refuse_path(model.path)
    stages = [_loaded(stage) for stage in pipeline.stages]
    check_stages(stages, model)
    if stages[-1].name in CLASSIFIERS and getattr(pipeline.stages[-1], "numClasses", 2) != 2:
        _refuse(model, "must end in a model of two classes", "fit it for two classes")
    inputs = _inputs(frame, stages)
    _try_out(frame, pipeline, inputs, stages[-1], model)
    columns = [sf.struct(*(sf.col(quoted(name)) for name in frame.columns)).alias(_ROW)]
    columns += [column.alias(name) for name, column in inputs.items()]
    scored = pipeline.transform(frame.select(*columns))
    return scored.select(f"{_ROW}.*", _output(stages[-1], model).alias(score))


def read_stages(spark: SparkSession, path: str) -> list[Stage]:
    """The stages of the pipeline saved under ``path``, from their metadata; no class of theirs is loaded.

    Raises:
        RequestRefused: there is no pipeline.
    """
    if re.search(r"[*?{}\[\]\\]", path):
        _refuse_path(path)
    folder = path.rstrip("/")
    try:
        whole = [row["value"] for row in spark.read.text(f"{folder}/metadata").collect()]
        parts = [row["value"] for row in spark.read.text(f"{folder}/stages/*/metadata").collect()]
        pipeline = next(json.loads(text) for text in whole if text.strip())
        saved = {stage["uid"]: stage for stage in (json.loads(text) for text in parts if text.strip())}
        if pipeline["class"] != _PIPELINE:
            _refuse_path(path)
        return [_saved(saved[uid]) for uid in pipeline["paramMap"]["stageUids"]]
    except (PySparkException, Py4JJavaError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        if isinstance(error, RequestRefused):
            raise
        _refuse_path(path)


def check_stages(stages: list[Stage], model: SparkMLModel) -> None:
    """Refuse a pipeline with a stage that is not row-wise and total.

    Raises:
        RequestRefused: naming the first such stage, and the remedy.
    """
    for stage in stages:
        if stage.name not in (*TRANSFORMERS, *PREDICTORS):
            allowed = ", ".join(name.rpartition(".")[2] for name in (*TRANSFORMERS, *PREDICTORS))
            _refuse(model, f"must not hold a {stage.short_name}", f"use stages of {allowed}")
        if stage.parameters.get("handleInvalid") not in (None, "keep", "skip"):
            _refuse(
                model,
                f"has a {stage.short_name} that fails on values it does not know (handleInvalid='error')",
                "set its handleInvalid to 'keep' or 'skip'",
            )
        for splits in (stage.parameters.get("splits"), *(stage.parameters.get("splitsArray") or ())):
            if splits and (float(splits[0]) != -math.inf or float(splits[-1]) != math.inf):
                _refuse(
                    model,
                    f"has a {stage.short_name} that fails on values outside its splits",
                    "let its splits run from -infinity to infinity",
                )
    if not stages or stages[-1].name not in PREDICTORS or any(stage.name in PREDICTORS for stage in stages[:-1]):
        _refuse(model, "must end in a model, its only one", "save the fitted pipeline with the model as its last stage")
    if model.output == "probability" and not _has_probability(stages[-1]):
        _refuse(model, f"ends in a {stages[-1].short_name}, which gives no probability", "use output: prediction")


def _has_probability(stage: Stage) -> bool:
    return stage.name in CLASSIFIERS and not stage.name.endswith("LinearSVCModel")


def _saved(metadata: Mapping[str, Any]) -> Stage:
    parameters = {**metadata.get("defaultParamMap", {}), **metadata["paramMap"]}
    return Stage(name=str(metadata["class"]), parameters={k: v for k, v in parameters.items() if k in _PARAMETERS})


def _loaded(stage: Any) -> Stage:
    name = f"{type(stage).__module__}.{type(stage).__name__}".replace("pyspark.ml.", _ROOT, 1)
    parameters = {
        parameter.name: stage.getOrDefault(parameter)
        for parameter in stage.params
        if parameter.name in _PARAMETERS and stage.isDefined(parameter)
    }
    return Stage(name=name, parameters=parameters)


def _inputs(frame: DataFrame, stages: list[Stage]) -> dict[str, Column]:
    """The table's columns that the pipeline reads, as it gets them.

    An indexer needs a number as it is, for its text, and an imputer tells null from NaN.
    """
    made: set[str] = set()
    readers: dict[str, list[Stage]] = {}
    for stage in stages:
        for name in stage.inputs:
            if name not in made:
                readers.setdefault(name, []).append(stage)
        made.update(stage.outputs)
    columns = {}
    for name, reading in readers.items():
        indexed = any(stage.name in INDEXERS for stage in reading)
        kinds = (*FEATURE_KINDS, Kind.STRING) if all(stage.name in INDEXERS for stage in reading) else FEATURE_KINDS
        value = read(ColumnNeed(name=name, field="model.path", kinds=kinds), frame.schema)
        if indexed:
            columns[name] = sf.col(quoted(name))
        elif any(stage.short_name == "ImputerModel" for stage in reading):
            columns[name] = as_double(value)
        else:
            columns[name] = sf.coalesce(as_double(value), sf.lit(math.nan))
    return columns


def _try_out(frame: DataFrame, pipeline: Any, inputs: Mapping[str, Column], last: Stage, model: SparkMLModel) -> None:
    """Run the pipeline on no row, and on made-up rows with the columns of ``frame``."""
    template = frame.select(*(column.alias(name) for name, column in inputs.items()))
    samples = frame.sparkSession.createDataFrame([(value,) for value in _SAMPLES], "sample double")
    values = [
        sf.col("sample").try_cast(field.dataType).alias(field.name, metadata=field.metadata)
        for field in template.schema.fields
    ]
    made_up = samples.select(*values)
    try:
        for rows in (made_up.limit(0), made_up):
            pipeline.transform(rows).select(_output(last, model)).collect()
    except (PySparkException, Py4JJavaError):
        _refuse(
            model,
            "must give a number for every row of a table with these columns",
            "check that its stages fit together, and that the table has no column that they add",
        )


def _output(last: Stage, model: SparkMLModel) -> Column:
    from pyspark.ml.functions import vector_to_array

    if model.output == "probability":
        return sf.get(vector_to_array(sf.col(quoted(str(last.parameters["probabilityCol"])))), sf.lit(1))
    return sf.col(quoted(str(last.parameters["predictionCol"]))).cast("double")


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _refuse(model: SparkMLModel, bound: str, remedy: str) -> NoReturn:
    raise RequestRefused("model.path", given=model.path, bound=bound, remedy=remedy)


def _refuse_path(path: str) -> NoReturn:
    raise RequestRefused(
        "model.path",
        given=path,
        bound="must be a PipelineModel that Spark saved and can read",
        remedy="check the path, and save the fitted pipeline with its save()",
    ) from None
