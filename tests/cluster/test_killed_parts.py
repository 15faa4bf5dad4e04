"""Each real part is killed between submit and look: one charge, one draw, no second application beside the first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_operators.budget import Charge, LedgerUnavailable, PrivacyLedger
from dp_operators.release_check import check_release
from dp_operators.releasing import (
    Backend,
    ChargedRequest,
    LocalRunner,
    Published,
    ReleaseFailed,
    ReleaseRejected,
    release,
)
from dp_operators.releasing.spark_connect import SparkConnectRunner
from spark_jobs.contract import ReleaseRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.suites.backends import eventually
from tests.support import fake_application
from tests.support.accounts import open_bound
from tests.support.connect_server import BOUNDARY, connect_server
from tests.support.databases import running_database, write_connections
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.release_lab import TABLE, Attempt, accept, make_request
from tests.support.rest_master import rest_master

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.verify]

ROWS = 400
NO_DRAFT = (
    "the application ended without a draft; its output is in its private file. "
    "The reservation stays. A retry helps if a machine or a store had failed; if it ends so again, find the cause there"
)


class Workers:
    """Workers that come one after the other to one release, each with a ledger of its own to ask.

    Attributes:
        private: the folder of what applications on this machine print.
    """

    def __init__(self, folder: Path, request: ReleaseRequest, *, ledger: str = "", check: Any = check_release) -> None:
        self.folder, self.request, self.check = folder, request, check
        self.url = ledger or f"sqlite:///{folder / 'ledger.db'}"
        self.private = folder / "private"
        with self.ledger() as opened:
            opened.migrate()

    def open(self, table: str | Path, **settings: Any) -> None:
        with self.ledger() as opened:
            open_bound(opened, "people", epsilon="10", table=table, output=self.output, **settings)

    @property
    def output(self) -> Path:
        return Path(str(self.request.output))

    @contextmanager
    def ledger(self) -> Iterator[PrivacyLedger]:
        with closing(PrivacyLedger(self.url)) as ledger:
            yield ledger

    def attempt(self, runner: Backend, *, opens: Path | None = None) -> Published:
        """Attempt the release; open a gate as soon as an earlier attempt's application is found running."""

        def progress(line: str) -> None:
            if opens is not None and line.endswith("was submitted before"):
                opens.touch()

        with self.ledger() as ledger:
            return release(
                ChargedRequest.of(self.request, ledger, "k"), runner=runner, check=self.check, progress=progress
            )

    def submit_and_die(self, runner: Backend) -> None:
        assert Attempt(lambda: self.attempt(runner), self.folder, "after_keep_handle").wait().killed

    def charge(self) -> Charge:
        with self.ledger() as ledger:
            assert ledger.verification().findings == ()
            [charge] = ledger.history("people")
            return charge

    def refused(self, runner: Backend, error: type[Exception], *, opens: Path | None = None) -> str:
        """The one line that an attempt ends with."""
        with pytest.raises(error) as told:
            self.attempt(runner, opens=opens)
        assert "\n" not in str(told.value)
        return str(told.value)

    def require_one_release(self, runner: Backend, *, runs: int, opens: Path | None = None) -> None:
        """The release is made, and is the same one ever after: one charge, one draw, so many runs."""
        made = self.attempt(runner, opens=opens)
        charge = self.charge()
        assert (charge.state, charge.runs, charge.manifest_sha256) == ("committed", runs, made.manifest_sha256)
        assert len(list(self.output.rglob("draw.json"))) == 1
        again = self.attempt(runner)
        assert (again.adopted, again.manifest_sha256) == (True, made.manifest_sha256)
        assert self.charge() == charge

    def applications(self) -> int:
        """The processes that were started on this machine."""
        return len(list(self.private.glob("*.log")))


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """The file that lets an application go on, which waits before it counts; at the end nobody waits any more."""
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()


def reached(gate: Path) -> None:
    eventually(gate.with_suffix(".reached").exists, 240)


@pytest.fixture
def people(tmp_path: Path) -> Workers:
    """Workers at a release of a table of files."""
    generator = np.random.default_rng(7)
    score = generator.beta(2, 3, ROWS)
    rows = {"score": score, "visit": (generator.random(ROWS) < score).astype(np.int64)}
    table = tmp_path / "lake"
    (table / "v1").mkdir(parents=True)
    pq.write_table(pa.table(rows), table / "v1" / "part-0.parquet")
    state = {"path": str(table), "snapshot": {"path_version": "v1"}}
    workers = Workers(tmp_path, make_request(str(tmp_path / "releases"), table=state))
    workers.open(table)
    return workers


def nobody(folder: Path, *, ledger: str = "") -> Workers:
    """Workers at a release of a table that is never read, by an application without Spark."""
    workers = Workers(folder, make_request(str(folder / "releases")), ledger=ledger, check=accept)
    workers.open(TABLE)
    return workers


def test_master_that_was_killed_still_has_the_one_application_when_it_is_back(
    gate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps what it knows on disk; an attempt in between could submit nothing, and hides nothing.

    Where the worker happens to register while the master recovers, Spark gives the driver up and ends it; then, and
    only then, another application makes the release.
    """
    people = nobody(tmp_path)
    monkeypatch.setattr("dp_operators.releasing.following.POLL_ELSEWHERE_SECONDS", 0.2)
    (tmp_path / "cluster").mkdir()
    with rest_master(tmp_path / "cluster", {VARIABLE: f"before_count:pause:{gate}"}) as cluster:
        backend = replace(cluster.backend(), application=fake_application.__file__)
        people.submit_and_die(backend)
        reached(gate)
        cluster.kill_master()
        told = people.refused(backend, ReleaseFailed)
        assert told == "the application could not be run (ConnectionError)"
        cluster.start_master()
        eventually(lambda: "Recovery complete" in cluster.log("Master").read_text(), 60)
        given_up = "was not found after master recovery" in cluster.log("Master").read_text()
        if given_up:
            gate.touch()
        people.require_one_release(backend, runs=2 + given_up, opens=gate)
        assert cluster.log("Worker").read_text().count("Asked to launch driver") == 1 + given_up


def test_connect_server_that_was_killed_ends_the_application_and_the_next_one_makes_the_release(
    people: Workers, gate: Path, tmp_path: Path
) -> None:
    with connect_server(tmp_path / "first", BOUNDARY) as server:
        variables = {VARIABLE: f"before_count:pause:{gate}"}
        runner = SparkConnectRunner(remote=server.remote, environment=variables, private_dir=people.private)
        people.submit_and_die(runner)
        reached(gate)
        server.kill()
    with connect_server(tmp_path / "second", BOUNDARY, port=server.port):
        assert people.refused(runner, ReleaseFailed, opens=gate) == NO_DRAFT
        assert (people.charge().state, people.applications()) == ("reserved", 1)
        people.require_one_release(runner, runs=2)
    assert people.applications() == 2


@pytest.fixture(scope="module")
def ledgers() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def visitors(ledgers: PostgresServer, tmp_path: Path) -> Workers:
    return nobody(tmp_path, ledger=ledgers.create_database())


def fake_runner(workers: Workers, gate: Path) -> LocalRunner:
    """Processes that need no Spark, which count until the gate is open."""
    command = (sys.executable, fake_application.__file__)
    return LocalRunner(command=command, environment={"DP_FAKE": f"wait:{gate}"}, private_dir=workers.private)


UNAVAILABLE = "; nothing is released until it answers"


@pytest.mark.postgres
def test_ledger_that_was_killed_has_the_charge_when_it_is_back_and_the_application_is_found(
    visitors: Workers, ledgers: PostgresServer, gate: Path
) -> None:
    runner = fake_runner(visitors, gate)
    visitors.submit_and_die(runner)
    ledgers.kill()
    assert visitors.refused(runner, LedgerUnavailable).endswith(UNAVAILABLE)
    ledgers.start()
    visitors.require_one_release(runner, runs=1, opens=gate)
    assert visitors.applications() == 1


@pytest.mark.postgres
def test_ledger_that_was_killed_under_a_waiting_worker_records_the_draw_when_it_is_back(
    visitors: Workers, ledgers: PostgresServer, gate: Path
) -> None:
    runner = fake_runner(visitors, gate)
    with ThreadPoolExecutor(1) as live:
        waiting = live.submit(visitors.refused, runner, LedgerUnavailable)
        try:
            eventually(lambda: list(visitors.output.rglob("handle-1.json")) != [])
            ledgers.kill()
        finally:
            gate.touch()
        assert waiting.result().endswith(UNAVAILABLE)
    ledgers.start()
    assert (visitors.charge().state, visitors.charge().draw_sha256) == ("reserved", None)
    visitors.require_one_release(runner, runs=1)
    assert visitors.applications() == 1


@pytest.mark.postgres
@pytest.mark.soak
def test_database_that_was_killed_under_the_application_fails_it_and_the_next_one_makes_the_release(
    gate: Path, tmp_path: Path, jdbc_driver: Path
) -> None:
    table = {
        "name": "jdbc:lake.public.visits",
        "partitioning": {"column": "id", "lower": 1, "upper": ROWS, "partitions": 2},
        "snapshot": {"partition": {"version": "1"}},
    }
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.jars {jdbc_driver}\n")
    with running_database(jdbc_driver) as database:
        database.execute("CREATE TABLE visits (id bigint, version text, score double precision, visit int)")
        database.execute(f"INSERT INTO visits SELECT i, '1', i / 1000.0, i % 2 FROM generate_series(1, {ROWS}) i")
        workers = Workers(tmp_path, make_request(str(tmp_path / "releases"), table=table))
        types = {"id": "bigint", "version": "string", "score": "double", "visit": "int"}
        workers.open(table["name"], columns=types, form="jdbc", version={"by": "partition", "columns": ["version"]})
        connections = write_connections(tmp_path / "jdbc.json", lake=database.connection("public.visits"))
        variables = {VARIABLE: f"before_count:pause:{gate}", "SPARK_CONF_DIR": str(conf), **connections}
        runner = LocalRunner(master="local[1]", environment=variables, private_dir=workers.private)
        workers.submit_and_die(runner)
        reached(gate)
        database.server.kill()
        assert workers.refused(runner, ReleaseFailed, opens=gate) == NO_DRAFT
        assert (workers.charge().state, workers.applications()) == ("reserved", 1)
        away = workers.refused(runner, ReleaseRejected)
        assert away.startswith(f"table.name: got '{table['name']}'; must be a table that can be read; ")
        assert "the reservation stays" in away
        assert (workers.charge().state, workers.charge().draw_sha256) == ("reserved", None)
        database.server.start()
        workers.require_one_release(runner, runs=3)
    assert workers.applications() == 3
