"""Airflow for tests: a home of its own, connections from the environment, and DAGs that run in this process.

It is loaded before any test, because Airflow reads its settings once, when it is first imported.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG

    from dp_operators.budget import PrivacyLedger

BUNDLE = "tests"
RUN_DATE = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)


def _settle_in() -> Path:
    if "airflow" in sys.modules:
        raise RuntimeError("Airflow was imported before it was given a home of its own")
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:
        del os.environ[name]
    home = Path(tempfile.mkdtemp(prefix="airflow-for-tests-"))
    (home / "dags").mkdir()
    os.environ |= {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",
    }
    return home


HOME = _settle_in()


def pytest_sessionfinish() -> None:
    """Remove Airflow's home; a worker of pytest-xdist has no other end at which it could."""
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """A migrated metadata database in the tests' own home."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Defines an Airflow connection for one test: ``connect("some_id", conn_type=..., extra={...})``."""

    def define(conn_id: str, **fields: Any) -> None:
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(fields))

    return define


@pytest.fixture
def airflow_ledger(tmp_path: Path, connect: Callable[..., None]) -> PrivacyLedger:
    """A new ledger without accounts, behind the connection ``privacy_ledger_default``."""
    from tests.support.ledgers import new_ledger

    path = tmp_path / "ledger.db"
    connect("privacy_ledger_default", conn_type="privacy_ledger", extra={"path": str(path)})
    return new_ledger(path)


def make_context(
    *,
    dag_id: str = "visits",
    task_id: str = "release",
    map_index: int = -1,
    run_type: str = "scheduled",
    run_id: str = "scheduled__2026-11-20",
    interval: tuple[dt.datetime, dt.datetime] | None = (RUN_DATE, RUN_DATE + dt.timedelta(days=1)),
    partition_key: str | None = None,
    **params: Any,
) -> Any:
    """What a task sees of its run, as far as this provider looks at it."""
    start, end = interval or (None, None)
    run = SimpleNamespace(
        run_id=run_id,
        run_type=run_type,
        logical_date=start,
        data_interval_start=start,
        data_interval_end=end,
        partition_key=partition_key,
    )
    instance = SimpleNamespace(dag_id=dag_id, task_id=task_id, map_index=map_index, try_number=1)
    return {"ti": instance, "dag_run": run, "params": params}


def run_dag(dag: DAG, *, logical_date: dt.datetime = RUN_DATE) -> DagRun:
    """Run ``dag`` to its end in this process; for the same date again, clear that run and run it once more."""
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    from tests.support.dag_bags import DagBag, sync_bag_to_db

    with create_session() as session:
        session.merge(DagBundleModel(name=BUNDLE))
    bag = DagBag(dag_folder=os.devnull)
    bag.bag_dag(dag)
    sync_bag_to_db(bag, BUNDLE, None)
    return dag.test(logical_date=logical_date, run_after=logical_date)


def states(run: DagRun) -> dict[str, str]:
    """The state that each task of a run ended in."""
    return {instance.task_id: str(instance.state) for instance in run.get_task_instances()}
