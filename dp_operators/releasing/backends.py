"""Where the Spark application runs: a backend submits it, checks whether it still runs, and ends it.

A backend returns no results. What the application did is read from the store alone, so that it does not matter which
attempt submitted it, or whether the backend can still tell how it ended.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar, Protocol, Self

from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest


class RunState(StrEnum):
    """The state of an application, as its backend sees it."""

    RUNNING = "running"
    ENDED = "ended"
    UNKNOWN = "unknown"
    """The backend cannot be reached, or does not know the application from here."""


@dataclass(frozen=True, kw_only=True)
class Handle:
    """Names an application that was submitted; it holds no secret.

    Attributes:
        backend: the kind of the backend that knows it.
        id: the application's name in this backend.
        place: where to look for the application: a machine, the URL of a master, a namespace.
        log: the private file on this machine with the application's output; empty if its output goes elsewhere.
    """

    backend: str
    id: str
    place: str = ""
    log: str = ""

    def to_json(self) -> bytes:
        """The handle as a document."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, document: bytes) -> Self:
        """The handle that ``to_json`` wrote.

        Raises:
            ValueError: the document describes no handle.
        """
        try:
            return cls(**json.loads(document))
        except TypeError:
            raise ValueError("the document describes no handle") from None


class RequestCheck(Protocol):
    """Checks before the charge whether a request could be run."""

    def check(self, request: TableRequest) -> None:
        """Check the configuration before anything is reserved.

        Raises:
            InvalidRequest: the configuration is wrong, or does not suit this request.
        """


class Backend(RequestCheck, Protocol):
    """Submits the Spark application to one kind of place, reads its state, and ends it.

    Attributes:
        kind: the name of the backend in its handles.
        elsewhere: whether every machine of the deployment can look at the application, which outlives the process that
            submitted it; a task may then wait without a worker.
        idempotent: whether submitting a run again returns its first application instead of starting a second one.
    """

    kind: ClassVar[str]
    elsewhere: ClassVar[bool]
    idempotent: ClassVar[bool]

    def submit(self, submission: Submission) -> Handle:
        """Start the application, and return before it ends.

        Raises:
            OSError: it could not be started.
        """

    def look(self, handle: Handle) -> RunState:
        """Whether the application still runs; raises nothing, and changes nothing."""

    def kill(self, handle: Handle) -> None:
        """End the application if it still runs; may be called at any time, and again.

        Raises:
            OSError: the backend cannot be reached.
        """


class RemoteBackend(ABC):
    """A backend behind a service that every machine of the deployment can ask.

    A subclass asks the service. Errors of the service's client become ``OSError`` or ``RunState.UNKNOWN``, without the
    client's message, which may repeat what was submitted.
    """

    elsewhere: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    kind: ClassVar[str]

    def submit(self, submission: Submission) -> Handle:
        """Start the application.

        Raises:
            OSError: it could not be started.
        """
        with self._asking():
            return self.start(submission)

    def look(self, handle: Handle) -> RunState:
        """Whether the application still runs, as the service says."""
        if handle.backend != self.kind:
            return RunState.UNKNOWN
        try:
            return self.state(handle)
        except Exception:
            return RunState.UNKNOWN

    def kill(self, handle: Handle) -> None:
        """End the application if it still runs.

        Raises:
            OSError: the service cannot be reached.
        """
        if handle.backend == self.kind:
            with self._asking():
                self.end(handle)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except (InvalidRequest, OSError):
            raise
        except Exception as error:
            raise OSError(f"{self.kind}: {type(error).__name__}") from None

    @abstractmethod
    def start(self, submission: Submission) -> Handle:
        """Submit the application."""

    @abstractmethod
    def state(self, handle: Handle) -> RunState:
        """The state of the application according to the service."""

    @abstractmethod
    def end(self, handle: Handle) -> None:
        """Ask the service to end the application."""
