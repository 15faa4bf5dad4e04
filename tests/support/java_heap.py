"""What is alive in a Java process of this user, by the protocol of ``jcmd`` (HotSpot's attach listener)."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path

import psutil

_PATIENCE = 60.0


def java_below(pid: int) -> int:
    """The Java process among the descendants of a process."""
    [java] = [child.pid for child in psutil.Process(pid).children(recursive=True) if "java" in child.name()]
    return int(java)


def live_objects(pid: int) -> dict[str, int]:
    """The number of live objects of each class, after a collection of garbage."""
    lines = _ask(pid, "inspectheap", "-live").splitlines()
    rows = (re.match(r"\s*\d+:\s+(\d+)\s+\d+\s+(\S+)", line) for line in lines)
    return {row[2]: int(row[1]) for row in rows if row}


def live_heap(pid: int, file: Path) -> bytes:
    """The live part of the heap, as Java writes it to a new file."""
    _ask(pid, "dumpheap", str(file), "-live")
    return file.read_bytes()


def _ask(pid: int, command: str, *words: str) -> str:
    """The listener's answer, whose first line is 0."""
    door = Path(f"/tmp/.java_pid{pid}")
    if not door.exists():
        trigger = Path(f"/proc/{pid}/cwd/.attach_pid{pid}")
        trigger.touch()
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + _PATIENCE
        while not door.exists():
            assert time.monotonic() < deadline, "Java opens no listener"
            time.sleep(0.05)
        trigger.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.settimeout(_PATIENCE)
        listener.connect(str(door))
        arguments = [*words, "", "", ""][:3]
        listener.sendall(b"".join(word.encode() + b"\0" for word in ("1", command, *arguments)))
        answer = b"".join(iter(lambda: listener.recv(2**16), b""))
    status, _, text = answer.decode().partition("\n")
    assert status == "0", text
    return text
