"""What an early commit left, as it left it: its ledger of schema 0004, and its store behind a small S3."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

from dp_operators.budget import PrivacyLedger
from dp_operators.releasing import ChargedRequest, Published, ReleaseKey, release
from spark_jobs.contract import ReleaseRequest
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
"""As a DAG asks for it today: what the account says of the table is left out. That commit had it in the DAG."""
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
OPENED = {
    "visits": [
        *("--epsilon", "10", "--delta", "0.0001", "--composition", "approximate", "--table", "/srv/lake/visits"),
        *("--columns", "person bigint, visited_on date, returned bigint, score double"),
        *("--unit-column", "person", "--max-rows", "2", "--blocks", "month(visited_on)", "--no-unit-stays"),
    ],
    "sales": [
        *("--epsilon", "10", "--neighbours", "replace_one", "--table", "/srv/lake/sales"),
        *("--format", "csv", "--columns", "shop string, size int, revenue double, day string"),
        *("--version-column", "day", "--public-column", "shop"),
    ],
}
"""What ``dp-budget open`` is given for each account."""
OUTPUTS = {"visits": OUTPUT, "sales": "s3://releases/sales"}
"""Accounts share no folder any more: it stays with one of them."""


def key(task: str) -> ReleaseKey:
    return ReleaseKey(deployment="airflow", dag_id="monthly", run=RUN, task_id=task)


def as_left(url: str) -> None:
    """Write the ledger of that commit into an empty SQLite file."""
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.executescript((FOLDER / "ledger.sql").read_text())


def rows_before(query: str) -> list[tuple[str, str]]:
    """Rows of two columns of the ledger as it was left."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript((FOLDER / "ledger.sql").read_text())
        return memory.execute(query).fetchall()


def spent_before() -> dict[str, Decimal]:
    """What each account had spent in epsilon, added up."""
    rows = rows_before("SELECT account, epsilon FROM block_totals WHERE allotment = '' AND block = 'all'")
    return {account: Decimal(epsilon) for account, epsilon in rows}


def hashes_before() -> dict[str, str]:
    """The hash of the request of each charge."""
    return dict(rows_before("SELECT id, request_sha256 FROM charges"))


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
        ChargedRequest.of(ReleaseRequest.parse({**fields, **changes}), ledger, key(task)),
        runner=runner or NoRunner(),
        check=accept,
        allotment="shops" if fields is SALES else None,
        actor="airflow",
    )
