"""Releases over a real Spark Connect server: the same statistics, the same protocol, and the same boundary."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.release_check import check_release
from dp_operators.releasing import ChargedRequest, Published, ReleaseFailed, RunState, release
from dp_operators.releasing.spark_connect import SparkConnectRunner
from spark_jobs.contract import InvalidRequest, PrivacyUnit, ReleaseRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.suites.backends import eventually
from tests.support.accounts import open_bound
from tests.support.connect_server import BOUNDARY, ConnectServer, connect_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.verify]

ROWS = 3_000
SALT = "0" * 32
DRAWS = """
import json, sys
from spark_jobs.application.progress import Announcer
from spark_jobs.application.run import make_draw
from spark_jobs.contract import ReleaseRequest
from spark_jobs.mechanisms.noise import SeededNoise

made = []
for document in json.load(open(sys.argv[1])):
    drawn = make_draw(
        ReleaseRequest.parse(document), charge_id=None, noise=SeededNoise(5), master=sys.argv[2] or None,
        announcer=Announcer.for_process(sys.stderr),
    )
    made.append({"measurements": drawn.measurements, "shared": drawn.shared})
print(json.dumps(made, default=str, sort_keys=True))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect"), BOUNDARY) as running:
        yield running


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(7)
    score = generator.beta(2, 3, ROWS)
    rows = pa.table(
        {
            "person": [f"p{i // 3}" for i in range(ROWS)],
            "score": [*map(str, score[:-1]), "none"],
            "outcome": (generator.random(ROWS) < score).astype(np.int64),
            "tract": [f"t{i % 5}" for i in range(ROWS)],
            "x": generator.random(ROWS),
            "y": generator.random(ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("lake") / "people"
    (folder / "v1").mkdir(parents=True)
    for part in range(3):
        pq.write_table(rows.slice(part * ROWS // 3, ROWS // 3), folder / "v1" / f"part-{part}.parquet")
    return folder


def document(table: Path, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "table": {"path": str(table), "snapshot": {"path_version": "v1"}},
        "label": "outcome",
        "model": {"kind": "linear", "basis": "public", "coefficients": {"CAST(score AS DOUBLE)": 1}},
        "diagnostics": "roc_curve",
        "budget": {"epsilon": "1"},
    }
    return {**fields, **changes}


FIT = {"kind": "linear_fit", "features": {"x": [0, 1]}, "outcome": "y", "outcome_bounds": [0, 1]}
LINES = {
    "kind": "linear_regression",
    "x": "x",
    "y": "y",
    "x_bounds": [0, 1],
    "y_bounds": [0, 1],
    "group_by": "tract",
    "groups": [f"t{place}" for place in range(5)],
}
KINDS = (
    {"diagnostics": ["roc_curve", "calibration", "auc"], "unit": {"column": "person", "max_rows": 2}},
    {"diagnostics": [{"kind": "ecdf", "column": "x", "bounds": [0, 1]}, FIT, LINES], "where": "x > 0.1"},
    {"diagnostics": [{"kind": "residual_plot", "outcome": "y", "unit": "0.125"}]},
)


def test_statistics_are_the_same_bit_for_bit_as_those_of_a_session_in_the_process(
    server: ConnectServer, table: Path, tmp_path: Path
) -> None:
    documents = tmp_path / "requests.json"
    documents.write_text(json.dumps([document(table, **changes) for changes in KINDS]))

    def draws(master: str, **variables: str) -> str:
        environment = {**os.environ, "DP_DIAGNOSTICS_SALT": SALT, **variables}
        command = [sys.executable, "-c", DRAWS, str(documents), master]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    over_the_server = draws("", SPARK_REMOTE=server.remote)
    assert over_the_server == draws("local[1]")
    assert len(json.loads(over_the_server)) == len(KINDS)


def test_draft_with_a_saved_pipeline_is_refused_in_one_line(server: ConnectServer, table: Path, tmp_path: Path) -> None:
    model = {"kind": "spark_ml", "basis": "public", "path": str(tmp_path / "model")}
    (tmp_path / "request.json").write_text(json.dumps(document(table, model=model)))
    command = [sys.executable, "-m", "spark_jobs", str(tmp_path / "request.json"), "--output", str(tmp_path / "drafts")]
    environment = {**os.environ, "SPARK_REMOTE": server.remote}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "model.path: got " in done.stderr
    assert "must not be a saved pipeline with Spark Connect" in done.stderr
    assert "Traceback" not in done.stderr


class Lab:
    """An account, and releases of it over a server."""

    def __init__(self, server: ConnectServer, table: Path, folder: Path) -> None:
        self.server, self.table, self.folder = server, table, folder
        self.ledger = PrivacyLedger(f"sqlite:///{folder / 'ledger.db'}")
        self.ledger.migrate()
        unit = PrivacyUnit(column="person", max_rows=2)
        open_bound(self.ledger, "people", epsilon="1.5", table=table, output=folder / "releases", unit=unit)
        self.private = folder / "private"

    def runner(self, **variables: str) -> SparkConnectRunner:
        return SparkConnectRunner(
            remote=f"{self.server.remote}/;user_id=people",
            environment={"DP_DIAGNOSTICS_SALT": SALT, **variables},
            private_dir=self.private,
        )

    def release(self, runner: SparkConnectRunner) -> Published:
        request = ReleaseRequest.parse(
            {
                **document(self.table, unit={"column": "person", "max_rows": 2}),
                "account": "people",
                "output": str(self.folder / "releases"),
            }
        )
        return release(ChargedRequest.of(request, self.ledger, "k"), runner=runner, check=check_release)

    def charges(self) -> list[str]:
        return [str(charge.state) for charge in self.ledger.history("people")]


def test_killed_run_ends_on_the_server_and_the_next_attempt_pays_no_second_draw(
    server: ConnectServer, table: Path, tmp_path: Path
) -> None:
    lab = Lab(server, table, tmp_path)
    gate = tmp_path / "gate"
    runner = lab.runner(**{VARIABLE: f"before_count:pause:{gate}"})
    submitted: list[Any] = []
    submit = runner.submit
    object.__setattr__(runner, "submit", lambda submission: submitted.append(submit(submission)) or submitted[-1])
    closed = server.log.read_text().count("Closing session")
    with ThreadPoolExecutor(1) as worker:
        attempt = worker.submit(lab.release, runner)
        eventually(gate.with_suffix(".reached").exists, 240)
        runner.kill(submitted[0])
        with pytest.raises(ReleaseFailed):
            attempt.result()
    assert runner.look(submitted[0]) is RunState.ENDED
    eventually(lambda: server.log.read_text().count("Closing session") > closed)
    assert lab.charges() == ["reserved"]
    made = lab.release(lab.runner())
    assert lab.charges() == ["committed"]
    assert lab.release(lab.runner()).manifest_sha256 == made.manifest_sha256
    assert len(lab.charges()) == 1


def test_server_that_would_show_rows_is_refused_and_what_was_reserved_is_given_back(
    table: Path, tmp_path: Path
) -> None:
    with connect_server(tmp_path / "shown", {"spark.ui.port": "0"}) as shown:
        lab = Lab(shown, table, tmp_path)
        with pytest.raises(InvalidRequest) as refused:
            lab.release(lab.runner())
    assert str(refused.value) == (
        "spark_conn_id: must be a Spark Connect server that was started with spark.ui.enabled=false and "
        "spark.io.encryption.enabled=true; start the server with these settings, because no client can set them"
    )
    assert lab.charges() == ["void"]


def test_server_that_is_away_is_refused_before_anything_is_reserved(
    server: ConnectServer, table: Path, tmp_path: Path
) -> None:
    gone = ConnectServer(port=1, log=server.log)
    lab = Lab(gone, table, tmp_path)
    began = time.monotonic()
    with pytest.raises(InvalidRequest, match=r"got 'sc://127\.0\.0\.1:1'; must be a Spark Connect server that answers"):
        lab.release(lab.runner())
    assert time.monotonic() - began < 60
    assert lab.charges() == []
