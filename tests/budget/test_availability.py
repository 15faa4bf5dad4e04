"""A ledger that does not answer: nothing is released, the caller knows why, and nobody learns a password."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sqlite3
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from dp_operators.budget import LedgerUnavailable, PrivacyLedger
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.failpoints import LEDGER_POINTS, VARIABLE
from tests.support.ledgers import DRAW, await_pause, commit

SECRET = "hunter2-hunter2"


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Somebody else writes, for as long as the block lasts."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
    else:
        with psycopg.connect(url) as other:
            other.execute("SELECT * FROM audit_head FOR UPDATE")
            yield


WRITES: dict[str, Callable[[PrivacyLedger, str], object]] = {
    "open_account": lambda ledger, _: ledger.open_account("others", epsilon=1),
    "reserve": lambda ledger, _: ledger.reserve("visits", release="second", epsilon="0.1"),
    "commit": lambda ledger, charge: commit(ledger, charge),
    "void": lambda ledger, charge: ledger.void(charge),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=list(WRITES))
def test_locked_ledger_is_unavailable_for_writes_and_open_for_reads(
    ledger: PrivacyLedger, ledger_url: str, write: Callable[[PrivacyLedger, str], object]
) -> None:
    ledger.open_account("visits", epsilon="1")
    charge = ledger.reserve("visits", release="first", epsilon="0.5")
    hasty = PrivacyLedger(ledger_url, patience=0.1)
    with locked(ledger_url):
        with pytest.raises(LedgerUnavailable, match="another writer has locked it; nothing is released until"):
            write(hasty, charge.id)
        assert hasty.charge(charge.id) == charge
        assert hasty.verify()
    write(hasty, charge.id)
    hasty.close()


def test_write_waits_for_other_writers(ledger: PrivacyLedger, ledger_url: str) -> None:
    ledger.open_account("visits", epsilon="1")
    with ThreadPoolExecutor(1) as pool:
        with locked(ledger_url):
            charge = pool.submit(ledger.reserve, "visits", release="r", epsilon="0.1")
            with pytest.raises(TimeoutError):
                charge.result(timeout=0.3)
        assert charge.result(timeout=10).state == "reserved"


@pytest.mark.postgres
@pytest.mark.parametrize("failpoint", LEDGER_POINTS)
def test_worker_that_sleeps_holds_nobody_up(migrated_database: str, tmp_path: Path, failpoint: str) -> None:
    ledger = PrivacyLedger(migrated_database, patience=5)
    account = f"visits until {failpoint}"
    ledger.open_account(account, epsilon="1")
    gate = tmp_path / "gate"

    def sleeper() -> None:
        os.environ[VARIABLE] = f"{failpoint}:pause:{gate}"
        ledger.reserve(account, release="slow", epsilon="0.1")

    process = multiprocessing.get_context("fork").Process(target=sleeper, daemon=True)
    process.start()
    await_pause(gate, process)
    began = time.monotonic()
    commit(ledger, ledger.reserve(account, release="quick", epsilon="0.1").id)
    assert time.monotonic() - began < 5
    gate.touch()
    process.join(30)
    assert process.exitcode == 0
    assert {charge.release for charge in ledger.history(account)} == {"slow", "quick"}
    ledger.close()


def test_unreachable_server_is_found_out_quickly() -> None:
    ledger = PrivacyLedger(f"postgresql://dp:{SECRET}@127.0.0.1:1/ledger")
    began = time.monotonic()
    for call in (ledger.migrate, ledger.accounts, lambda: ledger.open_account("visits", epsilon=1)):
        with pytest.raises(LedgerUnavailable) as away:
            call()
        assert "the ledger postgresql://dp@127.0.0.1:1/ledger cannot be used: " in str(away.value)
        assert "refused" in str(away.value)
        assert "\n" not in str(away.value)
    assert time.monotonic() - began < 3


def test_named_ledger_shows_neither_login_nor_host(tmp_path: Path) -> None:
    """Logs of tasks are read by more people than may see the connection."""
    url = f"postgresql://dp_login:{SECRET}@127.0.0.1:1/ledger_database"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        timed_out = url.replace(":1/", f":{silent.getsockname()[1]}/") + "?connect_timeout=2"
        for place in (url, timed_out, url.replace("127.0.0.1", "nowhere.invalid"), f"sqlite:///{tmp_path}/none.db"):
            with pytest.raises((LedgerUnavailable, InvalidRequest)) as away:
                PrivacyLedger(place, name="connection:books").accounts()
            line = str(away.value)
            assert "connection:books" in line
            for private in ("dp_login", "ledger_database", "127.0.0.1", "nowhere", str(tmp_path), SECRET):
                assert private not in line


def test_login_that_the_server_refuses_is_not_named(ledger_url: str) -> None:
    if not ledger_url.startswith("postgresql"):
        pytest.skip("a SQLite file has no logins")
    url = make_url(ledger_url).set(username="nobody_of_this_name", password="x")
    with pytest.raises(LedgerUnavailable) as refused:
        PrivacyLedger(url.render_as_string(hide_password=False), name="connection:books").accounts()
    assert "nobody_of_this_name" not in str(refused.value)


def test_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://dp@127.0.0.1:{silent.getsockname()[1]}/ledger?connect_timeout=2"
        began = time.monotonic()
        with pytest.raises(LedgerUnavailable, match="timeout"):
            PrivacyLedger(url).accounts()
        assert time.monotonic() - began < 6


@pytest.mark.parametrize("content", [b"this is no database, " * 100, None], ids=["a file of another kind", "a folder"])
def test_file_that_is_no_database_is_unavailable(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ledger.db"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(LedgerUnavailable, match="unable to open database file|file is not a database"):
        PrivacyLedger(f"sqlite:///{path}").accounts()


def test_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="must lie in a folder that exists; make it: mkdir -p "):
        PrivacyLedger(f"sqlite:///{tmp_path}/no/such/ledger.db").migrate()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:ledger.db?uri=true",
        "mysql://u@h/d",
        "http://h/d",
        "postgresql://h:port/d",
        None,
        7,
    ],
)
def test_url_of_something_else_is_refused(url: object) -> None:
    with pytest.raises(InvalidRequest, match="^ledger: must be .*; e.g. postgresql://") as refused:
        PrivacyLedger(url)  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)


LEAKS = {
    "password": f"postgresql://dp:{SECRET}@127.0.0.1:1/ledger",
    "password in the query": f"postgresql://dp@127.0.0.1:1/ledger?password={SECRET}",
    "password of the key": f"postgresql://dp@127.0.0.1:1/ledger?sslpassword={SECRET}",
    "password with an @": f"postgresql://dp:my@{SECRET}@127.0.0.1:1/ledger",
    "password that breaks the port": f"postgresql://dp@127.0.0.1:{SECRET}/ledger",
    "password in a URL of no database": f"mysql://dp:{SECRET}@127.0.0.1/ledger",
    "password in no URL": f"postgresql:dp:{SECRET}",
    "password with a slash": f"postgresql://dp:my/{SECRET}@127.0.0.1:1/ledger",
    "password with a question mark": f"postgresql://dp:my?{SECRET}@127.0.0.1:1/ledger",
    "password with a hash": f"postgresql://dp:my#{SECRET}@127.0.0.1:1/ledger",
    "password with a bracket": f"postgresql://dp:[{SECRET}@127.0.0.1:1/ledger",
    "password with an escape that is none": f"postgresql://dp:%zz{SECRET}@127.0.0.1:1/ledger",
    "password with an escaped @": f"postgresql://dp:my%40{SECRET}@127.0.0.1:1/ledger",
    "password in an option": f"postgresql://dp@127.0.0.1:1/ledger?no_such_option={SECRET}&password={SECRET}",
}


@pytest.mark.parametrize("url", LEAKS.values(), ids=list(LEAKS))
def test_password_is_never_shown(url: str) -> None:
    shown = []

    def ask() -> None:
        ledger = PrivacyLedger(url)
        shown.extend([repr(ledger), ledger.name])
        ledger.accounts()

    with pytest.raises((LedgerUnavailable, InvalidRequest)) as failed:
        ask()
    shown.extend([str(failed.value), repr(failed.value), *traceback.format_exception(failed.value, chain=True)])
    assert SECRET not in "".join(shown)


@pytest.mark.postgres
def test_url_may_be_spelt_as_others_spell_it(migrated_database: str) -> None:
    for scheme in ("postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"):
        ledger = PrivacyLedger(migrated_database.replace("postgresql:", f"{scheme}:"))
        assert ledger.head().seq >= 0
        assert ledger.name.startswith("postgresql://postgres@/")
        ledger.close()


@pytest.mark.postgres
@pytest.mark.parametrize("verb", ["reserve", "void", "commit"])
def test_ledger_frozen_in_the_middle_of_a_change_is_not_written(
    migrated_database: str, tmp_path: Path, verb: str
) -> None:
    """The writer has looked and has not written yet: what it writes then would be missing from a copy."""
    ledger = PrivacyLedger(migrated_database)
    account, gate = f"frozen during {verb}", tmp_path / "gate"
    ledger.open_account(account, epsilon="1")
    charge = ledger.reserve(account, release="first", epsilon="0.25")
    if verb == "commit":
        charge = ledger.record_draw(charge.id, DRAW)
    said = multiprocessing.get_context("fork").Queue()

    def change() -> None:
        os.environ[VARIABLE] = f"ledger_before_write:pause:{gate}"
        own = PrivacyLedger(migrated_database)
        try:
            if verb == "reserve":
                own.reserve(account, release="second", epsilon="0.25")
            else:
                getattr(own, verb)(charge.id)
            said.put("written")
        except InvalidRequest as refused:
            said.put(str(refused))

    process = multiprocessing.get_context("fork").Process(target=change, daemon=True)
    process.start()
    await_pause(gate, process)
    ledger.freeze(reason="about to be copied")
    head = ledger.head()
    gate.touch()
    assert "is frozen (about to be copied)" in said.get(timeout=60)
    process.join(60)
    assert ledger.head() == head
    assert ledger.verification().findings == ()
    ledger.thaw(actor="a", reason="b")
    assert ledger.history(account) == (charge,)
    ledger.close()
