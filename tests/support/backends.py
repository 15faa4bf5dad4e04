"""Backends of tests: one that has run the application when it was submitted, and one that outlives its caller."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.store.objects import open_store
from tests.support import fake_application


class EndedBackend:
    """Runs the application to its end on submission; what it does is ``run``."""

    kind = "test"
    elsewhere = False
    idempotent = False

    def check(self, request: Any) -> None:
        pass

    def submit(self, submission: Submission) -> Handle:
        self.run(submission, lambda line: None)
        return Handle(backend=self.kind, id=str(submission.run))

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        raise NotImplementedError

    def look(self, handle: Handle) -> RunState:
        return RunState.ENDED

    def kill(self, handle: Handle) -> None:
        pass


class FolderBackend(EndedBackend):
    """A cluster as a folder, which outlives the process that submits: an application ends when it has been looked at
    a number of times, or when it is killed.

    Attributes:
        idempotent: whether a token that is known is no second application.
        looks: how often an application is seen to run.
    """

    kind = "folder"
    elsewhere = True

    def __init__(self, folder: Path, *, idempotent: bool = True, looks: int = 2, behaviour: str = "") -> None:
        self.folder = folder / "cluster"
        self.folder.mkdir(exist_ok=True)
        self.idempotent = idempotent
        self.looks = looks
        self.behaviour = behaviour

    def submit(self, submission: Submission) -> Handle:
        number = len(list(self.folder.glob("*.submitted")))
        place = self.folder / (submission.token if self.idempotent else f"{submission.token}-{number}")
        if not place.with_suffix(".submitted").exists():
            place.with_suffix(".running").write_text("0")
            place.with_suffix(".submitted").write_bytes(pickle.dumps(submission))
        return Handle(backend=self.kind, id=place.name)

    def look(self, handle: Handle) -> RunState:
        running = (self.folder / handle.id).with_suffix(".running")
        if not running.exists():
            return RunState.ENDED
        looks = int(running.read_text()) + 1
        running.write_text(str(looks))
        if looks <= self.looks:
            return RunState.RUNNING
        running.unlink()
        submission = pickle.loads(running.with_suffix(".submitted").read_bytes())
        fake_application.run(submission, store=open_store(submission.output), behaviour=self.behaviour)
        return RunState.ENDED

    def kill(self, handle: Handle) -> None:
        (self.folder / handle.id).with_suffix(".running").unlink(missing_ok=True)

    @property
    def submitted(self) -> int:
        return len(list(self.folder.glob("*.submitted")))
