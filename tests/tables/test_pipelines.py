from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.pipelines import read_pipeline, refused_pipeline
from spark_jobs.tables.pipeline_trees import _require_sound
from spark_jobs.tables.pipelines import INDEXERS, PREDICTORS, TRANSFORMERS
from spark_jobs.tables.scoring import label_and_score, prepare_model
from tests.support.requests import a_request
from tests.support.spark import settings as spark_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify]

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
    from pyspark.ml.classification import LinearSVC, LogisticRegression, NaiveBayes, RandomForestClassifier
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
    double = train.selectExpr("y", "x", "double(n) as n", "c").coalesce(1).cache()

    def save(name: str, *stages: Any) -> None:
        Pipeline(stages=list(stages)).fit(double).save(str(folder / name))

    def assemble(*inputs: str, invalid: str = "keep", output: str = "features") -> Any:
        return VectorAssembler(inputCols=list(inputs), outputCol=output, handleInvalid=invalid)

    def index(invalid: str) -> Any:
        return StringIndexer(inputCol="c", outputCol="ci", handleInvalid=invalid)

    splits = [-math.inf, 2.0, math.inf]
    regression = LogisticRegression(labelCol="y", maxIter=5)  # what is tested is scoring, not the fit
    fitted = regression.fit(assemble("x").transform(double))  # of one feature, whichever it is
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
    save("numbered", StringIndexer(inputCol="n", outputCol="ni", handleInvalid="keep"), assemble("ni"), fitted)
    save("linear", assemble("x"), LinearRegression(labelCol="y"))
    save("forest", assemble("x", "n"), RandomForestClassifier(labelCol="y", numTrees=2, seed=1))
    save("svc", assemble("x"), LinearSVC(labelCol="y", maxIter=5))
    save("error_assembler", assemble("x", invalid="error"), fitted)
    save("error_indexer", index("error"), assemble("ci"), fitted)
    save("sql", SQLTransformer(statement="select *, x + 1 as z from __THIS__"), assemble("z"), fitted)
    save("bayes", assemble("n"), NaiveBayes(labelCol="y"))
    bounded = Bucketizer(inputCol="x", outputCol="bucket", splits=[0.0, 2.0, 9.0], handleInvalid="keep")
    save("bounded", bounded, assemble("bucket"), fitted)
    save("headless", assemble("x"))
    save("three", assemble("x"), LogisticRegression(labelCol="n", maxIter=5))
    save("label", index("keep"), assemble("ci"), LogisticRegression(labelCol="y", predictionCol="y2", maxIter=5))
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


@pytest.mark.halved
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
        ("nowhere", "must hold a readable PipelineModel"),
        ("rich/stages", "must hold a readable PipelineModel"),
        ("error_assembler", "VectorAssembler that fails on unknown values (handleInvalid='error'); set"),
        ("error_indexer", "StringIndexerModel that fails on unknown values"),
        ("sql", "must not contain a SQLTransformer"),
        ("bayes", "must not contain a NaiveBayesModel"),
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
    with pytest.raises(InvalidRequest) as refused:
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
        pytest.param(["y", "x", "n", "c", "1 as ci"], None, marks=pytest.mark.soak),
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
        with pytest.raises(InvalidRequest) as refused:
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
    with pytest.raises(InvalidRequest, match="must not contain a Spy"):
        prepare_model(nasty, request(tmp_path, "copy").model)


SPY = """
import pathlib
from pyspark.ml.util import DefaultParamsReadable
from pyspark.ml import Transformer

class Spy(Transformer, DefaultParamsReadable):
    pass

pathlib.Path({mark!r}).write_text("imported")
"""


def write_metadata(folder: Path, metadata: dict[str, Any]) -> None:
    """Replace the metadata of a saved stage or pipeline."""
    for old in folder.glob("*"):
        old.unlink()
    for old in folder.glob(".*"):
        old.unlink()
    (folder / "part-00000").write_text(json.dumps(metadata))


def metadata_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads(next(folder.glob("part-*")).read_text()))


def test_no_module_that_a_saved_pipeline_names_is_imported(
    models: Path, nasty: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two folders of one uid: one passed the check of classes, and the other was imported by the name in it."""
    copy, mark = tmp_path / "copy", tmp_path / "mark"
    shutil.copytree(models / "keep", copy)
    (tmp_path / "spy_module.py").write_text(SPY.format(mark=str(mark)))
    monkeypatch.syspath_prepend(str(tmp_path))
    whole = metadata_of(copy / "metadata")
    whole["paramMap"]["language"] = "Python"
    write_metadata(copy / "metadata", whole)
    first = next(copy.glob("stages/0_*"))
    twin = copy / "stages" / f"9{first.name[1:]}"
    shutil.copytree(first, twin)
    spy = {
        "class": "spy_module.Spy",
        "uid": first.name[2:],
        "paramMap": {},
        "defaultParamMap": {},
        "language": "Python",
    }
    write_metadata(first / "metadata", spy)
    with pytest.raises(
        InvalidRequest, match="must hold a readable PipelineModel of Spark's own classes and nothing else"
    ):
        prepare_model(nasty, request(tmp_path, "copy").model)
    assert not mark.exists()


@pytest.mark.parametrize(
    "fault",
    [
        "another folder",
        "another stage",
        "language",
        "language of a stage",
        "two files",
        "a broken file",
        "no JSON",
        "class",
    ],
)
def test_whatever_is_wrong_with_a_saved_pipeline_is_one_refusal(
    models: Path, nasty: DataFrame, tmp_path: Path, fault: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(models / "keep", copy)
    stage = next(copy.glob("stages/1_*"))
    whole, last = metadata_of(copy / "metadata"), metadata_of(stage / "metadata")
    match fault:
        case "another folder":
            (copy / "extra").mkdir()
            (copy / "extra" / "part-00000").write_text("x")
        case "another stage":
            shutil.copytree(stage, copy / "stages" / "2_other")
        case "language":
            write_metadata(copy / "metadata", {**whole, "paramMap": {**whole["paramMap"], "language": "Python"}})
        case "language of a stage":
            write_metadata(stage / "metadata", {**last, "language": "Python"})
        case "two files":
            (stage / "metadata" / "part-00001").write_text(json.dumps(last))
        case "a broken file":
            next((stage / "data").glob("part-*")).write_bytes(b"PAR1")
        case "no JSON":
            write_metadata(copy / "metadata", {})
        case "class":
            # another class of the list than the data is of
            write_metadata(stage / "metadata", {**last, "class": PREDICTORS[0]})
    with pytest.raises(InvalidRequest) as refused:
        prepare_model(nasty, request(tmp_path, "copy").model)
    assert str(refused.value) == str(refused_pipeline(f"file://{copy}"))


def test_the_request_binds_what_the_pipeline_holds(models: Path, nasty: DataFrame, tmp_path: Path) -> None:
    """The worker's hash is the application's, and another content is refused."""
    copy = tmp_path / "copy"
    shutil.copytree(models / "keep", copy)
    digest = read_pipeline(str(copy)).sha256
    assert digest == read_pipeline(f"file://{copy}").sha256 != read_pipeline(str(models / "skip")).sha256
    asked = request(tmp_path, "copy", sha256=digest)
    assert asked.sha256 != request(tmp_path, "copy", sha256="0" * 64).sha256
    assert len(scores(nasty, asked)) == len(NASTY)
    shutil.rmtree(copy)
    shutil.copytree(models / "skip", copy)
    with pytest.raises(InvalidRequest, match="must contain the pipeline of the request"):
        prepare_model(nasty, asked.model)


@pytest.mark.parametrize("fault", ["feature", "child", "deep", "stats"])
def test_a_tree_that_fails_for_some_rows_alone_is_refused(models: Path, tmp_path: Path, fault: str) -> None:
    """Each of these gave a score for the made-up rows, and an exception for a row that reached the broken node."""
    nodes = [(0, 1, 2, 0, 2), (1, -1, -1, -1, 2), (2, 3, 4, 0, 2), (3, -1, -1, -1, 2), (4, -1, -1, -1, 2)]
    _require_sound(nodes, 1)
    broken = {
        "feature": [*nodes[:2], (2, 3, 4, 1, 2), *nodes[3:]],
        "child": [*nodes[:2], (2, 1, 4, 0, 2), *nodes[3:]],
        "deep": [*((place, place + 1, 32, 0, 2) for place in range(31)), (31, -1, -1, -1, 2), (32, -1, -1, -1, 2)],
        "stats": nodes[:-1],
    }[fault]
    with pytest.raises(ValueError, match=r"node|deep"):
        _require_sound(broken, 1)


def test_a_forest_whose_rarest_node_reads_no_feature_is_refused(
    spark: SparkSession, models: Path, nasty: DataFrame, tmp_path: Path
) -> None:
    from pyspark.sql import functions as sf

    copy = tmp_path / "copy"
    shutil.copytree(models / "forest", copy)
    assert len(scores(nasty, request(tmp_path, "copy"))) == len(NASTY)
    data = next(copy.glob("stages/1_*/data"))
    nodes = spark.read.parquet(str(data)).localCheckpoint()
    split = sf.col("nodeData.split").withField("featureIndex", sf.lit(7))
    rare = (sf.col("nodeData.leftChild") != -1) & (sf.col("nodeData.id") > 0)
    assert nodes.where(rare).count() > 0
    shutil.rmtree(data)
    spoilt = sf.when(rare, sf.col("nodeData").withField("split", split)).otherwise(sf.col("nodeData"))
    nodes.withColumn("nodeData", spoilt).coalesce(1).write.parquet(str(data))
    with pytest.raises(InvalidRequest, match="with trees as Spark saves them|for every row"):
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
    with pytest.raises(InvalidRequest, match="must hold a readable PipelineModel"):
        prepare_model(nasty, request(tmp_path, "copy").model)


def test_the_allow_list_names_classes_of_spark(spark: SparkSession) -> None:
    for name in (*INDEXERS, *TRANSFORMERS, *PREDICTORS):
        assert spark._jvm.java.lang.Class.forName(name).getName() == name
