"""The services of docker/compose.yaml, started as processes by docker/run-services, run the demo from end to end.

They are started in the order that `depends_on` asks for, each after the health checks of those that it waits for.

Not from the compose file: PostgreSQL is the tests' own server, and the object store is their stand-in for S3.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from dp_operators.budget import LedgerUnavailable, PrivacyLedger
from spark_jobs.contract.errors import InvalidRequest
from tests.support.live_airflow import _ask, _free_port
from tests.support.postgres import running_postgres
from tests.support.repository import ROOT
from tests.support.s3_server import S3, s3_server

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.airflow,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.verify,
    pytest.mark.timeout(2400),
]

PATIENCE = 1200.0
DAG_ID = "release_diagnostics"


@dataclass(frozen=True, kw_only=True)
class Services:
    """What runs, and where.

    Attributes:
        airflow, reports: URLs.
        folder: with what the containers would have in volumes.
        ledger: URL of the ledger's database, without a user.
        store: the object store.
    """

    airflow: str
    reports: str
    folder: Path
    ledger: str
    store: S3

    @property
    def secrets(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.folder / "env").read_text().splitlines())

    def log(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.log").read_text(errors="replace")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    folder = tmp_path_factory.mktemp("services")
    with running_postgres() as postgres, s3_server() as store:
        for name in ("airflow", "ledger"):
            postgres.execute(f"CREATE ROLE {name} LOGIN CREATEROLE")
            postgres.execute(f"CREATE DATABASE {name} OWNER {name}")
        port = _free_port()
        postgres.listen(port)
        urls = {name: f"postgresql://{name}@127.0.0.1:{port}/{name}" for name in ("airflow", "ledger")}
        command = [sys.executable, str(ROOT / "docker" / "run-services"), str(folder)]
        command += ["--metadata", urls["airflow"], "--ledger", urls["ledger"], "--store", store.url]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            assert said, {path.name: path.read_text()[-2000:] for path in (folder / "logs").glob("*.log")}
            places = json.loads(said)
            yield Services(
                airflow=places["airflow"],
                reports=places["reports"],
                folder=folder,
                ledger=f"127.0.0.1:{port}/ledger",
                store=store,
            )
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def get(url: str, token: str | None = None) -> tuple[int, str, Mapping[str, str]]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=120) as answer:
            return answer.status, answer.read().decode(errors="replace"), dict(answer.headers)
    except HTTPError as error:
        return error.code, error.read().decode(), dict(error.headers)


def wait(what: str, ready: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(TimeoutError):  # a busy machine answers late
            if found := ready():
                return found
        time.sleep(1)
    raise TimeoutError(what)


def test_whole_demo_runs_on_the_started_services(services: Services) -> None:
    password = services.secrets["AIRFLOW_ADMIN_PASSWORD"]
    login = {"username": "admin", "password": password}
    token = str(_ask("POST", f"{services.airflow}/auth/token", login, token=None)["access_token"])
    api = f"{services.airflow}/api/v2"

    # the scheduler runs the DAG, as soon as it may, for the day that began last
    def known() -> bool:
        return DAG_ID in {each["dag_id"] for each in _ask("GET", f"{api}/dags", None, token=token)["dags"]}

    wait("the DAG is known", known)
    _ask("PATCH", f"{api}/dags/{DAG_ID}", {"is_paused": False}, token=token)

    def done() -> Any:
        runs = _ask("GET", f"{api}/dags/{DAG_ID}/dagRuns", None, token=token)["dag_runs"]
        return [run for run in runs if run["state"] in ("success", "failed")]

    [run] = wait("the DAG has run", done)
    tasks = _ask("GET", f"{api}/dags/{DAG_ID}/dagRuns/{run['dag_run_id']}/taskInstances", None, token=token)
    states = {each["task_id"]: each["state"] for each in tasks["task_instances"]}
    assert states == {
        "prepare": "success",
        "budget_for_first": "success",
        "release_first": "success",
        "budget_for_second": "skipped",
        "release_second": "skipped",
    }, services.log("scheduler-0")[-4000:]

    # it counted on the two workers, and released into the object store
    workers = [services.log(f"spark-worker-{number}") for number in range(2)]
    assert all("Successfully registered with master" in log for log in workers)
    assert any("Asked to launch executor" in log for log in workers)
    manifests = [key for key in services.store.objects if key.endswith("/release.json") and "/_" not in key]
    assert len(manifests) == 1
    release = manifests[0].removeprefix("/releases/").removesuffix("/release.json")

    check_reports(services, release)
    check_ledger(services, token)


def check_reports(services: Services, release: str) -> None:
    """Published reports are served, and nothing else of the store."""
    status, page, _ = get(f"{services.reports}/")
    assert status == 200
    assert f'href="/{release}/report.html"' in page
    status, page, headers = get(f"{services.reports}/{release}/report.html")
    assert status == 200
    assert "Any visit to a doctor within the year" in page
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    names = {key.removeprefix("/releases/") for key in services.store.objects if key.startswith("/releases/")}
    unpublished = {name for name in names if "_draft" in name or name.rpartition("/")[0] != release}
    assert unpublished
    assert {name for name in unpublished if get(f"{services.reports}/{name}")[0] != 404} == set()


def check_ledger(services: Services, token: str) -> None:
    """The API server shows the ledger, by a role that can only read."""
    status, page, _ = get(f"{services.airflow}/privacy-ledger/privacy_ledger_default/", token)
    assert status == 200
    assert "rand-hie" in page
    with closing(PrivacyLedger(f"postgresql://ledger_view@{services.ledger}")) as viewed:
        assert viewed.remaining("rand-hie").epsilon == Decimal("0.5")
        head = viewed.head()
        with pytest.raises((InvalidRequest, LedgerUnavailable)):
            viewed.reserve("rand-hie", release="mine", epsilon="0.1")
        with pytest.raises((InvalidRequest, LedgerUnavailable)):
            viewed.raise_cap("rand-hie", epsilon="9", actor="me", reason="more")
        assert viewed.head() == head
