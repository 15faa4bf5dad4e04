"""A session of the embedded engine, whose process ends with the process that started it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.embedded_engine import EMBEDDED
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.embedded import server
from spark_jobs.embedded.installed import REMEDY, machine_memory, require_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
"""The variable by which PySpark's functions make expressions for a server."""
FOLDER = "spark.dp_diagnostics.folder"
_PREFIX = "dp-engine-"
_MEMORY = 2**32
"""The most bytes that queries hold at once, or half of the machine's memory; beyond it they use the folder."""
_STALE_SECONDS = 60.0
_ENVIRONMENT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")
"""What the engine's process gets of this one's environment, which may hold credentials and settings of the engine."""


@contextmanager
def embedded_session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session of an embedded engine started for it, with these SQL settings; the engine ends with the context.

    The session's setting ``FOLDER`` names a folder for further private files, which is removed with the engine.

    Raises:
        InvalidRequest: the engine cannot be started here.
    """
    require_engine()
    engine = EmbeddedEngine()
    before = os.environ.get(CONNECT_MODE)
    try:
        spark = engine.session()
        os.environ[CONNECT_MODE] = "1"  # functions then make expressions for such a session
        for name, value in {**settings, FOLDER: str(engine.folder)}.items():
            spark.conf.set(name, value)
        try:
            yield spark
        finally:
            spark.stop()
    finally:
        if before is None:
            os.environ.pop(CONNECT_MODE, None)
        engine.end()


class EmbeddedEngine:
    """The engine's process, started at once so that it gets ready while this process imports PySpark.

    Attributes:
        folder: readable by this user alone; holds the socket, and what queries write when memory is short.
        process: the process of the engine.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.folder, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        _sweep(self.folder.parent)
        self.process = subprocess.Popen(
            [sys.executable, "-P", server.__file__, str(self.folder)],
            env=_environment(self.folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[self._lock],  # the process holds the lock as long as it lives
            umask=0o077,
        )

    def session(self) -> SparkSession:
        """A session on the engine; waits until the engine is ready.

        Raises:
            InvalidRequest: the engine cannot be started here.
        """
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        # a socket's path has at most 107 bytes, and a folder's may have more
        path = f"/proc/self/fd/{self._lock}/{server.SOCKET}"

        class _Channels(DefaultChannelBuilder):
            def toChannel(self) -> Any:  # noqa: N802 - PySpark's name
                return self._insecure_channel(f"unix:{path}")

        output = self.process.stdout
        if output is None or output.readline() != server.READY.encode():
            raise InvalidRequest(
                "master", EMBEDDED, "must be able to start on this machine, protected from its other users",
                f"look into the private log, or {REMEDY}",
            )  # fmt: skip
        # the server takes no name of a host from a path
        options = [("grpc.default_authority", "localhost")]
        session: Any = ConnectSession.builder.channelBuilder(_Channels("sc://embedded", options)).create()
        # an engine that is gone does not come back; by default the client looks for it for ten minutes
        session.client.set_retry_policies([DefaultPolicy(max_retries=1, initial_backoff=10)])
        return session  # type: ignore[no-any-return]

    def end(self) -> None:
        """End the process and remove its folder."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    memory = min(_MEMORY, machine_memory() // 2)
    return {
        **kept,
        "SAIL_MODE": "local",
        "SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair",
        "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(memory),
        "SAIL_RUNTIME__TEMPORARY_FILES__PATHS": f'["{folder}"]',
        "TMPDIR": str(folder),
        "RUST_LOG": "off",  # its log quotes plans
        "TZ": "UTC",
    }


def _sweep(parent: Path) -> None:
    """Remove the folders of engines of this user that were killed together with the process that they served."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.geteuid() or time.time() - status.st_mtime < _STALE_SECONDS:
                continue
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(opened)
