"""The charges per second of a ledger on PostgreSQL: ``python -m benchmarks.ledger_throughput``.

Writers, each a process of its own, reserve and commit charges on one account, and record a draw in between. In the same
run the same writers execute two bare single-row transactions for each such pair: one INSERT each, committed
synchronously, through the same engine (SQLAlchemy, pooled) that the ledger uses. The target is a ratio of at
least 0.25. For information the same is done with psycopg alone, on a connection that is never given back. The server
runs with ``fsync`` on.

On a shared machine, rates depend on the other load as well. So the processor time of a pair, of one writer and its
server process together, is reported too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg
from sqlalchemy import column, create_engine, insert, table

from dp_operators.budget import PrivacyLedger
from tests.support.postgres import PostgresServer, running_postgres

TARGET = 0.25
Pair = Callable[[int], None]


def ledger_pair(url: str) -> Pair:
    """Reserve, record the draw, and commit."""
    ledger = PrivacyLedger(url)
    writer = os.getpid()

    def pair(number: int) -> None:
        charge = ledger.reserve("visits", release=f"{writer}/{number}", epsilon="0.001", request_sha256="a" * 64)
        ledger.record_draw(charge.id, "c" * 64)
        ledger.commit(charge.id, "b" * 64)

    return pair


def bare_pair(url: str) -> Pair:
    """Two transactions of one row each, through SQLAlchemy."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    statement = insert(table("bare", column("content")))

    def pair(_number: int) -> None:
        for _ in range(2):
            with engine.begin() as connection:
                connection.execute(statement, {"content": "c" * 100})

    return pair


def driver_pair(url: str) -> Pair:
    """Two transactions of one row each, through the driver alone."""
    connection = psycopg.connect(url)

    def pair(_number: int) -> None:
        for _ in range(2):
            connection.execute("INSERT INTO bare (content) VALUES (%s)", ("c" * 100,))
            connection.commit()

    return pair


def rate(make: Callable[[str], Pair], url: str, *, writers: int, seconds: float) -> float:
    """Pairs per second, of all writers together."""
    fork = multiprocessing.get_context("fork")
    gate, counts = fork.Barrier(writers), fork.Queue()

    def work() -> None:
        pair = make(url)
        pair(0)
        gate.wait()
        number, end = 1, time.monotonic() + seconds
        while time.monotonic() < end:
            pair(number)
            number += 1
        counts.put(number - 1)

    processes = [fork.Process(target=work, daemon=True) for _ in range(writers)]
    for process in processes:
        process.start()
    done = sum(counts.get() for _ in processes)
    for process in processes:
        process.join()
    return done / seconds


def processor_time(make: Callable[[str], Pair], server: PostgresServer, url: str, *, pairs: int = 1000) -> float:
    """Milliseconds of a pair, of this process and of the server's processes that it is connected to."""
    pair = make(url)
    for number in range(50):
        pair(-number)
    name = url.split("?")[0].rsplit("/", 1)[-1]
    connected = server.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'")

    def used() -> float:
        times = (Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13] for (pid,) in connected)
        return time.process_time() + sum(int(ticks) for entry in times for ticks in entry) / os.sysconf("SC_CLK_TCK")

    before = used()
    for number in range(1, pairs + 1):
        pair(number)
    return 1000 * (used() - before) / pairs


@dataclass(frozen=True, kw_only=True)
class Round:
    """Pairs per second of the ledger, the bare engine and the driver, measured one after the other."""

    bare: float
    ledger: float
    driver: float


def measure(server: PostgresServer, *, rounds: int, writers: int, seconds: float) -> list[Round]:
    """Run the three in turn, on one server and one account.

    Raises:
        RuntimeError: the ledger is inconsistent afterwards.
    """
    url = server.create_database()
    server.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, content text)", url)
    ledger = PrivacyLedger(url)
    ledger.migrate()
    ledger.open_account("visits", epsilon=10**6)
    measured = []
    for _ in range(rounds):
        bare, charged, driver = (
            rate(make, url, writers=writers, seconds=seconds) for make in (bare_pair, ledger_pair, driver_pair)
        )
        measured.append(Round(bare=bare, ledger=charged, driver=driver))
        print(f"{bare:12.0f} {charged:14.0f} {charged / bare:8.3f} {driver:14.0f} {charged / driver:8.3f}", flush=True)
    costs = [processor_time(make, server, url) for make in (bare_pair, ledger_pair, driver_pair)]
    print("processor time of a pair: bare {:.2f} ms, ledger {:.2f} ms, driver {:.2f} ms".format(*costs))
    print(f"bare / ledger in processor time: {costs[0] / costs[1]:.2f}")
    findings = ledger.verification().findings
    ledger.close()
    if findings:
        raise RuntimeError(f"the ledger is not sound: {findings[0]}")
    return measured


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quick", action="store_true", help="one short round")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.seconds = 1, 1.0
    with running_postgres(durable=True) as server:
        version = server.execute("SHOW server_version")[0][0]
        load = ", ".join(f"{entry:.1f}" for entry in os.getloadavg())
        print(f"PostgreSQL {version}, {given.writers} writers, {os.cpu_count()} processors, load before: {load}")
        print("pairs/s bare  pairs/s ledger    ratio pairs/s driver    ratio")
        measured = measure(server, rounds=given.rounds, writers=given.writers, seconds=given.seconds)
    ratios = [entry.ledger / entry.bare for entry in measured]
    verdict = "met" if median(ratios) >= TARGET else "missed"
    print(
        f"ledger / bare: median {median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f};"
        f" target {TARGET}: {verdict}"
    )
    print(f"ledger / driver alone: median {median(entry.ledger / entry.driver for entry in measured):.3f}")


if __name__ == "__main__":
    main()
