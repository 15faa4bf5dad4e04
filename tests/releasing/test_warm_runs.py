"""Many releases by one application: real runs of the embedded engine, each by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from dp_operators.release_check import check_release
from dp_operators.releasing import ChargedRequest, Published, ReleaseFailed, WarmRunner, release, warm_runs
from dp_operators.releasing.reservations import seal_of
from spark_jobs.contract import ReleaseRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from spark_jobs.contract.store.layout import ReleaseLayout
from tests.support.process_memory import files_with, memory_holds
from tests.support.small_tables import SmallTables, small_tables

pytestmark = pytest.mark.slow

TABLES = 3


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallTables:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return small_tables(tmp_path / "lab", tables=TABLES, rows=2000, where="name <> 'x'")


@pytest.fixture
def runner(lab: SmallTables) -> Iterator[WarmRunner]:
    with WarmRunner(master="embedded", private_dir=lab.private) as shared:
        yield shared


def released(lab: SmallTables, runner: Any, number: int, *, key: str = "", **options: Any) -> Published:
    request = ReleaseRequest.from_file(lab.requests[number])
    with closing(lab.ledger()) as ledger:
        return release(
            ChargedRequest.of(request, ledger, key or f"release-{number}"),
            runner=runner,
            check=check_release,
            **options,
        )


def warm(runner: WarmRunner) -> int:
    application = runner._shared.applications.get(runner.master)
    assert application is not None
    return int(application.handle.id.split()[0])


def draw_of(lab: SmallTables, published: Published) -> dict[str, Any]:
    with closing(lab.ledger()) as ledger:
        charge = ledger.charge(published.charge_id)
        sealed = Path(ReleaseLayout.of(str(lab.output), published.key, charge.id).draw).read_bytes()
        return dict(json.loads(seal_of(charge, ledger).open("draw.json", sealed)))


def test_runs_of_one_process_have_draws_and_files_of_their_own(lab: SmallTables, runner: WarmRunner) -> None:
    first = released(lab, runner, 0, key="first")
    shared = warm(runner)
    logs = set(lab.private.iterdir())
    second = released(lab, runner, 0, key="second")
    assert warm(runner) == shared
    assert len(set(lab.private.iterdir()) - logs) == 1
    draws = [draw_of(lab, published) for published in (first, second)]
    assert draws[0]["measurements"] != draws[1]["measurements"], "forks draw from the system, not from a common state"
    assert draws[0]["seed"] != draws[1]["seed"]
    assert lab.states() == ["committed"] * 2


def test_nothing_of_a_request_is_left_where_the_next_one_begins(lab: SmallTables, runner: WarmRunner) -> None:
    temporary = lab.folder.parent / "temporary"
    for number in range(2):
        published = released(lab, runner, number)
        counts = json.dumps(draw_of(lab, published)["measurements"]["roc_curve"]).encode()[:60]
        canaries = [f"Zebedee-{number}-1".encode(), f"table-{number:03}".encode(), counts]
        assert memory_holds(warm(runner), [b"spark_jobs.application.warm", *canaries]) == {
            b"spark_jobs.application.warm"
        }
        assert [child.pid for child in psutil.Process(warm(runner)).children(recursive=True)] == []
        assert list(temporary.iterdir()) == []
        assert files_with(canaries[:1], lab.private, lab.output) == []


def test_memory_that_holds_a_word_is_convicted() -> None:
    program = "import sys; word = 'Zebedee-' + str(4711 - 1); print(word, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert memory_holds(process.pid, [b"Zebedee-4710", b"Zebedee-" + b"4713"]) == {b"Zebedee-4710"}
        process.communicate()


def test_a_run_that_fails_ends_the_process_and_no_other_run(lab: SmallTables, runner: WarmRunner) -> None:
    released(lab, runner, 0)
    shared = warm(runner)
    lab.damage(1)
    with pytest.raises(ReleaseFailed) as failed:
        released(lab, runner, 1)
    assert "Zebedee" not in str(failed.value)
    assert runner.failed_after_others
    assert not psutil.pid_exists(shared)
    released(lab, runner, 2)
    assert not runner.failed_after_others
    assert lab.states() == ["committed", "reserved", "committed"]


def test_a_process_that_was_killed_between_runs_is_replaced(lab: SmallTables, runner: WarmRunner) -> None:
    released(lab, runner, 0)
    os.kill(warm(runner), signal.SIGKILL)
    released(lab, runner, 1)
    assert lab.states() == ["committed"] * 2


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: while it is there, runs count; where it is removed, the next waits before it counts.

    A run of so few rows may else be at its end before anybody learns that it counts.
    """
    file = tmp_path / "gate"
    file.touch()
    monkeypatch.setenv(VARIABLE, f"before_count:pause:{file}")
    return file


@pytest.mark.parametrize("victim", ["the shared process", "the run"])
def test_what_is_killed_during_a_run_fails_that_run_alone(
    lab: SmallTables, gate: Path, runner: WarmRunner, victim: str
) -> None:
    released(lab, runner, 0)
    gate.unlink()

    def kill_once(line: str) -> None:
        if line == "counting":
            shared = psutil.Process(warm(runner))
            (shared if victim == "the shared process" else shared.children()[0]).kill()

    with pytest.raises(ReleaseFailed):
        released(lab, runner, 1, progress=kill_once)
    assert runner.failed_after_others
    gate.touch()
    released(lab, runner, 2)
    released(lab, runner, 1)
    assert lab.states() == ["committed"] * 3


def test_a_run_that_is_ended_ends_with_its_engine(lab: SmallTables, gate: Path, runner: WarmRunner) -> None:
    gate.unlink()

    class Stopped(Exception):
        pass

    engines: list[psutil.Process] = []

    def stop(line: str) -> None:
        if line == "counting":
            engines.extend(psutil.Process(warm(runner)).children(recursive=True))
            raise Stopped

    with pytest.raises(Stopped):
        released(lab, runner, 0, progress=stop)
    assert len(engines) == 2
    assert psutil.wait_procs(engines, timeout=10)[1] == []
    assert lab.states() == ["reserved"]


def test_another_environment_has_a_process_of_its_own_and_none_serves_forever(
    lab: SmallTables, runner: WarmRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    released(lab, runner, 0)
    processes = [warm(runner)]
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "another salt of other people")
    released(lab, runner, 1)
    processes.append(warm(runner))
    monkeypatch.setattr(warm_runs, "MAX_RUNS", 1)
    released(lab, runner, 2)
    assert len({*processes, warm(runner)}) == 3


def test_where_no_process_can_be_shared_a_request_has_an_application_of_its_own(
    lab: SmallTables, runner: WarmRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_runs, "_COMMAND", (sys.executable, "-c", "raise SystemExit('no memory')"))
    released(lab, runner, 0)
    assert not runner.failed_after_others
    assert lab.states() == ["committed"]
    assert len(files_with([b"no memory"], lab.private)) == 1


def command(lab: SmallTables) -> list[str]:
    words = ["run", str(lab.folder / "requests"), "--master", "embedded", "--private-dir", str(lab.private)]
    return [sys.executable, "-m", "dp_operators.cli", *words, "--ledger", lab.url]


@pytest.mark.verify
@pytest.mark.parametrize(
    "point",
    ["after_start_run", "after_keep_handle", "before_commit", "after_commit", "after_count", "after_store_draw"],
)
def test_killed_at_a_step_of_any_request_the_same_command_ends_all(lab: SmallTables, point: str) -> None:
    """In the second request, which others come before and after; an application that dies is tried once more."""
    place = f"{point}:after:1"
    done = subprocess.run(command(lab), env={**os.environ, "DP_FAILPOINT": place}, check=False, capture_output=True)
    assert done.returncode in (-signal.SIGKILL, 0, 1)
    again = subprocess.run(command(lab), check=False, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert len(set(again.stdout.split())) == TABLES
    assert lab.states() == ["committed"] * TABLES
    assert not list((lab.folder.parent / "temporary").glob("dp-engine-*"))


@pytest.mark.verify
def test_killed_at_any_moment_nothing_is_lost_and_nothing_paid_twice(lab: SmallTables) -> None:
    kills = 0
    for seconds in (1.5, 2.5, 3.5, 4.5, 5.5, 60, 60):
        with subprocess.Popen(command(lab), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            started = time.monotonic()
            while process.poll() is None and time.monotonic() < started + seconds:
                time.sleep(0.01)
            if process.poll() is None:
                process.kill()
                kills += 1
            elif process.returncode == 0:
                break
    assert kills > 0
    assert process.returncode == 0
    assert lab.states() == ["committed"] * TABLES
