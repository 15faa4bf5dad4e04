"""The contract of a backend: submit, look and kill, wherever the application runs; each backend's tests inherit it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import pytest

from dp_operators.releasing import Backend, Handle, RunState, Submission
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE

SECRET = bytes(range(32))
SUBMISSION = Submission(
    request_uri="/out/request.json",
    request_sha256="0f" * 32,
    charge_id="c1",
    key="-a key/with spaces",
    output="/out",
    run=3,
    secret=SECRET,
)


@dataclass(frozen=True, kw_only=True)
class Started:
    """An application that a backend has started: the end of its command line, and its environment."""

    arguments: list[str]
    variables: dict[str, str] = field(repr=False)


class Place(Protocol):
    """Where a backend submits to, from the other side."""

    def backend(self) -> Backend:
        """A backend for this place, as any worker would make it."""

    def started(self) -> list[Started]:
        """The applications that were started, in order."""

    def end(self, handle: Handle) -> None:
        """Let an application end by itself."""

    def cut(self) -> None:
        """Make the place unreachable."""


def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


class BackendContract:
    """What holds for every backend; a subclass has the fixture ``place``."""

    def test_application_runs_with_its_arguments_and_its_secret_until_it_ends(self, place: Place) -> None:
        backend = place.backend()
        handle = backend.submit(SUBMISSION)
        eventually(lambda: len(place.started()) == 1)
        [started] = place.started()
        assert started.arguments[: len(SUBMISSION.arguments())] == SUBMISSION.arguments()
        assert started.variables[RUN_SECRET_VARIABLE] == SECRET.hex()
        assert backend.look(handle) is RunState.RUNNING
        place.end(handle)
        eventually(lambda: backend.look(handle) is RunState.ENDED)
        backend.kill(handle)
        assert backend.look(handle) is RunState.ENDED

    def test_another_worker_sees_and_ends_the_application_by_the_handle_that_was_kept(self, place: Place) -> None:
        handle = Handle.from_json(place.backend().submit(SUBMISSION).to_json())
        assert SECRET.hex() not in str(handle)
        other = place.backend()
        eventually(lambda: len(place.started()) == 1)
        assert other.look(handle) is RunState.RUNNING
        other.kill(handle)
        eventually(lambda: other.look(handle) is RunState.ENDED)
        other.kill(handle)

    def test_handle_of_another_backend_is_unknown_and_nothing_is_ended_by_it(self, place: Place) -> None:
        backend = place.backend()
        handle = backend.submit(SUBMISSION)
        foreign = replace(handle, backend="another")
        assert backend.look(foreign) is RunState.UNKNOWN
        backend.kill(foreign)
        assert backend.look(handle) is RunState.RUNNING
        backend.kill(handle)

    def test_run_that_is_submitted_twice_is_one_application_where_the_backend_says_so(self, place: Place) -> None:
        if not place.backend().idempotent:
            pytest.skip("this backend takes no name of the caller's, so that each submission is an application")
        first, again = place.backend().submit(SUBMISSION), place.backend().submit(SUBMISSION)
        assert (first.id, len(place.started())) == (again.id, 1)
        other = place.backend().submit(replace(SUBMISSION, run=4))
        assert other.id != first.id
        assert len(place.started()) == 2

    def test_run_that_has_ended_is_not_started_again_where_the_backend_knows_it(self, place: Place) -> None:
        if not place.backend().idempotent:
            pytest.skip("this backend takes no name of the caller's, so that each submission is an application")
        handle = place.backend().submit(SUBMISSION)
        place.end(handle)
        assert place.backend().look(place.backend().submit(SUBMISSION)) is RunState.ENDED
        assert len(place.started()) == 1

    def test_place_that_cannot_be_reached_is_unknown_and_starts_and_ends_nothing(self, place: Place) -> None:
        backend = place.backend()
        if not backend.elsewhere:
            pytest.skip("this machine can always be reached")
        handle = backend.submit(SUBMISSION)
        place.cut()
        assert backend.look(handle) is RunState.UNKNOWN
        with pytest.raises(OSError, match=r"."):
            backend.kill(handle)
        with pytest.raises(OSError, match=r"."):
            backend.submit(replace(SUBMISSION, run=4))

    def test_nothing_secret_is_shown(self, place: Place) -> None:
        backend = place.backend()
        handle = backend.submit(SUBMISSION)
        eventually(lambda: len(place.started()) == 1)
        assert SECRET.hex() not in "".join([repr(backend), repr(handle), *place.started()[0].arguments])
        backend.kill(handle)
