"""The example stream, really run: each run releases the hours that are due, counted by Spark, and one charge pays."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from spark_jobs.contract.stream_keys import STREAM_KEYS_FILE_VARIABLE
from tests.support.airflow import run_dag, states

FILE = Path(__file__).parents[2] / "dags" / "private_count_stream.py"

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_two_days_and_a_repeated_one(
    tmp_path: Path, airflow_ledger: PrivacyLedger, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DP_DEMO_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("DP_DEMO_OUTPUT", str(tmp_path / "releases"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    monkeypatch.setenv(STREAM_KEYS_FILE_VARIABLE, str(tmp_path / "stream.keys"))
    from examples.demo import setting

    importlib.reload(setting)
    spec = importlib.util.spec_from_file_location("private_count_stream", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for day, released in ((4, 72), (5, 24), (5, 0)):
        run = run_dag(module.dag, logical_date=dt.datetime(2026, 1, day, tzinfo=dt.UTC))
        assert states(run) == {"prepare": "success", "count": "success"}
        [count] = [instance for instance in run.get_task_instances() if instance.task_id == "count"]
        assert count.xcom_pull(task_ids="count")["released"] == released
    [charge] = airflow_ledger.history("arrivals")
    assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
    assert airflow_ledger.remaining("arrivals").epsilon == 0
    [described] = (tmp_path / "releases" / "arrivals").glob("*/stream.json")
    root = described.parent
    tables = [pq.read_table(file).to_pandas() for file in sorted((root / "steps").glob("*.parquet"))]
    assert [len(table) for table in tables] == [72, 24]
    night, day_time = (tables[0].query(f"step % 24 in {hours}")["noisy"].mean() for hours in ([2, 3], [9, 10]))
    assert day_time > night + 5  # a daily cycle far above the noise
    assert (root / "report.html").exists()
    assert (tmp_path / "stream.keys").stat().st_mode & 0o077 == 0
