"""A stream that is followed with a real Spark: files that arrive, kill -9 of the application, and SIGTERM."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dp_operators.cli import app
from spark_jobs.contract.binding import TableBinding
from spark_jobs.contract.store.failpoints import VARIABLE
from spark_jobs.contract.stream_keys import STREAM_KEYS_VARIABLE
from tests.support.accounts import bound
from tests.support.ledgers import new_ledger

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

START = pd.Timestamp("2026-01-01")
MANY = 54_321
UNIT = {"column": "person", "max_rows": 2}


def arrive(folder: Path, name: str, counts: dict[tuple[int, str], int]) -> None:
    """A file with so many rows of each step and ward, moved to its place when it is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    times = [START + pd.Timedelta(hours=step, minutes=1) for (step, _), rows in counts.items() for _ in range(rows)]
    wards = [ward for (_, ward), rows in counts.items() for _ in range(rows)]
    people = [f"{name}-{number // 2}" for number in range(len(times))]
    frame = pd.DataFrame({"at": pd.Series(times, dtype="datetime64[us]"), "ward": wards, "person": people})
    frame.to_parquet(folder / f".{name}", index=False, coerce_timestamps="us")
    (folder / f".{name}").rename(folder / name)


def request_of(folder: Path, name: str, **changes: Any) -> str:
    fields = {
        "account": "visits",
        "table": {"path": str(folder / "lake"), "snapshot": {"path_version": "arrivals"}},
        "time": "at",
        "start": "2026-01-01T00:00:00Z",
        "step": "1 hour",
        "steps": 3,
        "states": {"column": "ward", "keys": ["a", "b"]},
        "budget": {"epsilon": 10**8},
        "unit": UNIT,
        "output": str(folder / "out"),
        "follow": {"delay": "10 minutes"},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps({**fields, **changes}))
    return str(path)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    arrive(tmp_path / "lake" / "arrivals", "first.parquet", {(0, "a"): 5, (1, "a"): MANY, (2, "b"): 7, (2, "c"): 9})
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = new_ledger(tmp_path / "ledger.db")
    columns = {"at": "timestamp_ntz", "ward": "string", "person": "string"}
    binding = TableBinding.parse({**dict(bound(tmp_path / "lake", columns)), "rows_per_unit": 2, "append_only": True})
    ledger.open_account("visits", epsilon=10**9, tables=[binding], outputs=[str(tmp_path / "out")], unit=UNIT)
    ledger.close()
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "a salt of many bytes")
    monkeypatch.setenv("DP_LEDGER_URL", url)
    monkeypatch.setenv(STREAM_KEYS_VARIABLE, f"k1:{'ab' * 32}")
    return tmp_path


def follow(place: Path, request: str, *options: str) -> Any:
    private = ("--master", "local[1]", "--private-dir", str(place / "private"))
    result = CliRunner().invoke(app, ["stream", "follow", request, *private, *options])
    assert result.exit_code == 0, result.output
    return result


def test_rows_of_a_folder_are_counted_once_whatever_is_killed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(place, "visits")
    assert "3 steps are due; 0 of 3 are released" in follow(place, request, "--dry-run").output
    follow(place, request, "--until", "2026-01-01T01:10:00Z")
    arrive(place / "lake" / "arrivals", "second.parquet", {(0, "b"): 3, (1, "b"): 11, (2, "b"): 1})
    # killed when an object is stored, twice: each begins a new run, whose first object holds one step
    monkeypatch.setenv(VARIABLE, "after_store_steps")
    follow(place, request)
    [root] = (place / "out").glob("stream-*")
    released = pd.concat([pq.read_table(path).to_pandas() for path in sorted((root / "steps").glob("*.parquet"))])
    counts = released.set_index(["step", "state"])["noisy"]
    assert counts[counts > 0].to_dict() == {(0, "a"): 5, (1, "a"): MANY, (1, "b"): 11, (2, "b"): 8}
    assert [int(path.stem) for path in sorted((root / "steps").glob("*.json"))] == [0, 1, 2]
    shown = CliRunner().invoke(app, ["stream", "show", request])
    assert "3 of 3 steps are released" in shown.output
    checkpoint = [path for path in (place / "private" / "checkpoints").rglob("*") if path.is_file()]
    assert {path.relative_to(place / "private" / "checkpoints").parts[1] for path in checkpoint} <= {
        *("metadata", ".metadata.crc", "offsets", "commits", "sources")
    }, "no state store"
    for path in (*checkpoint, *root.rglob("_draft/*/*/*"), *root.rglob("*.json")):
        assert not re.search(rb"(?<!\d)%d(?!\d)" % MANY, path.read_bytes())
    [folder] = (place / "private" / "checkpoints").iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_sigterm_ends_the_application_too(place: Path) -> None:
    tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).replace(microsecond=0)
    request = request_of(place, "later", start=tomorrow.isoformat())
    command = [sys.executable, "-c", "from dp_operators.cli import main; main()", "stream", "follow", request]
    with (place / "said").open("wb") as said:
        process = subprocess.Popen(
            [*command, "--master", "local[1]", "--private-dir", str(place / "private")],
            stderr=said,
            # pyspark leaves a temporary folder if it is ended while it starts Java
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(place)},
        )
    deadline = time.monotonic() + 300
    while b"\nstarting\n" not in (place / "said").read_bytes():
        assert process.poll() is None, (place / "said").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    said_last = (place / "said").read_bytes()
    assert b"interrupted; what is reserved stays reserved, and the same command continues with it" in said_last
    assert children, "the application ran"
    assert not any(_running(int(child)) for child in children)


def _running(pid: int) -> bool:
    """Whether a process has not ended; one that nobody has asked for yet has."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
