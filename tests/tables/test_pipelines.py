from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.tables.pipelines import INDEXERS, PREDICTORS, TRANSFORMERS
from spark_jobs.tables.scoring import label_and_score, prepare_model
from tests.support.requests import a_request
from tests.support.spark import settings as spark_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECRET = "Zebedee-4711"
SCHEMA = "y int, x double, n bigint, c string"
NASTY = [
    (1, None, None, None),
    (0, math.nan, 0, SECRET),
    (1, math.inf, 2**63 - 1, ""),
    (None, -math.inf, -(2**63), "a"),
    (7, 1e308, 1, "b"),
    (0, 2.0, 3, "c"),
]


@pytest.fixture(scope="module")
def train(spark: SparkSession) -> DataFrame:
    rows = [(place % 2, float(place % 7), place % 5, "abc"[place % 3]) for place in range(60)]
    return spark.createDataFrame(rows, SCHEMA)


@pytest.fixture(scope="module")
def nasty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(NASTY, SCHEMA)


@pytest.fixture(scope="module")
def models(train: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipelines by name, saved once."""
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LinearSVC, LogisticRegression, NaiveBayes
    from pyspark.ml.feature import (
        Binarizer,
        Bucketizer,
        Imputer,
        OneHotEncoder,
        SQLTransformer,
        StandardScaler,
        StringIndexer,
        VectorAssembler,
    )
    from pyspark.ml.regression import LinearRegression

    folder = tmp_path_factory.mktemp("models")
    double = train.selectExpr("y", "x", "double(n) as n", "c")

    def save(name: str, *stages: Any) -> None:
        Pipeline(stages=list(stages)).fit(double).save(str(folder / name))

    def assemble(*inputs: str, invalid: str = "keep", output: str = "features") -> Any:
        return VectorAssembler(inputCols=list(inputs), outputCol=output, handleInvalid=invalid)

    def index(invalid: str) -> Any:
        return StringIndexer(inputCol="c", outputCol="ci", handleInvalid=invalid)

    splits = [-math.inf, 2.0, math.inf]
    regression = LogisticRegression(labelCol="y")
    save(
        "rich",
        index("keep"),
        OneHotEncoder(inputCols=["ci"], outputCols=["co"], handleInvalid="keep"),
        Imputer(inputCols=["n"], outputCols=["filled"]),
        Bucketizer(inputCol="x", outputCol="bucket", splits=splits, handleInvalid="keep"),
        Binarizer(inputCol="x", outputCol="above", threshold=2.0),
        assemble("filled", "co", "bucket", "above", output="raw"),
        StandardScaler(inputCol="raw", outputCol="features", withMean=True),
        regression,
    )
    save("keep", assemble("x", "n"), regression)
    save("skip", assemble("x", "n", invalid="skip"), regression)
    save("numbered", StringIndexer(inputCol="n", outputCol="ni", handleInvalid="keep"), assemble("ni"), regression)
    save("linear", assemble("x"), LinearRegression(labelCol="y"))
    save("svc", assemble("x"), LinearSVC(labelCol="y"))
    save("error_assembler", assemble("x", invalid="error"), regression)
    save("error_indexer", index("error"), assemble("ci"), regression)
    save("sql", SQLTransformer(statement="select *, x + 1 as z from __THIS__"), assemble("z"), regression)
    save("bayes", assemble("n"), NaiveBayes(labelCol="y"))
    bounded = Bucketizer(inputCol="x", outputCol="bucket", splits=[0.0, 2.0, 9.0], handleInvalid="keep")
    save("bounded", bounded, assemble("bucket"), regression)
    save("headless", assemble("x"))
    save("three", assemble("x"), LogisticRegression(labelCol="n"))
    save("label", index("keep"), assemble("ci"), LogisticRegression(labelCol="y", predictionCol="y2"))
    # a pipeline whose parts do not fit together: it fails on a row, and only then
    shutil.copytree(folder / "keep", folder / "misfit")
    assembler = next((folder / "misfit" / "stages").glob("0_*/metadata/part-*"))
    metadata = json.loads(assembler.read_text())
    metadata["paramMap"]["inputCols"] = ["x"]
    assembler.write_text(json.dumps(metadata) + "\n")
    for crc in assembler.parent.glob(".part*.crc"):
        crc.unlink()
    return folder


def request(models: Path, name: str, **fields: Any) -> Any:
    return a_request(model={"kind": "spark_ml", "basis": "public", "path": str(models / name), **fields})


def scores(frame: DataFrame, asked: Any) -> list[Any]:
    prepared = prepare_model(frame, asked.model)
    label, score = label_and_score(prepared, asked)
    rows = prepared.select(label.alias("label"), score.alias("score")).collect()
    assert all(row.score is None or 0 <= row.score <= 1 for row in rows)
    return [row.score for row in rows]


def test_scores_are_those_of_the_saved_pipeline(models: Path, train: DataFrame) -> None:
    from pyspark.ml import PipelineModel

    theirs = PipelineModel.load(str(models / "rich")).transform(train.selectExpr("y", "x", "double(n) as n", "c"))
    expected = [float(row.probability[1]) for row in theirs.select("probability").collect()]
    assert scores(train, request(models, "rich")) == expected
    assert len({round(score, 6) for score in expected}) > 5


@pytest.mark.parametrize("name", ["rich", "keep", "numbered"])
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_no_row_is_lost_and_none_raises(
    spark: SparkSession, models: Path, nasty: DataFrame, name: str, ansi: str
) -> None:
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        assert len(scores(nasty, request(models, name))) == len(NASTY)


def test_rows_that_a_stage_skips_are_left_out(models: Path, nasty: DataFrame) -> None:
    assert len(scores(nasty, request(models, "skip"))) == len(NASTY) - 2


@pytest.mark.parametrize("name", ["rich", "skip"])
def test_an_empty_table_gives_the_same_shape(models: Path, nasty: DataFrame, name: str) -> None:
    assert scores(nasty.limit(0), request(models, name)) == []


@pytest.mark.parametrize("name", ["linear", "svc", "keep"])
def test_predictions_are_scores_too(models: Path, nasty: DataFrame, name: str) -> None:
    assert len(scores(nasty, request(models, name, output="prediction"))) == len(NASTY)


def test_the_other_columns_of_a_row_stay_with_it(models: Path, nasty: DataFrame) -> None:
    prepared = prepare_model(nasty.selectExpr("*", "x as `a.b`"), request(models, "rich").model)
    assert prepared.columns == ["y", "x", "n", "c", "a.b", "__dp_score"]
    assert [row.n for row in prepared.collect()] == [row[2] for row in NASTY]
    assert dict(prepared.dtypes)["n"] == "bigint"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere", "must be a PipelineModel that Spark saved"),
        ("rich/stages", "must be a PipelineModel that Spark saved"),
        ("r*ch", "must be a PipelineModel that Spark saved"),
        ("error_assembler", "VectorAssembler that fails on values it does not know (handleInvalid='error'); set"),
        ("error_indexer", "StringIndexerModel that fails on values it does not know"),
        ("sql", "must not hold a SQLTransformer"),
        ("bayes", "must not hold a NaiveBayesModel"),
        ("bounded", "fails on values outside its splits"),
        ("headless", "must end in a model"),
        ("three", "two classes"),
        ("linear", "gives no probability; use output: prediction"),
        ("svc", "gives no probability; use output: prediction"),
        ("misfit", "must give a number for every row"),
    ],
)
def test_pipelines_outside_the_allow_list_are_refused_in_one_line(
    models: Path, nasty: DataFrame, name: str, told: str
) -> None:
    with pytest.raises(RequestRefused) as refused:
        prepare_model(nasty, request(models, name).model)
    line = str(refused.value)
    assert told in line
    assert line.startswith("model.path: got ")
    assert "\n" not in line
    assert "org.apache" not in line
    assert SECRET not in line


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["y", "x", "c"], "got 'n'; must be a column of the table, which has y, x, c"),
        (["y", "c", "n", "c as x"], "got 'x'; must be of type integer, number or boolean, not string"),
        (["y", "x", "n", "date '2026-01-01' as c"], "got 'c'; must be of type integer, number, boolean or string"),
        (["y", "x", "n", "c", "1 as ci"], None),
        (["y", "x", "n", "c", "1 as features"], None),
    ],
)
def test_a_table_that_the_pipeline_does_not_fit_is_refused(
    models: Path, nasty: DataFrame, columns: list[str], told: str | None
) -> None:
    frame = nasty.selectExpr(*columns)
    if told is None:  # what the table has beside the inputs is out of the pipeline's sight
        assert len(scores(frame, request(models, "rich"))) == len(NASTY)
    else:
        with pytest.raises(RequestRefused) as refused:
            prepare_model(frame, request(models, "rich").model)
        assert told in str(refused.value)


def test_a_class_is_refused_before_it_is_loaded(models: Path, nasty: DataFrame, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(models / "keep", copy)
    for part in copy.glob("stages/0_*/metadata/*"):
        part.unlink()
    folder = next(copy.glob("stages/0_*/metadata"))
    metadata = {"class": "com.example.Spy", "uid": folder.parent.name[2:], "paramMap": {}, "defaultParamMap": {}}
    (folder / "part-00000").write_text(json.dumps(metadata))
    with pytest.raises(RequestRefused, match="must not hold a Spy"):
        prepare_model(nasty, request(tmp_path, "copy").model)


def test_a_python_pipeline_is_refused(nasty: DataFrame, models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(models / "keep", copy)
    part = next((copy / "metadata").glob("part-*"))
    text = part.read_text().replace("org.apache.spark.ml.PipelineModel", "pyspark.ml.pipeline.PipelineModel")
    for old in (copy / "metadata").glob("*part*"):
        old.unlink()
    for old in (copy / "metadata").glob(".*crc"):
        old.unlink()
    part.write_text(text)
    with pytest.raises(RequestRefused, match="must be a PipelineModel that Spark saved"):
        prepare_model(nasty, request(tmp_path, "copy").model)


def test_the_allow_list_names_classes_of_spark(spark: SparkSession) -> None:
    for name in (*INDEXERS, *TRANSFORMERS, *PREDICTORS):
        assert spark._jvm.java.lang.Class.forName(name).getName() == name
