"""A charged release on a Spark cluster of separate processes, paid for by a PostgreSQL ledger: what compose starts."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.release_check import check_release
from dp_operators.releasing import ChargedRequest, Published, SparkSubmitRunner, release
from spark_jobs.contract import PrivacyUnit, Release, ReleaseRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.support.accounts import open_bound
from tests.support.cluster import LOOPBACK, SparkCluster

pytestmark = [pytest.mark.cluster, pytest.mark.postgres, pytest.mark.slow, pytest.mark.verify]

ROWS, ROWS_OF_A_PERSON = 6_000, 3
CANARY = "canary-8d2f61"
"""A value of the table that must not be seen outside the boundary."""
ACCOUNT = "people"
GATE = "gate"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scored rows of people with three rows each, in several files; one score is no number."""
    generator = np.random.default_rng(7)
    score = generator.beta(2, 3, ROWS)
    rows = pa.table(
        {
            "person": [f"{CANARY}-{i // ROWS_OF_A_PERSON}" for i in range(ROWS)],
            "score": [*map(str, score[:-1]), CANARY],
            "outcome": (generator.random(ROWS) < score).astype(np.int64),
        }
    )
    folder = tmp_path_factory.mktemp("lake") / "people"
    (folder / "v1").mkdir(parents=True)
    for part in range(4):
        pq.write_table(rows.slice(part * ROWS // 4, ROWS // 4), folder / "v1" / f"part-{part}.parquet")
    return folder


def request_for(table: Path, output: Path, *, epsilon: str = "1") -> ReleaseRequest:
    return ReleaseRequest.parse(
        {
            "account": ACCOUNT,
            "table": {"path": str(table), "snapshot": {"path_version": "v1"}},
            "label": "outcome",
            "model": {
                "kind": "linear",
                "basis": "public",
                "coefficients": {"CAST(score AS DOUBLE)": 1},
            },
            "unit": {"column": "person", "max_rows": 2},
            "diagnostics": "roc_curve",
            "budget": {"epsilon": epsilon},
            "output": str(output),
        }
    )


def runner_on(cluster: SparkCluster, private: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSubmitRunner:
    """The runner of a worker whose environment is the cluster's, and nothing else of Spark's."""
    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        monkeypatch.delenv(name)
    return SparkSubmitRunner(
        master=cluster.master,
        conf={"spark.driver.host": LOOPBACK, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"},
        environment={
            **cluster.environment(),
            "DP_DIAGNOSTICS_SALT": "0" * 32,
            VARIABLE: f"before_count:pause:{private / GATE}",
        },
        private_dir=private,
    )


def executors_of(cluster: SparkCluster) -> list[psutil.Process]:
    """The executors that the cluster's worker has started and that still run."""
    found = []
    for process in psutil.Process(cluster.daemons["worker-0"].pid).children(recursive=True):
        with suppress(psutil.Error):  # it may end while it is looked at
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline():
                found.append(process)
    return found


def lose_the_executor(cluster: SparkCluster, gate: Path) -> int:
    """Wait until the application is about to count, kill its executor, and let it go on; how many were killed."""
    try:
        deadline = time.monotonic() + 120
        reached = gate.with_suffix(".reached")
        while not (reached.exists() and executors_of(cluster)) and time.monotonic() < deadline:
            time.sleep(0.2)
        lost = executors_of(cluster)
        for process in lost:
            process.kill()
        return len(lost)
    finally:
        gate.touch()


def test_release_on_a_cluster_that_loses_an_executor_is_paid_for_once_and_tells_nothing_else(
    cluster: SparkCluster, table: Path, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, private, said = tmp_path / "releases", tmp_path / "private", []
    ledger = PrivacyLedger(postgres_url)
    ledger.migrate()
    unit = PrivacyUnit(column="person", max_rows=2)
    open_bound(ledger, ACCOUNT, epsilon="1.5", table=table, output=output, unit=unit)
    runner = runner_on(cluster, private, monkeypatch)

    def attempt() -> Published:
        request = request_for(table, output)
        return release(
            ChargedRequest.of(request, ledger, "k"), runner=runner, check=check_release, progress=said.append
        )

    def launched() -> int:
        return cluster.logs["worker-0"].read_text().count("Asked to launch executor")

    before = launched()
    with ThreadPoolExecutor(1) as saboteur:
        lost = saboteur.submit(lose_the_executor, cluster, private / GATE)
        made = attempt()
    assert not made.adopted
    assert lost.result() == 1
    assert launched() == before + 2

    manifest = Release.from_json((Path(made.uri) / "release.json").read_bytes())
    (charge,) = ledger.history(ACCOUNT)
    assert (charge.state, charge.manifest_sha256) == (ChargeState.COMMITTED, made.manifest_sha256)
    assert manifest.charge_id == charge.id
    assert manifest.guarantee == "differentially private"
    assert 0.5 < manifest.results["roc_curve"]["auc"] <= 1
    assert str(ledger.remaining(ACCOUNT).epsilon) == "0.5"

    again = attempt()
    assert again.adopted
    assert (again.uri, again.manifest_sha256) == (made.uri, made.manifest_sha256)
    assert launched() == before + 2

    public = [path.read_bytes() for path in output.rglob("*") if path.is_file()]
    assert len(public) > 4
    assert not any(CANARY.encode() in content for content in [*public, "\n".join(said).encode()])
    assert json.loads((Path(made.uri) / "receipt.json").read_text())["charge_id"] == charge.id
    assert private.stat().st_mode & 0o077 == 0
    ledger.close()
