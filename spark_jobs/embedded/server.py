"""The process of the embedded engine: ``python -P server.py FOLDER``, started by ``spark_jobs.embedded.client`` alone.

pysail's server listens on a loopback port and asks for no secret, so that whoever connected could read this user's
files. Three measures keep other users out:

1. The only way in is a Unix socket in ``FOLDER``, which only this user may enter; of its connections, only those of the
   parent process are accepted (``SO_PEERCRED``). A relay carries their bytes to the port.
2. A kernel packet filter on the listening port drops every packet that does not come from one of the ports that the
   relay has bound beforehand (``SO_ATTACH_FILTER``, which needs no privilege).
3. No session can begin until the filter is in place and tested and nobody is connected. For each session the server
   asks the module ``pyspark`` for its version; here a stand-in for this module answers, and it does not answer earlier.
   If somebody connected before the filter was in place, the process ends, and no session has begun.

When the parent ends, the standard input of this process is closed; the process then ends, and removes the folder. Only
SIGKILL ends it earlier: other signals are ignored, so that a signal to a whole group of processes leaves no files
behind.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

PROTOCOL = "4.2.0"
"""The PySpark whose defaults of settings the server takes; it knows none of later ones, and settings are all set."""
CONNECTIONS = 4
"""How many connections the parent may have at once; its client has one, and another after a fault."""
SOCKET = "engine"
"""Its name in the folder."""
READY = "ready\n"
_SO_ATTACH_FILTER = 26
_LOOPBACK = "127.0.0.1"
_CHUNK = 2**18


class _Version(ModuleType):
    """What the server takes for PySpark: it has only a version, once the door is locked."""

    def __init__(self) -> None:
        super().__init__("pyspark")
        self.locked = threading.Event()
        self.was_early = False

    @property
    def __version__(self) -> str:
        self.was_early |= not self.locked.is_set()
        self.locked.wait()
        return PROTOCOL


def main(folder: Path) -> None:
    """Serve the parent process until it ends."""
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    version = _Version()
    sys.modules["pyspark"] = version
    from pysail.spark import SparkConnectServer

    own = [_bound() for _ in range(CONNECTIONS + 1)]
    *callers, stranger = own
    server = SparkConnectServer(_LOOPBACK, 0)
    server.start(background=True)
    address: tuple[str, int] = server.listening_address
    lock(listener(address), [caller.getsockname()[1] for caller in callers])
    if not is_locked(address, stranger) or has_callers(address) or version.was_early:
        _end(folder, 1)
    stranger.close()
    version.locked.set()
    door = socket.socket(socket.AF_UNIX)
    os.chdir(folder)  # a socket's path has at most 107 bytes, and a folder's may have more
    door.bind(SOCKET)
    door.listen(CONNECTIONS)
    sys.stdout.write(READY)
    sys.stdout.flush()
    for caller in callers:
        threading.Thread(target=_serve, args=(door, parent, caller, address), daemon=True).start()
    threading.Event().wait()


def lock(listening: socket.socket, ports: Sequence[int]) -> None:
    """Let the kernel drop all packets to a listening socket that do not come from these ports.

    Sockets of accepted connections inherit the filter. A port that one socket has bound exclusively cannot be bound by
    anybody else.
    """
    load_port, equal, give = 0x28, 0x15, 0x06  # the first half word of a TCP header is the port it comes from
    steps = [(load_port, 0, 0, 0)]
    steps += [(equal, len(ports) - place, 0, port) for place, port in enumerate(ports)]
    steps += [(give, 0, 0, 0), (give, 0, 0, 2**32 - 1)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    listening.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(steps), ctypes.addressof(program))
    )


def is_locked(address: tuple[str, int], stranger: socket.socket) -> bool:
    """Whether a socket with another port fails to connect; some systems accept a filter and ignore it."""
    stranger.settimeout(0.05)
    try:
        stranger.connect(address)
    except TimeoutError:
        return True
    return False


def has_callers(address: tuple[str, int]) -> bool:
    """Whether anybody is connected to the port, or has been."""
    port = f":{address[1]:04X}"
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    syn_sent, waiting, listening = "02", "06", "0A"
    others = [line.split() for line in lines]
    return any(
        one.endswith(port) for _, *ends, state in (line[:4] for line in others) for one in ends
        if state not in (syn_sent, waiting, listening)
    )  # fmt: skip


def listener(address: tuple[str, int]) -> socket.socket:
    """The socket of this process that listens on the port; the server created it.

    Raises:
        OSError: no socket of this process listens there.
    """
    for descriptor in Path("/proc/self/fd").iterdir():
        number = int(descriptor.name)
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
        except OSError:
            continue  # closed by now, as that of the list itself is
        copy = socket.socket(fileno=os.dup(number))
        if copy.getsockname() == address and copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return copy
        copy.close()
    raise OSError("the server does not listen")


def _bound() -> socket.socket:
    bound = socket.socket()
    bound.bind((_LOOPBACK, 0))
    return bound


def _serve(door: socket.socket, parent: int, caller: socket.socket, address: tuple[str, int]) -> None:
    """Carry the bytes of one connection of the parent's."""
    while True:
        inside, _ = door.accept()
        pid, _, _ = struct.unpack("3i", inside.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if pid == parent:
            break
        inside.close()
    caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    caller.connect(address)
    back = threading.Thread(target=_carry, args=(caller, inside), daemon=True)
    back.start()
    _carry(inside, caller)
    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has ended


def _end_with_parent(folder: Path) -> None:
    os.read(0, 1)  # it returns once the parent has ended
    _end(folder, 0)


def _end(folder: Path, status: int) -> NoReturn:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(status)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
