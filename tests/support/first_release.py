"""What the first release left, as it left it: its ledger of schema 0004, and its store behind a small S3."""

from __future__ import annotations

import sqlite3
import tarfile
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, create_engine, text

from dp_operators.budget import PrivacyLedger
from dp_operators.releasing import Published, ReleaseKey, release
from spark_jobs.contract import ReleaseRequest
from tests.support.ledgers import execute, upgrade_to
from tests.support.release_lab import NoRunner, accept

FOLDER = Path(__file__).parents[1] / "upgrade" / "first_release"
OUTPUT = "s3://releases/dp"
RUN = "2026-11-01T00:00:00Z"
VISITS: dict[str, Any] = {
    "account": "visits",
    "table": {"path": "/srv/lake/visits", "snapshot": {"path_version": "v1"}},
    "label": "returned",
    "model": {"kind": "columns", "score": "score", "basis": "public"},
    "diagnostics": ["auc"],
    "budget": {"epsilon": "0.5", "delta": "1e-6"},
    "unit": {"column": "person", "max_rows": 2},
    "blocks": ["2026-10"],
    "output": OUTPUT,
    "record": "visit",
}
"""As a DAG asks for it today: what the account says of the table is left out. The first release had it in the DAG."""
SALES: dict[str, Any] = {
    "account": "sales",
    "table": {"path": "/srv/lake/sales", "snapshot": {"partition": {"day": "2026-10-31"}}},
    "diagnostics": [
        {
            "kind": "linear_regression",
            "x": "size",
            "y": "revenue",
            "x_bounds": [0, 100],
            "y_bounds": [0, 1000],
            "group_by": "shop",
            "groups": ["north", "south"],
            "method": "noisy_stats",
            "public_sizes": True,
            "cells": 64,
        }
    ],
    "budget": {"epsilon": "1"},
    "neighbours": "replace_one",
    "output": OUTPUT,
}
BINDINGS = {
    "visits": [
        *("--columns", "person bigint, visited_on date, returned bigint, score double"),
    ],
    "sales": [
        *("--format", "csv", "--columns", "shop string, size int, revenue double, day string"),
        *("--version-column", "day", "--public-column", "shop"),
    ],
}
"""What ``dp-budget bind`` is given for each account."""


def key(task: str) -> ReleaseKey:
    return ReleaseKey(deployment="airflow", dag_id="monthly", run=RUN, task_id=task)


def as_left(url: str) -> None:
    """Write the ledger of the first release into an empty database."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.executescript((FOLDER / "ledger.sql").read_text())
        return
    upgrade_to("0004", url)
    memory = sqlite3.connect(":memory:")
    memory.row_factory = sqlite3.Row
    memory.executescript((FOLDER / "ledger.sql").read_text())
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        tables = MetaData()
        tables.reflect(connection)
        connection.execute(text("SET session_replication_role = replica"))  # the server's own totals are copied as well
        for table in tables.sorted_tables:
            connection.execute(table.delete())
            rows = [dict(row) for row in memory.execute(f"SELECT * FROM {table.name}")]
            if rows:
                connection.execute(table.insert(), rows)
    engine.dispose()
    memory.close()


def totals(url: str) -> list[tuple[Any, ...]]:
    return sorted(execute(url, "SELECT account, allotment, block, epsilon, delta FROM block_totals"))


def stored_objects() -> dict[str, bytes]:
    """The objects of the first release's store, by bucket and key."""
    with tarfile.open(FOLDER / "store.tar.xz") as archive:
        found = {f"/{member.name}": archive.extractfile(member) for member in archive.getmembers()}
        return {name: content.read() for name, content in found.items() if content is not None}


def attempt(
    ledger: PrivacyLedger, task: str, fields: dict[str, Any], *, runner: Any = None, **changes: Any
) -> Published:
    """What a task does today, cleared or new."""
    return release(
        ReleaseRequest.parse({**fields, **changes}),
        ledger=ledger,
        runner=runner or NoRunner(),
        key=key(task),
        check=accept,
        allotment="shops" if fields is SALES else None,
        actor="airflow",
    )
