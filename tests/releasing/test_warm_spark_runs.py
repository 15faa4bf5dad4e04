"""Many releases by Spark: one Java for all, in which nothing of a request is left where the next one begins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from dp_operators.release_check import check_release
from dp_operators.releasing import ChargedRequest, ReleaseFailed, WarmRunner, release
from spark_jobs.contract import ReleaseRequest
from tests.support.java_heap import java_below, live_heap, live_objects
from tests.support.process_memory import files_with, memory_holds
from tests.support.small_tables import ACCOUNT, SmallTables, small_tables

pytestmark = [pytest.mark.slow, pytest.mark.verify, pytest.mark.spark]

OF_A_CONTEXT = (
    "org.apache.spark.api.java.JavaSparkContext",
    "org.apache.spark.sql.classic.Dataset",
    "org.apache.spark.broadcast.TorrentBroadcast",
    "org.apache.spark.rdd.MapPartitionsRDD",
    "org.apache.spark.storage.memory.DeserializedMemoryEntry",
    "org.apache.spark.storage.memory.SerializedMemoryEntry",
    "org.apache.spark.sql.catalyst.expressions.UnsafeRow",
)


def released(lab: SmallTables, runner: WarmRunner, number: int) -> None:
    request = ReleaseRequest.from_file(lab.requests[number])
    with closing(lab.ledger()) as ledger:
        release(ChargedRequest.of(request, ledger, f"release-{number}"), runner=runner, check=check_release)


def warm(runner: WarmRunner) -> int:
    application = runner._shared.applications.get(runner.master)
    assert application is not None
    return int(application.handle.id.split()[0])


def runs(pid: int) -> bool:
    """Whether a process runs: nobody may have asked for one that has ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_requests_share_a_java_and_nothing_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    lab = small_tables(tmp_path / "lab", tables=5, rows=2000, where="name <> 'x'")
    with WarmRunner(master="local[2]", private_dir=lab.private) as runner:
        javas = []
        for number in range(2):
            released(lab, runner, number)
            javas.append(java_below(warm(runner)))
            assert {name: n for name, n in live_objects(javas[-1]).items() if name in OF_A_CONTEXT} == {}
            heap = live_heap(javas[-1], tmp_path / f"heap-{number}")
            assert b"spark.io.encryption.enabled" in heap, "a word that is alive is in the file"
            assert b"Zebedee-" not in heap
            assert memory_holds(warm(runner), [b"Zebedee-"]) == set()
            assert list(temporary.iterdir()) == []
            assert files_with([b"Zebedee-"], lab.private, lab.output) == []
        assert javas[0] == javas[1]
        lab.damage(2)
        with pytest.raises(ReleaseFailed):
            released(lab, runner, 2)
        assert not runs(javas[0])
        released(lab, runner, 3)
        psutil.Process(java_below(warm(runner))).kill()
        released(lab, runner, 4)
        last = java_below(warm(runner))
    assert not runs(last)
    assert lab.states() == ["committed", "committed", "reserved", "committed", "committed"]
    assert list(temporary.iterdir()) == []


def test_a_run_outlives_the_command_with_the_java_that_it_uses(tmp_path: Path) -> None:
    """The command is killed while the second request counts; its run goes on, and the same command takes it up."""
    lab = small_tables(tmp_path / "lab", tables=3, rows=2000)
    words = ["run", str(lab.folder / "requests"), "--master", "local[2]", "--private-dir", str(lab.private)]
    command = [sys.executable, "-m", "dp_operators.cli", *words, "--ledger", lab.url]
    environment = {**os.environ, "DP_FAILPOINT": "after_keep_handle:after:1"}
    assert subprocess.run(command, env=environment, check=False, capture_output=True).returncode == -signal.SIGKILL
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ["found" in line for line in done.stderr.splitlines() if "report: " in line] == [True, False, False]
    assert lab.states() == ["committed"] * 3
    with closing(lab.ledger()) as ledger:
        runs = [entry for entry in ledger.log(ACCOUNT) if entry.action == "run started"]
    assert len(runs) == 3, "the run that went on was taken up, and none was started beside it"
