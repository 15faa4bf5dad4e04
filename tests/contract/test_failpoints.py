"""Failpoints: silent unless asked, deadly or patient if asked."""

from __future__ import annotations

import multiprocessing
import re
import signal
import time
from pathlib import Path

import pytest

from spark_jobs.contract.store.failpoints import (
    APPLICATION_POINTS,
    CHOICE_POINTS,
    FAILPOINTS,
    FEDERATION_POINTS,
    LEDGER_POINTS,
    PASS_POINTS,
    PROTOCOL_POINTS,
    STREAM_APPLICATION_POINTS,
    STREAM_POINTS,
    VARIABLE,
    failpoint,
)

ROOT = Path(__file__).parents[2]
OF_PROTOCOL = (PROTOCOL_POINTS, CHOICE_POINTS, STREAM_POINTS)
OF_APPLICATION = (APPLICATION_POINTS, PASS_POINTS, STREAM_APPLICATION_POINTS)


def _process():
    process = multiprocessing.get_context("fork").Process(target=failpoint, args=("before_commit",))
    process.start()
    return process


def test_unset_or_named_otherwise_it_does_nothing(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    failpoint("before_commit")
    monkeypatch.setenv(VARIABLE, "after_commit")
    process = _process()
    process.join()
    assert process.exitcode == 0


def test_named_it_kills_without_warning(monkeypatch):
    monkeypatch.setenv(VARIABLE, "before_commit")
    process = _process()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_paused_it_says_so_and_waits_for_the_gate(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, f"before_commit:pause:{tmp_path}/gate")
    process = _process()
    deadline = time.monotonic() + 30
    while not (tmp_path / "gate.reached").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert process.is_alive()
    (tmp_path / "gate").touch()
    process.join()
    assert process.exitcode == 0


def test_names_are_distinct_and_come_before_and_after_each_step():
    rooms = (*OF_PROTOCOL, *OF_APPLICATION, FEDERATION_POINTS, LEDGER_POINTS)
    assert len(set(FAILPOINTS)) == len(FAILPOINTS) == sum(len(room) for room in rooms)
    assert {name.replace("before_", "after_") for name in FAILPOINTS if name.startswith("before_")} == {
        name for name in FAILPOINTS if name.startswith("after_")
    }


@pytest.mark.parametrize(
    ("rooms", "folder"),
    [
        (OF_PROTOCOL, "dp_operators/releasing"),
        (OF_APPLICATION, "spark_jobs/application"),
        ([FEDERATION_POINTS], "spark_jobs/federation"),
    ],
)
def test_every_name_is_called_where_it_belongs_and_no_other(rooms, folder):
    source = "".join(path.read_text() for path in (ROOT / folder).rglob("*.py"))
    assert set(re.findall(r'failpoint\("(\w+)"\)', source)) == {name for room in rooms for name in room}
