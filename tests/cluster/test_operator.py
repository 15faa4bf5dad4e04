"""The operator on a Spark cluster and a PostgreSQL ledger, both found through Airflow's connections alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.sensors.budget import PrivacyBudgetSensor
from spark_jobs.contract import Release
from tests.support.accounts import open_bound
from tests.support.airflow import make_context
from tests.support.cluster import LOOPBACK, SparkCluster

pytestmark = [pytest.mark.cluster, pytest.mark.postgres, pytest.mark.slow, pytest.mark.verify]


def test_operator_releases_by_its_connections(
    cluster: SparkCluster,
    postgres_url: str,
    tmp_path: Path,
    connect: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(11)
    score = generator.beta(2, 3, 2_000)
    table = tmp_path / "lake" / "visits"
    (table / "v1").mkdir(parents=True)
    rows = {"score": score, "any_visit": (generator.random(score.size) < score).astype(np.int64)}
    pq.write_table(pa.table(rows), table / "v1" / "part-0.parquet")

    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]:
        monkeypatch.delenv(name)
    for name, value in cluster.environment().items():
        monkeypatch.setenv(name, value)
    master = urlsplit(cluster.master)
    settings = {"spark.driver.host": LOOPBACK, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    connect(
        "spark_default",
        conn_type="spark",
        host=f"spark://{master.hostname}",
        port=master.port,
        extra={"conf": settings},
    )
    connect("privacy_ledger_default", conn_type="privacy_ledger", extra={"url": postgres_url, "deployment": "lab"})
    ledger = PrivacyLedger(postgres_url)
    ledger.migrate()
    open_bound(ledger, "visits", epsilon="1.5", table=table, output=tmp_path / "releases")

    release = ReleaseDiagnosticsOperator(
        task_id="release",
        account="visits",
        table={"path": str(table), "snapshot": {"path_version": "v1"}},
        label="any_visit",
        model={"kind": "columns", "basis": "public", "score": "score"},
        diagnostics="roc_curve",
        epsilon="1",
        output=str(tmp_path / "releases"),
        runner="spark_submit",
        private_dir=str(tmp_path / "private"),
    )
    sensor = PrivacyBudgetSensor(task_id="budget", account="visits", epsilon="1", release_task_id="release")
    launched = cluster.logs["worker-0"].read_text().count("Asked to launch executor")
    assert sensor.poke(make_context()) is True
    published = release.execute(make_context())
    assert cluster.logs["worker-0"].read_text().count("Asked to launch executor") == launched + 1

    assert published["key"].startswith("lab/visits/")
    manifest = Release.from_json(Path(published["uri"], "release.json").read_bytes())
    assert manifest.key == published["key"]
    [charge] = ledger.history("visits")
    assert charge.state is ChargeState.COMMITTED
    assert str(ledger.remaining("visits").epsilon) == "0.5"
    assert sensor.poke(make_context()) is True
    assert PrivacyBudgetSensor(task_id="b", account="visits", epsilon="1").poke(make_context()) is False
    ledger.close()
