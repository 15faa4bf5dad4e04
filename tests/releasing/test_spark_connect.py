"""What a Spark Connect server does not run is refused before anything is charged, each in one line."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from dp_operators.releasing.spark_connect import SparkConnectRunner
from spark_jobs.contract import InvalidRequest
from tests.support.release_lab import make_request


@pytest.fixture
def runner(tmp_path: Path) -> SparkConnectRunner:
    return SparkConnectRunner(remote="sc://127.0.0.1:1", private_dir=tmp_path / "private")


def refusal(runner: SparkConnectRunner, request: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        runner.check(request)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_saved_pipeline_is_refused(runner: SparkConnectRunner) -> None:
    pipeline = {"kind": "spark_ml", "path": "/models/m", "basis": "public"}
    assert refusal(runner, make_request("/out", model=pipeline)) == (
        "model: got 'spark_ml'; must not be a saved pipeline with Spark Connect, because its server cannot "
        "test the pipeline before rows are read; name a connection of another type"
    )


def test_table_of_a_database_is_refused(runner: SparkConnectRunner) -> None:
    bounds = {"column": "id", "lower": 1, "upper": 9, "partitions": 2}
    table = {"name": "jdbc:lake.public.visits", "partitioning": bounds, "snapshot": {"partition": {"version": "1"}}}
    assert refusal(runner, make_request("/out", table=table)) == (
        "table.name: got 'jdbc:lake.public.visits'; must not be a table of a database with a Spark Connect server, "
        "which has no place to hold a snapshot of the database; name a connection of another type"
    )


def test_stream_is_refused(runner: SparkConnectRunner) -> None:
    from tests.support.streams import a_stream

    line = refusal(runner, a_stream())
    assert line.startswith("runner: got 'a Spark Connect server'; must not be Spark Connect for a stream")


def test_server_that_is_away_is_refused(runner: SparkConnectRunner) -> None:
    line = refusal(runner, make_request("/out"))
    assert line.startswith("spark_conn_id: got 'sc://127.0.0.1:1'; must be a Spark Connect server that answers")


def test_missing_client_is_refused(runner: SparkConnectRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "grpc_status" else installed(name))
    assert refusal(runner, make_request("/out")).endswith("install dp-diagnostics[connect]")
