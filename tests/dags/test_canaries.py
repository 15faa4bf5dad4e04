"""Nothing that a row holds reaches Airflow: not its log, XCom, rendered templates or database, whatever goes wrong."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.notifications.budget import PrivacyBudgetNotifier
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.tasks.events import ReleaseEvent
from spark_jobs.contract.store.layout import SALT_VARIABLE
from tests.support.accounts import open_bound
from tests.support.airflow import HOME, run_dag, states

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

# put together here, because Airflow's database holds the text of the file that a DAG is in
BIRD = "-".join(["canary", "bird"])
DIGITS = "".join(["98765", "4321987"])
CANARIES = (BIRD, DIGITS)
PUBLIC = {"account", "key", "cost", "left", "status", "manifest_sha256"}
LABELS = ["yes", "no", f"{BIRD}-label", None]
SCORES = [float(f"0.{DIGITS}"), float(f"7.{DIGITS}"), float("-inf"), float("nan"), None, 0.25]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table whose every value is a canary, or does not fit, or both."""
    import pandas as pd

    rows = [
        {
            "person": f"{BIRD}-{index // 2}",
            "outcome": LABELS[index % len(LABELS)],
            "score": SCORES[index % len(SCORES)],
            "weight": BIRD,
        }
        for index in range(240)
    ]
    folder = tmp_path / "lake" / "people" / "v1"
    folder.mkdir(parents=True)
    pd.DataFrame(rows).to_parquet(folder / "part-0.parquet", index=False)
    return folder.parent


def make_dag(dag_id: str, table: Path, output: Path, **fields: Any) -> DAG:
    given = {
        "account": "people",
        "table": {"path": str(table), "snapshot": {"path_version": "v1"}},
        "label": {"column": "outcome", "positive": "yes", "negative": "no"},
        "model": {"kind": "columns", "basis": "public", "score": "score"},
        "unit": {"column": "person", "max_rows": 2},
        "diagnostics": "roc_curve",
        "epsilon": "0.5",
        "output": str(output),
        "private_dir": str(output.parent / "private"),
        "master": "local[1]",
    }
    with DAG(dag_id, schedule=None) as dag:
        ReleaseDiagnosticsOperator(task_id="release", **{**given, **fields})
    return dag


@pytest.fixture
def account(
    airflow_ledger: PrivacyLedger, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PrivacyLedger:
    monkeypatch.setenv(SALT_VARIABLE, "a salt of thirty-two bytes or more, secret")
    unit = {"column": "person", "max_rows": 2}
    open_bound(airflow_ledger, "people", epsilon="5", unit=unit, table=table, output=tmp_path / "releases")
    return airflow_ledger


def database_text() -> str:
    with sqlite3.connect(HOME / "airflow.db") as database:
        return "\n".join(database.iterdump())


def found(texts: dict[str, str]) -> set[tuple[str, str]]:
    return {(where, canary) for where, text in texts.items() for canary in CANARIES if canary in text}


def events(uri: str) -> list[str]:
    """The asset events of releases into a folder, as Airflow's database has them."""
    with sqlite3.connect(HOME / "airflow.db") as database:
        query = "SELECT asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_event.asset_id WHERE uri = ?"
        return [extra for (extra,) in database.execute(query, (uri,))]


@pytest.fixture
def metrics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to Airflow's metrics, as text."""
    sent: list[str] = []
    for name in ("incr", "gauge"):
        monkeypatch.setattr(
            f"dp_operators.tasks.metrics.Stats.{name}", lambda *given, **named: sent.append(f"{given} {named}")
        )
    return sent


@pytest.fixture
def facets(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The facets of each release, as text; the same that OpenLineage's provider asks for."""
    from dp_operators.lineage.facets import cost_of, guarantee_of
    from dp_operators.operators.release import count_release

    made: list[str] = []

    def describe(event: ReleaseEvent) -> None:
        made.append(json.dumps([cost_of(event), guarantee_of(event), event.columns]))
        count_release(event)

    monkeypatch.setattr("dp_operators.operators.release.count_release", describe)
    return made


@pytest.mark.usefixtures("airflow_database")
def test_values_that_do_not_fit_reach_nobody(
    account: PrivacyLedger,
    table: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    metrics: list[str],
    facets: list[str],
) -> None:
    lines: list[str] = []
    notifier = PrivacyBudgetNotifier(account="people", at=("0.05",), notify=lines.append)
    run = run_dag(make_dag("canary_good", table, tmp_path / "releases", on_success_callback=notifier))
    assert states(run) == {"release": "success"}
    [manifest] = tmp_path.glob("releases/*/release.json")
    curve = json.loads(manifest.read_text())["results"]["roc_curve"]
    # noise decides whether so few rows have an AUC
    area = (
        "undefined"
        if curve["auc"] is None
        else "{:.3f} ({:.3f} to {:.3f})".format(curve["auc"], *curve["auc_interval"])
    )
    assert lines == [f"account people is past 5% of its privacy budget: 10% is spent, after a release with AUC {area}"]
    [event] = events(f"file://{tmp_path}/releases")
    [facet] = facets
    assert "manifest_sha256" in event
    assert any("privacy.share_left" in line for line in metrics)
    # beside the canaries: released figures, budgets, statuses, names and hashes are all that is in them
    assert set(json.loads(event)) == PUBLIC | {"share_left", "uri", "figures"}
    assert set(json.loads(facet)[0]) == PUBLIC
    told = {"event": event, "facet": facet, "metrics": "\n".join(metrics)}
    assert found(told) == set()
    [folder] = [path.parent for path in tmp_path.glob("releases/*/release.json")]
    texts = {path.name: path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()}
    assert "release.json" in texts
    assert found({"log": "".join(capfd.readouterr()), "database": database_text(), **texts}) == set()
    assert account.history("people")[0].state is ChargeState.COMMITTED


@pytest.mark.usefixtures("airflow_database")
def test_application_that_is_killed_tells_nobody_why(
    account: PrivacyLedger,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DP_FAILPOINT", "before_draw")  # the exact counts are in its memory
    run = run_dag(make_dag("canary_killed", table, tmp_path / "releases"))
    assert states(run) == {"release": "failed"}
    log = "".join(capfd.readouterr())
    assert "the application ended without a draft" in log
    assert found({"log": log, "database": database_text()}) == set()
    assert account.history("people")[0].state is ChargeState.RESERVED
    assert list(tmp_path.glob("releases/*/release.json")) == []


@pytest.mark.usefixtures("airflow_database")
def test_schema_that_does_not_fit_is_told_without_its_values(
    account: PrivacyLedger, table: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # every value of that column is the canary
    model = {"kind": "columns", "basis": "public", "score": "weight"}
    run = run_dag(make_dag("canary_schema", table, tmp_path / "releases", model=model))
    assert states(run) == {"release": "failed"}
    log = "".join(capfd.readouterr())
    assert "AirflowFailException" in log
    assert "weight" in log
    assert found({"log": log, "database": database_text()}) == set()
    # the refusal came before any noise, so the reservation was given back
    assert account.remaining("people").epsilon == 5
