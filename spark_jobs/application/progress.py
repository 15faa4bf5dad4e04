"""The public output of the application: its stages, and refusals of a request.

All other output of the process, such as Spark's log, tracebacks or values of a malformed row, goes to a private file
inside the privacy boundary.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from spark_jobs.contract.store.layout import STAGE_NONCE_VARIABLE, ApplicationStage, stage_line


class Announcer:
    """Writes the stages: as lines marked with the caller's nonce if it gave one, otherwise as plain text."""

    def __init__(self, stream: TextIO, nonce: str | None) -> None:
        self._stream = stream
        self._nonce = nonce
        self._reached: set[ApplicationStage] = set()

    @classmethod
    def for_process(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Announcer:
        """The announcer for this process, with the nonce of its environment."""
        return cls(stream, environ.get(STAGE_NONCE_VARIABLE))

    @property
    def has_caller(self) -> bool:
        """Whether a runner reads the stages; it then keeps the process's other output private."""
        return self._nonce is not None

    @property
    def may_have_read_rows(self) -> bool:
        """Whether this process has begun to count; no row of the table is read earlier."""
        return ApplicationStage.COUNTING in self._reached

    def stage(self, stage: ApplicationStage) -> None:
        """Announce that ``stage`` begins."""
        self._reached.add(stage)
        self._write(stage_line(stage, self._nonce) if self._nonce else stage.value)

    def line(self, text: str) -> None:
        """Write one line, which must consist of public facts alone."""
        self._write(" ".join(text.split()))

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


def divert_output(folder: Path | None = None) -> tuple[TextIO, Path]:
    """Redirect all further output of this process and its children to a private file.

    Returns:
        A stream to the original standard error, and the path of the private file.
    """
    folder = folder or private_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix="spark-", suffix=".log", dir=folder)
    outside = os.fdopen(os.dup(2), "w")
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return outside, Path(name)


def private_folder() -> Path:
    """The folder for private output of applications on this machine, readable by its owner alone."""
    import platformdirs

    return Path(platformdirs.user_state_dir("dp-diagnostics")) / "private"
