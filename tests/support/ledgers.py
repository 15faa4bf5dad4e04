"""Ledgers on both kinds of database, and ways to hurt them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from dp_operators.budget import Charge, PrivacyLedger
from dp_operators.budget.tables.audit import GENESIS
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.support.postgres import PostgresServer

BOTH = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
# an account of each kind, and charges that it may be asked to bear
CAPS = {
    "pure": {"epsilon": "1"},
    "zcdp": {"composition": "zcdp", "rho": "0.5", "delta": "1e-6"},
    "approximate": {"composition": "approximate", "epsilon": "1", "delta": "1e-5"},
    "exact sums": {"composition": "approximate", "epsilon": "1", "delta": "1e-5", "slack": "0"},
}
COSTS = {
    "pure": [{"epsilon": cost} for cost in ("0.1", "0.30", "1", "0.000000000000000000000000000001")],
    "zcdp": [{"epsilon": "0.4"}, {"epsilon": "1"}, {"rho": "0.2"}, {"rho": "0.000000000000000000000000000001"}],
    "approximate": [{"epsilon": "0.04", "delta": "1e-7"}, {"epsilon": "0.5"}, {"epsilon": "0.01", "delta": "3e-6"}],
    "exact sums": [{"epsilon": "0.4", "delta": "5e-6"}, {"epsilon": "0.1", "delta": "1e-30"}, {"epsilon": "1"}],
}


@pytest.fixture(params=BOTH)
def empty_ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a ledger, once of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    return str(request.getfixturevalue("postgres_url"))


@cache
def _empty_ledger() -> bytes:
    """A SQLite ledger without accounts, made once: migrations would take most of the tests' time."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
        ledger.migrate()
        ledger.close()
        assert [path.name for path in Path(folder).iterdir()] == ["ledger.db"]
        return (Path(folder) / "ledger.db").read_bytes()


def new_ledger(path: Path) -> PrivacyLedger:
    """A SQLite ledger without accounts in a new file."""
    path.write_bytes(_empty_ledger())
    return PrivacyLedger(f"sqlite:///{path}")


@pytest.fixture(scope="session")
def migrated_database(postgres_server: PostgresServer) -> Iterator[str]:
    """A PostgreSQL ledger, to be emptied before use."""
    url = postgres_server.create_database()
    ledger = PrivacyLedger(url)
    ledger.migrate()
    ledger.close()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=BOTH)
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a ledger without accounts, once of each kind."""
    if request.param == "sqlite":
        new_ledger(tmp_path / "ledger.db")
        return f"sqlite:///{tmp_path}/ledger.db"
    url = str(request.getfixturevalue("migrated_database"))
    execute(
        url,
        "SET lock_timeout = '10s'",
        "TRUNCATE audit_log, block_totals, run_keys, stream_steps, charges, allotments, key_lists, account_tables,"
        " accounts",
        f"UPDATE audit_head SET seq = 0, previous = '{GENESIS}', hash = '{GENESIS}', frozen = '', moved = ''",
    )
    return url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[PrivacyLedger]:
    """A ledger without accounts, once on each kind of database."""
    ledger = PrivacyLedger(ledger_url)
    yield ledger
    ledger.close()


DRAW = "d" * 64


def commit(ledger: PrivacyLedger, charge: str, manifest: str | None = None, **told: Any) -> Charge:
    """Commit a charge, once its draw is recorded."""
    ledger.record_draw(charge, DRAW)
    return ledger.commit(charge, manifest, **told)


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Execute statements behind the ledger's back; the rows of the last."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            for statement in statements:
                found = connection.execute(text(statement))
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        engine.dispose()


def tamper(url: str, *statements: str) -> None:
    """Change rows as somebody does who can switch the server's guards off."""
    execute(url, *(["SET session_replication_role = replica"] if "postgres" in url else []), *statements)


def in_processes(work: Callable[[int], Any], count: int, patience: float = 60.0) -> list[Any]:
    """What ``work(0)``, ``work(1)``, ... return, each in a process of its own, all at once.

    A process that fails returns the text of its exception.
    """
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    gate = fork.Barrier(count)

    def attempt(number: int) -> None:
        gate.wait(patience)
        try:
            results.put((number, work(number)))
        except Exception as error:
            results.put((number, f"{type(error).__name__}: {error}"))

    processes = [fork.Process(target=attempt, args=(number,), daemon=True) for number in range(count)]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=patience) for _ in processes)
    for process in processes:
        process.join(patience)
    return [found[number] for number in range(count)]


def await_pause(gate: Path, process: multiprocessing.process.BaseProcess, patience: float = 60.0) -> None:
    """Wait until ``process`` has come to the failpoint at which it waits for ``gate``; it must get there."""
    until = time.monotonic() + patience
    while not gate.with_name(f"{gate.name}.reached").exists():
        assert process.is_alive(), f"the process ended with {process.exitcode}, not at its failpoint"
        assert time.monotonic() < until, "the process does not come to its failpoint"
        time.sleep(0.01)


def killed_at(failpoint: str, work: Callable[[], Any], patience: float = 60.0) -> None:
    """Do ``work`` in a process that is killed with SIGKILL at ``failpoint``; it must get there."""

    def attempt() -> None:
        os.environ[VARIABLE] = failpoint
        work()

    process = multiprocessing.get_context("fork").Process(target=attempt, daemon=True)
    process.start()
    process.join(patience)
    assert process.exitcode == -signal.SIGKILL, f"the process ended with {process.exitcode}, not at {failpoint}"
