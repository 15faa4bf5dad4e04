"""A worker that dies leaves its application's handle: the next one looks before it submits again."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from dp_operators.releasing import ApplicationRuns, Handle, ReleaseFailed, RunState, Waiting, release_stale
from spark_jobs.contract.store.failpoints import VARIABLE
from tests.support.backends import FolderBackend
from tests.support.release_lab import Attempt, Lab, draft_folder, judge


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dp_operators.releasing.following.POLL_ELSEWHERE_SECONDS", 0.0)


def dies_at(lab: Lab, point: str, backend: FolderBackend) -> None:
    assert Attempt(lambda: lab.release(runner=backend), lab.folder, point).wait().killed


@pytest.mark.parametrize("idempotent", [True, False])
def test_next_worker_waits_for_the_application_that_still_runs(lab: Lab, idempotent: bool) -> None:
    backend = FolderBackend(lab.folder, idempotent=idempotent)
    dies_at(lab, "after_keep_handle", backend)
    assert not lab.release(runner=backend).adopted
    assert backend.submitted == 1
    assert lab.charges()[0].runs == 1
    judge(lab)


def test_worker_that_died_before_it_kept_the_handle_is_followed_by_no_second_application(lab: Lab) -> None:
    backend = FolderBackend(lab.folder)
    for _ in range(2):
        dies_at(lab, "before_keep_handle", backend)
    lab.release(runner=backend)
    assert backend.submitted == 1
    judge(lab)


def test_backend_without_names_may_run_a_second_application_and_the_draw_is_still_one(lab: Lab) -> None:
    backend = FolderBackend(lab.folder, idempotent=False)
    dies_at(lab, "before_keep_handle", backend)
    lab.release(runner=backend)
    assert backend.submitted == 2
    judge(lab)


def answering(backend: FolderBackend, *answers: RunState) -> FolderBackend:
    """The backend, whose first looks have these answers."""
    left, look = list(answers), backend.look
    backend.look = lambda handle: left.pop(0) if left else look(handle)  # type: ignore[method-assign]
    return backend


def test_application_that_cannot_be_asked_for_is_submitted_again_as_the_same_one(lab: Lab) -> None:
    dies_at(lab, "after_keep_handle", FolderBackend(lab.folder))
    backend = answering(FolderBackend(lab.folder), RunState.UNKNOWN, RunState.UNKNOWN)
    lab.release(runner=backend)
    assert (backend.submitted, lab.charges()[0].runs) == (1, 1)
    judge(lab)


@pytest.mark.parametrize("idempotent", [True, False])
def test_backend_that_is_away_for_a_while_runs_no_second_application(lab: Lab, idempotent: bool) -> None:
    """The attempts meanwhile cannot submit; the application of the first one still runs after them."""
    dies_at(lab, "after_keep_handle", FolderBackend(lab.folder, idempotent=idempotent))

    def refuse(submission: object) -> Handle:
        raise OSError("away")

    for _ in range(2):
        away = answering(FolderBackend(lab.folder, idempotent=idempotent), *[RunState.UNKNOWN] * 9)
        away.submit = refuse  # type: ignore[method-assign]
        with pytest.raises(ReleaseFailed, match=r"the application could not be run \(OSError\)"):
            lab.release(runner=away)
    backend = FolderBackend(lab.folder, idempotent=idempotent, looks=4)
    lab.release(runner=backend)
    assert backend.submitted == 1
    assert lab.states() == ["committed"]
    judge(lab)


def test_run_that_has_stated_its_end_is_not_submitted_again_under_its_number(lab: Lab) -> None:
    """Another application of the same run may read rows, and the statement would still speak for it."""
    failing = FolderBackend(lab.folder, behaviour="fail early")
    with pytest.raises(ReleaseFailed):
        lab.release(runner=failing)
    (draft_folder(lab) / "handle-1.json").unlink()
    lab.release(runner=FolderBackend(lab.folder))
    assert (failing.submitted, lab.charges()[0].runs) == (2, 2)
    judge(lab)


def test_application_that_ended_without_a_draw_is_followed_by_another_run(lab: Lab) -> None:
    failing = FolderBackend(lab.folder, behaviour="fail")
    with pytest.raises(ReleaseFailed):
        lab.release(runner=failing)
    lab.release(runner=FolderBackend(lab.folder))
    assert failing.submitted == 2
    assert lab.charges()[0].runs == 2
    judge(lab)


def test_caller_that_does_not_wait_comes_back_to_the_outcome_of_its_run(lab: Lab) -> None:
    backend = FolderBackend(lab.folder)
    with pytest.raises(ApplicationRuns) as first:
        lab.release(runner=backend, waiting=Waiting(here=False))
    with pytest.raises(ApplicationRuns) as again:
        lab.release(runner=backend, waiting=Waiting(here=False, awaited=first.value.run))
    assert (first.value.run, first.value.handle) == (again.value.run, again.value.handle)
    while backend.look(first.value.handle) is RunState.RUNNING:
        pass
    lab.release(runner=backend, waiting=Waiting(here=False, awaited=first.value.run))
    assert (backend.submitted, lab.states()) == (1, ["committed"])
    judge(lab)


def test_caller_that_has_waited_for_a_failure_fails_and_the_retry_runs_again(lab: Lab) -> None:
    failing = FolderBackend(lab.folder, looks=1, behaviour="fail")
    with pytest.raises(ApplicationRuns) as running:
        lab.release(runner=failing, waiting=Waiting(here=False))
    with pytest.raises(ReleaseFailed, match="ended without a draft"):
        lab.release(runner=failing, waiting=Waiting(here=False, awaited=running.value.run))
    assert failing.submitted == 1
    with pytest.raises(ApplicationRuns) as retried:
        lab.release(runner=failing, waiting=Waiting(here=False))
    assert retried.value.run == 2
    judge(lab)


@pytest.mark.parametrize("state", list(RunState))
def test_reservation_whose_application_runs_or_cannot_be_asked_for_is_not_stale(lab: Lab, state: RunState) -> None:
    backend = FolderBackend(lab.folder)
    with pytest.raises(ApplicationRuns):
        lab.release(runner=backend, waiting=Waiting(here=False))
    ledger = lab.ledger()
    [outcome] = release_stale(
        lab.output, ledger=ledger, older_than=timedelta(0), reason="tests", look=lambda handle: state
    )
    ledger.close()
    assert lab.states() == ["burnt" if state is RunState.ENDED else "reserved"]
    assert bool(outcome.kept) == (state is not RunState.ENDED)
    judge(lab)


def test_handle_is_sealed_and_a_planted_one_is_none(lab: Lab) -> None:
    backend = FolderBackend(lab.folder)
    with pytest.raises(ApplicationRuns) as running:
        lab.release(runner=backend, waiting=Waiting(here=False))
    kept = draft_folder(lab) / "handle-1.json"
    assert running.value.handle.id.encode() not in kept.read_bytes()
    kept.write_bytes(Handle(backend="folder", id="another").to_json())
    lab.release(runner=backend)
    assert backend.submitted == 1
    judge(lab)


def test_wait_that_is_told_to_stop_ends_the_application_elsewhere(lab: Lab) -> None:
    backend = FolderBackend(lab.folder, looks=1000)
    with suppress(ReleaseFailed):
        lab.release(runner=backend, waiting=Waiting(stopped=lambda: backend.submitted == 1))
    assert not list(backend.folder.glob("*.running"))
    assert lab.states() == ["reserved"]


def test_attempt_that_is_told_to_stop_submits_nothing(lab: Lab) -> None:
    backend = FolderBackend(lab.folder)
    with pytest.raises(ReleaseFailed, match="could not be run"):
        lab.release(runner=backend, waiting=Waiting(stopped=lambda: True))
    assert backend.submitted == 0


def test_handle_that_cannot_be_kept_leaves_no_application(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = FolderBackend(lab.folder)
    monkeypatch.setattr("dp_operators.releasing.applications.Seal.close", lambda *_, **__: 1 / 0)
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ZeroDivisionError):
        lab.release(runner=backend)
    assert not list(backend.folder.glob("*.running"))
