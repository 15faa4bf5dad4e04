"""The contract of a backend: submit, look and kill, wherever the application runs; each backend's tests inherit it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from dp_operators.releasing import ApplicationRuns, Backend, Handle, RunState, Submission, Waiting
from dp_operators.triggers.application import ApplicationTrigger
from spark_jobs.contract.store.layout import ExitCode
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE
from tests.support import fake_application
from tests.support.release_lab import Attempt, Lab, judge

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

    def end_all(self) -> None:
        """Let every application end by itself."""

    def cut(self) -> None:
        """Make the place unreachable."""


def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


def run_applications(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every application do its work, and end."""
    for started in place.started():
        monkeypatch.setenv(RUN_SECRET_VARIABLE, started.variables[RUN_SECRET_VARIABLE])
        assert fake_application.main(started.arguments) == ExitCode.DONE
    place.end_all()


async def looked_at_twice(waiting: ApplicationRuns, work: Callable[[], None]) -> list[dict[str, Any]]:
    """What a second trigger says once the application has done its work; the first is killed while it looks."""

    async def event() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("the trigger ended without an event")

    fields = {"runner": "cluster", "spark_conn_id": "place", "handle": asdict(waiting.handle), "run": waiting.run}
    trigger = ApplicationTrigger(**fields, interval=0.05)
    first = asyncio.create_task(event())
    await asyncio.sleep(0.3)
    first.cancel()
    second = asyncio.create_task(event())
    await asyncio.sleep(0.3)
    assert not second.done()
    work()
    return [await asyncio.wait_for(second, 60)]


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

    def test_workers_and_triggers_that_are_killed_between_submit_and_look_leave_one_draw(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And one application, where the backend says so."""
        backend = place.backend()
        monkeypatch.setattr("dp_operators.releasing.following.POLL_ELSEWHERE_SECONDS", 0.0)
        monkeypatch.setattr("dp_operators.tasks.runners.make_runner", lambda *_, **__: place.backend())
        monkeypatch.setattr(type(backend), "check", lambda *_: None)  # there is no table
        points = ("before_keep_handle", "before_keep_handle", "after_keep_handle")
        applications = 1 if backend.idempotent else len(points)
        with tempfile.TemporaryDirectory() as folder:
            lab = Lab(Path(folder))
            for point in points:
                attempt = Attempt(lambda: lab.release(runner=place.backend()), lab.folder, point)
                assert attempt.wait().killed
            eventually(lambda: len(place.started()) == applications)
            if backend.elsewhere:
                with pytest.raises(ApplicationRuns) as waiting:
                    lab.release(runner=place.backend(), waiting=Waiting(here=False))
                events = asyncio.run(looked_at_twice(waiting.value, lambda: run_applications(place, monkeypatch)))
                assert events == [{"run": waiting.value.run, "state": "ended"}]
                lab.release(runner=place.backend(), waiting=Waiting(here=False, awaited=waiting.value.run))
            else:
                run_applications(place, monkeypatch)
                lab.release(runner=place.backend())
            assert len(place.started()) == applications
            assert lab.states() == ["committed"]
            judge(lab)

    def test_worker_whose_looks_have_no_answer_starts_no_second_application_where_the_backend_says_so(
        self, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It submits the run again, which the backend knows by its token."""
        backend = place.backend()
        if not backend.idempotent:
            pytest.skip("this backend takes no name of the caller's, so that each submission is an application")
        monkeypatch.setattr(type(backend), "check", lambda *_: None)  # there is no table
        with tempfile.TemporaryDirectory() as folder:
            lab = Lab(Path(folder))
            assert Attempt(lambda: lab.release(runner=place.backend()), lab.folder, "after_keep_handle").wait().killed
            with monkeypatch.context() as silent:
                silent.setattr(type(backend), "look", lambda *_: RunState.UNKNOWN)
                with pytest.raises(ApplicationRuns) as waiting:
                    lab.release(runner=place.backend(), waiting=Waiting(here=False))
            assert waiting.value.run == 1
            run_applications(place, monkeypatch)
            lab.release(runner=place.backend(), waiting=Waiting(here=False, awaited=1))
            assert len(place.started()) == 1
            assert lab.states() == ["committed"]
            judge(lab)
