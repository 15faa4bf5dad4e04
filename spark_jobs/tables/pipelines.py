"""Saved ``pyspark.ml`` pipelines whose stages are row-wise and cannot fail.

A saved pipeline contains code. The classes of its stages are read from the saved metadata before anything is loaded,
and checked again afterwards; only the classes listed below are allowed, and each stage is loaded separately by its own
class, so that a saved pipeline cannot decide what is imported. Each stage maps a row to a row, or skips it, for every
possible value: stages that raise on unknown values (``handleInvalid="error"``), that run SQL, or that depend on other
rows are rejected. Whether the stages fit together and fit the table is tested on synthetic rows. Without this test, a
pipeline whose parts differ in size would fail if the table has rows and succeed if it has none.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.utils import is_remote

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.columns import FEATURE_KINDS, ColumnNeed
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.pipelines import MAX_BYTES, SavedPipeline, is_metadata, refused_pipeline
from spark_jobs.contract.tables import SparkMLModel
from spark_jobs.tables.expressions import as_double, quoted, read
from spark_jobs.tables.pipeline_trees import require_sound_trees

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
_OF_TREES = ("DecisionTree", "GBT", "RandomForest")
_ROW = "__dp_row"
_PARAMETERS = (
    *("handleInvalid", "splits", "splitsArray", "inputCol", "inputCols", "outputCol", "outputCols"),
    *("featuresCol", "predictionCol", "probabilityCol"),
)
_SAMPLES = (None, 0.0, 1.0, -1.5, math.nan, math.inf, -math.inf, 1e308)


@dataclass(frozen=True, kw_only=True)
class StageDescription:
    """The checked properties of a pipeline stage.

    Attributes:
        name: the full name of its Java class.
        parameters: those of its parameters that determine its inputs, its outputs and its treatment of invalid values.
    """

    name: str
    parameters: Mapping[str, Any]

    @property
    def short_name(self) -> str:
        """The name of the class without its package."""
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

    Numeric inputs are passed to the pipeline as doubles, with null as NaN, except for columns that an indexer or
    imputer reads.

    Raises:
        InvalidRequest: there is no saved pipeline, its content differs from the request's, a stage is not allowed or
            raises on unknown values, the pipeline does not fit the table's schema, or Spark is a Spark Connect server.
    """
    if is_remote():
        _refuse(
            model,
            "must not be a saved pipeline with Spark Connect, because its server cannot test the pipeline before rows "
            "are read",
            "run the release by spark-submit",
        )
    pipeline, stages, folders = _load(frame.sparkSession, model)
    if stages[-1].name in CLASSIFIERS and getattr(pipeline[-1], "numClasses", 2) != 2:
        _refuse(model, "must end in a model of two classes", "fit it for two classes")
    inputs = _inputs(frame, stages)
    size = _try_out(frame, pipeline, inputs, stages, model)
    if stages[-1].short_name.startswith(_OF_TREES):
        _check_trees(frame.sparkSession, folders[-1], size, model)
    columns = [sf.struct(*(sf.col(quoted(name)) for name in frame.columns)).alias(_ROW)]
    columns += [column.alias(name) for name, column in inputs.items()]
    scored = frame.select(*columns)
    for stage in pipeline:
        scored = stage.transform(scored)
    return scored.select(f"{_ROW}.*", _output(stages[-1], model).alias(score))


def read_saved(spark: SparkSession, path: str) -> SavedPipeline:
    """The pipeline under ``path``, as read by Spark; none of its classes is loaded.

    Raises:
        InvalidRequest: the folder does not contain exactly one pipeline.
    """
    folder = Place.of_folder(path, what="model.path").path
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(folder)
        if files.agg(sf.sum("length")).first()[0] > MAX_BYTES:  # type: ignore[index]
            raise refused_pipeline(path)
        # Spark's name of the folder, which may differ from that in the request
        places = [str(row["path"]) for row in files.select("path").collect()]
        root = min(filter(is_metadata, places), key=lambda place: place.count("/")).rpartition("/metadata/")[0]
        below = sf.substring("path", len(root) + 2, 2**30)
        hashes = files.select(below.alias("name"), sf.sha2("content", 256).alias("hash")).collect()
        metadata = files.where(sf.element_at(sf.split("path", "/"), -2) == "metadata")
        texts = {str(row[0]): bytes(row[1]) for row in metadata.select(below, "content").collect()}
        if not all(place.startswith(f"{root}/") for place in places):
            raise refused_pipeline(path)
        return SavedPipeline.of({str(row["name"]): str(row["hash"]) for row in hashes}, texts)
    except Exception as error:  # any failure of a store or a file means that there is no pipeline
        if isinstance(error, InvalidRequest):
            raise
        raise refused_pipeline(path) from None


def _load(spark: SparkSession, model: SparkMLModel) -> tuple[list[Any], list[StageDescription], list[str]]:
    """The stages, each loaded by its own class, their descriptions, and their folders."""
    saved = read_saved(spark, model.path)
    if model.sha256 not in (None, saved.sha256):
        _refuse(model, "must contain the pipeline of the request", "request the release again for the new pipeline")
    described = [_saved(metadata) for _, metadata in saved.stages]
    folders = [f"{Place.of_folder(model.path).path}/{folder}" for folder, _ in saved.stages]
    check_stages(described, model)
    try:
        pipeline = [_class_of(stage).load(folder) for stage, folder in zip(described, folders, strict=True)]
        stages = [_loaded(stage) for stage in pipeline]
        changed = [stage.name for stage in stages] != [stage.name for stage in described]
    except Exception:  # a class may fail in any way on what was saved
        raise refused_pipeline(model.path) from None
    check_stages(stages, model)
    if changed or read_saved(spark, model.path) != saved:
        raise refused_pipeline(model.path)
    return pipeline, stages, folders


def _class_of(stage: StageDescription) -> Any:
    """Spark's class that loads an allowed stage."""
    package, _, name = stage.name.removeprefix(_ROOT).rpartition(".")
    return getattr(importlib.import_module(f"pyspark.ml.{package}"), name)


def check_stages(stages: list[StageDescription], model: SparkMLModel) -> None:
    """Check that all stages of a pipeline are row-wise and total.

    Raises:
        InvalidRequest: a stage is not row-wise or not total; the message names the first such stage and the remedy.
    """
    for stage in stages:
        if stage.name not in (*TRANSFORMERS, *PREDICTORS):
            allowed = ", ".join(name.rpartition(".")[2] for name in (*TRANSFORMERS, *PREDICTORS))
            _refuse(model, f"must not contain a {stage.short_name}", f"use stages of {allowed}")
        if stage.parameters.get("handleInvalid") not in (None, "keep", "skip"):
            _refuse(
                model,
                f"has a {stage.short_name} that fails on unknown values (handleInvalid='error')",
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
        remedy = "save the fitted pipeline with the model as its last stage"
        _refuse(model, "must end in a model, and contain only one", remedy)
    if model.output == "probability" and not _has_probability(stages[-1]):
        _refuse(model, f"ends in a {stages[-1].short_name}, which gives no probability", "use output: prediction")


def _has_probability(stage: StageDescription) -> bool:
    return stage.name in CLASSIFIERS and not stage.name.endswith("LinearSVCModel")


def _saved(metadata: Mapping[str, Any]) -> StageDescription:
    parameters = {**metadata.get("defaultParamMap", {}), **metadata["paramMap"]}
    return StageDescription(
        name=str(metadata["class"]), parameters={k: v for k, v in parameters.items() if k in _PARAMETERS}
    )


def _loaded(stage: Any) -> StageDescription:
    name = f"{type(stage).__module__}.{type(stage).__name__}".replace("pyspark.ml.", _ROOT, 1)
    parameters = {
        parameter.name: stage.getOrDefault(parameter)
        for parameter in stage.params
        if parameter.name in _PARAMETERS and stage.isDefined(parameter)
    }
    return StageDescription(name=name, parameters=parameters)


def _inputs(frame: DataFrame, stages: list[StageDescription]) -> dict[str, Column]:
    """The columns of the table that the pipeline reads, in the form in which it receives them.

    An indexer receives numbers unconverted, because it uses their text, and an imputer distinguishes null from NaN.
    """
    written: set[str] = set()
    readers: dict[str, list[StageDescription]] = {}
    for stage in stages:
        for name in stage.inputs:
            if name not in written:
                readers.setdefault(name, []).append(stage)
        written.update(stage.outputs)
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


def _try_out(
    frame: DataFrame,
    pipeline: list[Any],
    inputs: Mapping[str, Column],
    stages: list[StageDescription],
    model: SparkMLModel,
) -> int:
    """Run the pipeline on no rows and on synthetic rows like those of ``frame``; returns the size of the last vector.

    A stage that expects a longer vector fails only when it reads the missing entries, which for sparse vectors depends
    on the row: so every vector is also tested in dense form.
    """
    from pyspark.ml.functions import vector_to_array

    template = frame.select(*(column.alias(name) for name, column in inputs.items()))
    samples = frame.sparkSession.createDataFrame([(value,) for value in _SAMPLES], "sample double")
    values = [
        sf.col("sample").try_cast(field.dataType).alias(field.name, metadata=field.metadata)
        for field in template.schema.fields
    ]
    synthetic = samples.select(*values)
    last = stages[-1]
    try:
        for rows, dense in ((synthetic.limit(0), False), (synthetic, False), (synthetic, True)):
            for stage, described in zip(pipeline, stages, strict=True):
                rows = _dense(stage.transform(rows), described.outputs) if dense else stage.transform(rows)
            rows.select(_output(last, model)).collect()
        size = rows.select(sf.size(vector_to_array(sf.col(quoted(last.inputs[0]))))).first()
        return 0 if size is None else int(size[0])
    except Exception:  # any failure here would also occur for some private row
        _refuse(
            model,
            "must give a number for every row of a table with these columns",
            "check that its stages fit together, and that the table lacks the columns that they add",
        )


def _check_trees(spark: SparkSession, folder: str, features: int, model: SparkMLModel) -> None:
    try:
        require_sound_trees(spark, folder, features=features)
    except Exception:  # a broken tree, or a file without trees
        _refuse(model, "must end in a model with trees as Spark saves them", "save the fitted pipeline again")


def _dense(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """``frame`` with the vector columns among ``names`` in dense form."""
    from pyspark.ml.functions import array_to_vector, vector_to_array
    from pyspark.ml.linalg import VectorUDT

    return frame.withColumns(
        {
            name: array_to_vector(vector_to_array(sf.col(quoted(name)))).alias(
                name, metadata=frame.schema[name].metadata
            )
            for name in names
            if isinstance(frame.schema[name].dataType, VectorUDT)
        }
    )


def _output(last: StageDescription, model: SparkMLModel) -> Column:
    from pyspark.ml.functions import vector_to_array

    if model.output == "probability":
        return sf.get(vector_to_array(sf.col(quoted(str(last.parameters["probabilityCol"])))), sf.lit(1))
    return sf.col(quoted(str(last.parameters["predictionCol"]))).cast("double")


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def _refuse(model: SparkMLModel, bound: str, remedy: str) -> NoReturn:
    raise InvalidRequest("model.path", model.path, bound, remedy)
