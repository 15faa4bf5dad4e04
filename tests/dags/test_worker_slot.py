"""What a deferred release holds a worker's slot for: its two halves, by what they import and compute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dp_operators.budget import PrivacyLedger
from tests.dags import test_mapped_releases
from tests.dags.test_mapped_releases import TABLE, run_application
from tests.support.accounts import open_bound
from tests.support.http_places import Master
from tests.support.repository import ROOT

pytestmark = [pytest.mark.airflow, pytest.mark.slow]

SECONDS = 3.0
"""Of a processor, for one half: it is 0.7 on a quiet machine, and more where others push caches out."""
HEAVY = ("great_expectations", "matplotlib", "numpy", "opendp", "pandas", "pyarrow", "pyspark", "scipy", "sqlglot")
HALF = """
import datetime as dt, json, sys, time
from collections import defaultdict
from types import SimpleNamespace

from airflow.sdk import DAG
from airflow.providers.common.compat.sdk import TaskDeferred
from airflow.sdk.execution_time import task_runner

before = time.process_time()
from dp_operators.operators.release import ReleaseDiagnosticsOperator

with DAG("many", schedule=None):
    task = ReleaseDiagnosticsOperator(
        task_id="release", account="visits", epsilon="0.5", label="visit", diagnostics=["roc_curve", "calibration"],
        table={"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
        model={"kind": "columns", "score": "score", "basis": "public"},
        output=sys.argv[1], runner="cluster", spark_conn_id="farm", deferrable=True,
    )
day = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
run = SimpleNamespace(
    run_id="scheduled__2026-11-20", run_type="scheduled", logical_date=day, data_interval_start=day,
    data_interval_end=day, partition_key=None,
)
context = {
    "ti": SimpleNamespace(dag_id="many", task_id="release", map_index=-1, try_number=1),
    "dag_run": run, "params": {}, "outlet_events": defaultdict(lambda: SimpleNamespace(extra={})),
}
try:
    ended = task.resume(context, {"run": 1}) if len(sys.argv) > 2 else task.execute(context)
except TaskDeferred:
    ended = None
seconds = time.process_time() - before
print(json.dumps({"ended": ended, "seconds": seconds, "modules": sorted(sys.modules)}))
"""

master = test_mapped_releases.master


def test_both_halves_of_a_deferred_release_import_nothing_heavy_and_take_seconds(
    master: Master, tmp_path: Path
) -> None:
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    ledger.migrate()
    open_bound(ledger, "visits", epsilon="1", table=TABLE, output=tmp_path / "releases")
    ledger.close()
    port = int(master.server.url.rpartition(":")[2])
    farm: dict[str, Any] = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": 7077}
    farm["extra"] = {"deploy-mode": "cluster", "rest-port": port}
    paying = {"conn_type": "privacy_ledger", "extra": {"path": str(tmp_path / "ledger.db")}}
    environment = {
        **os.environ,
        "AIRFLOW_CONN_FARM": json.dumps(farm),
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps(paying),
    }

    def half(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-c", HALF, str(tmp_path / "releases"), *words]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return dict(json.loads(done.stdout.splitlines()[-1]))

    first = half()
    assert first["ended"] is None
    run_application(master.created[0])
    [driver] = master.drivers
    master.drivers[driver] = "FINISHED"
    second = half("resume")
    assert set(second["ended"]["status"]) == {"roc_curve", "calibration"}
    for name, part in {"before": first, "after": second}.items():
        print(f"{name}: {part['seconds']:.2f} s of a processor, {len(part['modules'])} modules")
        assert [module for module in HEAVY if module in part["modules"]] == []
        assert part["seconds"] < SECONDS
