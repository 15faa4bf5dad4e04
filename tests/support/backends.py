"""A backend whose application has ended when it was submitted: what runs in the tests' own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.submissions import Submission


class EndedBackend:
    """Runs the application to its end on submission; what it does is ``run``."""

    elsewhere = False
    idempotent = False

    def check(self, request: Any) -> None:
        pass

    def submit(self, submission: Submission) -> Handle:
        self.run(submission, lambda line: None)
        return Handle(backend="test", id=str(submission.run))

    def run(self, submission: Submission, progress: Callable[[str], None]) -> None:
        raise NotImplementedError

    def look(self, handle: Handle) -> RunState:
        return RunState.ENDED

    def kill(self, handle: Handle) -> None:
        pass
