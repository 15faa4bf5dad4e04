"""The process of the embedded engine: who reaches it, what it leaves, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.contract import InvalidRequest
from spark_jobs.embedded import client, installed, server
from spark_jobs.embedded.client import EmbeddedEngine, embedded_session
from tests.support.repository import ROOT

NOBODY = 65534
SECONDS = 20.0
"""The most that a test waits for a process to end."""
SESSION = """
import os, sys
from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.embedded.client import FOLDER, embedded_session
with embedded_session(SQL_SETTINGS) as spark:
    spark.range(10).count()
    print(spark.conf.get(FOLDER), flush=True)
    sys.stdin.read()
"""
KNOCK = """
import os, socket, sys
user, way, place = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setgroups([]); os.setgid(user); os.setuid(user)
caller = socket.socket(socket.AF_UNIX if way == "socket" else socket.AF_INET)
caller.settimeout(1)
try:
    caller.connect(place if way == "socket" else ("127.0.0.1", int(place)))
    caller.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes(9))
    print("answered" if caller.recv(1) else "closed")
except TimeoutError:
    print("dropped")
except PermissionError:
    print("forbidden")
except (BrokenPipeError, ConnectionResetError):
    print("closed")
"""


@pytest.fixture
def engine() -> Iterator[EmbeddedEngine]:
    made = EmbeddedEngine()
    try:
        made.session().stop()
        yield made
    finally:
        made.end()


def knock(user: int, way: str, place: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", KNOCK, str(user), way, str(place)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def listening_port(process: int) -> int:
    """The port of loopback on which a process listens."""
    own = {str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir() if file.is_symlink()}
    lines = [line.split() for line in Path(f"/proc/{process}/net/tcp").read_text().splitlines()[1:]]
    (port,) = {int(line[1].partition(":")[2], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own}
    return port


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize(("user", "of_socket"), [(NOBODY, "forbidden"), (0, "closed")], ids=["another", "the same"])
def test_nobody_but_the_run_itself_reaches_the_engine(engine: EmbeddedEngine, user: int, of_socket: str) -> None:
    """Not even another process of the same user, as tasks of one worker are."""
    assert knock(user, "socket", engine.folder / server.SOCKET) == of_socket
    assert knock(user, "port", listening_port(engine.process.pid)) == "dropped"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_an_open_port_would_have_been_reached() -> None:
    """The control of the test above."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
        knocking = subprocess.Popen(
            [sys.executable, "-c", KNOCK, str(NOBODY), "port", str(port)], stdout=subprocess.PIPE, text=True
        )
        caller, _ = door.accept()
        caller.sendall(b"x")
        assert knocking.communicate(timeout=SECONDS)[0].strip() == "answered"
        caller.close()


def test_the_folder_is_this_users_alone(engine: EmbeddedEngine) -> None:
    assert engine.folder.stat().st_mode & 0o777 == 0o700
    assert engine.folder.stat().st_uid == os.geteuid()


def test_the_filter_is_tried_and_a_port_without_one_is_not_taken_for_locked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.socket() as allowed:
        allowed.bind(("127.0.0.1", 0))
        address = door.getsockname()
        with socket.socket() as stranger:
            assert not server.is_locked(address, stranger)
        server.lock(door, [allowed.getsockname()[1]])
        with socket.socket() as stranger:
            assert server.is_locked(address, stranger)
        allowed.settimeout(SECONDS)
        allowed.connect(address)


def started() -> tuple[subprocess.Popen[str], Path, int]:
    """A process with a session, the engine's folder, and the number of its process."""
    run = subprocess.Popen(
        [sys.executable, "-c", SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout is not None
    folder = Path(run.stdout.readline().strip())
    (child,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    return run, folder, int(child)


def wait_until(condition: Any) -> bool:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def is_gone(process: int) -> bool:
    try:
        return " Z " in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_neither_process_nor_folder(number: int) -> None:
    run, folder, child = started()
    assert folder.is_dir()
    run.send_signal(number)
    run.wait(SECONDS)
    assert wait_until(lambda: is_gone(child) and not folder.exists())


def test_what_is_left_where_both_were_killed_goes_with_the_next_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # a folder of its own: another test's start would sweep what is left here, and this one's what that has just made
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run, folder, child = started()
    os.kill(run.pid, signal.SIGSTOP)
    os.kill(child, signal.SIGKILL)
    os.kill(run.pid, signal.SIGKILL)
    run.wait(SECONDS)
    assert folder.is_dir()
    monkeypatch.setattr(client, "_STALE_SECONDS", -1.0)
    with embedded_session(SQL_SETTINGS) as spark:
        own = Path(str(spark.conf.get(client.FOLDER)))
        assert own.is_dir()
        assert not folder.exists()
        EmbeddedEngine().end()  # another start leaves a folder alone whose engine lives
        assert own.is_dir()
    assert not own.exists()


def test_an_engine_that_is_gone_fails_the_query_at_once(engine: EmbeddedEngine) -> None:
    made = EmbeddedEngine()
    try:
        spark = made.session()
        assert spark.range(3).count() == 3
        made.process.kill()
        before = time.monotonic()
        with pytest.raises(Exception, match=r"UNAVAILABLE|unavailable|onnect"):
            spark.range(3).count()
        assert time.monotonic() - before < SECONDS
    finally:
        made.end()


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ({"pysail": None}, "needs pysail 0.7.2, and this machine has none; install dp-diagnostics"),
        ({"pysail": "0.7.1"}, "needs pysail 0.7.2, and this machine has 0.7.1"),
        ({"pyspark": "4.1.3"}, "needs PySpark 4.2.x or 4.3.x with its client, and this machine has 4.1.3"),
        (
            {"pysail": None, "pyspark": "4.4.0"},
            "needs pysail 0.7.2 and PySpark 4.2.x or 4.3.x with its client, and this machine has none and 4.4.0",
        ),
    ],
)
def test_an_engine_that_nothing_was_proved_of_is_refused(
    monkeypatch: pytest.MonkeyPatch, fault: dict[str, str | None], line: str
) -> None:
    there = {"pysail": "0.7.2", "pyspark": "4.3.0", **fault}
    monkeypatch.setattr(installed, "_version", there.get)
    with pytest.raises(InvalidRequest, match=line) as refused:
        installed.require_engine()
    remedy = "; install dp-diagnostics[embedded], or dp-diagnostics[local] without Spark, or name another master"
    assert remedy in str(refused.value)


def test_two_distributions_of_one_package_are_refused_unless_they_are_one_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {"pysail": "0.7.2", "pyspark": "4.3.0", "pyspark-client": "4.2.0"}
    monkeypatch.setattr(installed, "_version", lambda name: there.get(name))
    with pytest.raises(InvalidRequest, match=r"pyspark 4.3.0 and pyspark-client 4.2.0'; must be only one of the two"):
        installed.require_engine()
    there["pyspark"] = "4.2.0"
    installed.require_engine()
    assert installed.installed_pyspark() == ("pyspark", "4.2.0")
    del there["pyspark"]
    installed.require_engine()
    assert installed.installed_pyspark() == ("pyspark-client", "4.2.0")


def test_a_machine_with_too_little_memory_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "machine_memory", lambda: 512 * 2**20)
    with pytest.raises(InvalidRequest) as refused:
        installed.require_engine()
    line = "master: got 'embedded'; needs 1024 MiB of memory, and this machine has 512; run it on a larger machine"
    assert str(refused.value) == line
    monkeypatch.setattr(installed, "machine_memory", lambda: 2**30)
    installed.require_engine()
