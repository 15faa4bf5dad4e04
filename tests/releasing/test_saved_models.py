"""A saved pipeline is bound by its content before anything is charged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.releasing.saved_models import with_saved_model
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.pipelines import read_pipeline
from tests.support.ledgers import new_ledger
from tests.support.requests import a_request

UIDS = ("VectorAssembler_1", "LogisticRegression_2")


@pytest.fixture
def ledger(tmp_path: Path) -> PrivacyLedger:
    made = new_ledger(tmp_path / "ledger.db")
    made.open_account("visits", epsilon="3", tables=[str(tmp_path / "lake" / "visits")])
    return made


def saved(folder: Path) -> Path:
    """Files as Spark lays them out, hidden ones among them."""
    whole = {"class": "org.apache.spark.ml.PipelineModel", "paramMap": {"stageUids": UIDS}}
    write(folder / "metadata" / "part-00000", json.dumps(whole))
    write(folder / "metadata" / "_SUCCESS", "")
    for place, uid in enumerate(UIDS):
        stage = {"class": f"org.apache.spark.ml.Some{place}", "uid": uid, "paramMap": {}}
        write(folder / "stages" / f"{place}_{uid}" / "metadata" / "part-00000", json.dumps(stage) + "\n")
    write(folder / "stages" / f"1_{UIDS[1]}" / "data" / "part-00000.parquet", "PAR1")
    write(folder / "stages" / f"1_{UIDS[1]}" / "data" / ".part-00000.parquet.crc", "sum")
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def asked(path: object, **model: Any) -> ReleaseRequest:
    return a_request(account="visits", model={"kind": "spark_ml", "basis": "public", "path": str(path), **model})


def test_the_hash_of_its_files_is_part_of_the_requests(ledger: PrivacyLedger, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    first = with_saved_model(asked(folder), ledger)
    assert getattr(first.model, "sha256", None) == read_pipeline(str(folder)).sha256
    assert with_saved_model(first, ledger) == with_saved_model(asked(folder), ledger) == first
    write(folder / "stages" / f"1_{UIDS[1]}" / "data" / ".part-00000.parquet.crc", "another sum")
    assert with_saved_model(asked(folder), ledger) == first, "what Spark does not read does not count"
    write(folder / "stages" / f"1_{UIDS[1]}" / "data" / "part-00000.parquet", "PAR2")
    assert with_saved_model(asked(folder), ledger).sha256 != first.sha256
    assert with_saved_model(asked(folder, sha256="0" * 64), ledger) == asked(folder, sha256="0" * 64)
    assert with_saved_model(a_request(), ledger) == a_request()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("stages/9_VectorAssembler_1/metadata/part-00000", "{}"),
        ("stages/0_VectorAssembler_1/code/part-00000", "x"),
        ("stages/0_VectorAssembler_1/metadata/part-00001", '{"paramMap": {}}'),
        ("stages/0_VectorAssembler_1/metadata/part-00000", '{"paramMap": {"language": "Python"}}'),
        ("stages/0_VectorAssembler_1/metadata/part-00000", "no JSON"),
        ("stages/0_VectorAssembler_1/metadata/part-00000", '{"paramMap": {}}\n{"paramMap": {}}'),
        ("metadata/part-00000", '{"class": "org.apache.spark.ml.PipelineModel", "paramMap": {"stageUids": ["../x"]}}'),
        ("metadata/part-00000", '{"class": "pyspark.ml.pipeline.PipelineModel", "paramMap": {"stageUids": ["a"]}}'),
        ("metadata/part-00000", "[]"),
        ("secret.parquet", "PAR1"),
    ],
)
def test_a_folder_that_holds_anything_else_is_one_refusal(
    ledger: PrivacyLedger, tmp_path: Path, file: str, text: str
) -> None:
    folder, head = saved(tmp_path / "model"), ledger.head()
    write(folder / file, text)
    with pytest.raises(InvalidRequest) as refused:
        with_saved_model(asked(folder), ledger)
    bound = "must hold a readable PipelineModel of Spark's own classes and nothing else"
    remedy = "check the path, and save the fitted pipeline again with its save()"
    assert str(refused.value) == f"model.path: got 'file://{folder}'; {bound}; {remedy}"
    assert ledger.head() == head


def test_links_and_tables_are_no_pipelines(ledger: PrivacyLedger, tmp_path: Path) -> None:
    """Their hash would be an exact figure of somebody's rows."""
    inside = saved(tmp_path / "lake" / "visits" / "model")
    with pytest.raises(InvalidRequest, match="must not lie within the folder of a table"):
        with_saved_model(asked(inside), ledger)
    linked = saved(tmp_path / "model")
    data = linked / "stages" / f"1_{UIDS[1]}" / "data" / "part-00000.parquet"
    data.unlink()
    write(tmp_path / "secret", "rows")
    data.symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidRequest, match="must hold a readable PipelineModel"):
        with_saved_model(asked(linked), ledger)
    with pytest.raises(InvalidRequest, match="model.sha256: is required of a pipeline that is not in a store of"):
        with_saved_model(asked("hdfs://names/models/m"), ledger)
    for path in ("/models/*", "/models/m#x", "models/m", "/models/../m"):
        with pytest.raises(InvalidRequest, match="model.path: got"):
            asked(path)


def test_the_command_prints_the_hash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(tmp_path / "model")
    assert run(app, ["hash-pipeline", str(folder)]) == 0
    assert capsys.readouterr().out == f"{read_pipeline(str(folder)).sha256}\n"
