"""Attempts in every order: crashes between any two calls, orphans, refusals and givings back, by random schedules."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dp_operators.releasing import Published, ReleaseClosed, ReleaseFailed, ReleaseRejected
from spark_jobs.contract import InvalidRequest
from tests.support.interleaving import Crash, Stage
from tests.support.release_lab import Lab, judge

MOVES = st.tuples(st.integers(0, 5), st.integers(1, 20), st.sampled_from(["step"] * 7 + ["crash"]))
BEHAVIOURS = st.sampled_from(["", "", "", "refuse", "fail"])
NEWCOMERS = st.sampled_from(["", "refuse", "fail", "give back", "give back"])


@pytest.fixture
def stage(lab, monkeypatch):
    stage = Stage(lab, monkeypatch)
    yield stage
    stage.close()


def outcome_of(actor):
    """What an actor ended with; everything that is no outcome of the protocol is a fault of it."""
    if isinstance(actor.error, (Crash, ReleaseFailed, ReleaseRejected, ReleaseClosed, InvalidRequest)):
        return actor.error
    if actor.error is not None:
        raise actor.error
    return actor.result


def assert_settles(stage):
    """Whatever happened: one more attempt publishes, or the release was burnt."""
    last = stage.attempt()
    stage.run_all()
    judge(stage.lab, store=stage.store)
    outcome = outcome_of(last)
    states = stage.lab.states()
    if isinstance(outcome, Published):
        assert states[-1] == "committed"
    else:
        assert isinstance(outcome, ReleaseClosed)
        assert states[-1] == "burnt"
    assert set(states[:-1]) <= {"void"}


def steps_of_a_release(stage) -> int:
    actor, steps = stage.attempt(), 0
    while not actor.done:
        for each in stage.live:
            each.step()
        steps += 1
    return steps


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("orphaned", [pytest.param(False, marks=pytest.mark.soak), True])
def test_crash_between_any_two_calls_is_finished_by_a_retry(lab, monkeypatch, orphaned):
    stage = Stage(lab, monkeypatch)
    steps = steps_of_a_release(stage)
    assert steps > 50
    for crashed_at in range(steps):
        lab.key = f"release-{crashed_at}"
        lab.request = lab.request.model_copy(update={"budget": type(lab.request.budget)("0.01")})
        stage.actors.clear()
        operator = stage.attempt()
        for _ in range(crashed_at):
            for actor in stage.live:
                actor.step()
        operator.crash()
        if not orphaned:
            stage.crash_all()
        last = stage.attempt()
        stage.run_all()
        assert isinstance(outcome_of(last), Published)
    judge(lab, store=stage.store)
    assert lab.states() == ["committed"] * (steps + 1)
    stage.close()


@pytest.mark.verify
@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    first=BEHAVIOURS,
    newcomers=st.lists(NEWCOMERS, min_size=1, max_size=4),
    moves=st.lists(MOVES, min_size=5, max_size=40),
    crash_in_the_end=st.booleans(),
)
def test_any_schedule_ends_with_one_draw_and_one_release(first, newcomers, moves, crash_in_the_end):
    folder = Path(tempfile.mkdtemp(prefix="schedule-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    with pytest.MonkeyPatch.context() as monkeypatch:
        stage = Stage(Lab(folder), monkeypatch)
        try:
            play(stage, first, newcomers, moves)
            if crash_in_the_end:
                stage.crash_all()
            stage.run_all()
            judge(stage.lab, store=stage.store)
            for actor in stage.actors:
                outcome_of(actor)
            assert_settles(stage)
        finally:
            stage.close()
            shutil.rmtree(folder)


def play(stage, first, newcomers, moves):
    """Each move lets one actor make some steps or die; a move of nobody lets the next newcomer in."""
    waiting = list(newcomers)
    stage.attempt(first)
    for who, steps, fate in moves:
        live = stage.live
        if who >= len(live):
            if waiting:
                newcomer = waiting.pop(0)
                _ = stage.give_back() if newcomer == "give back" else stage.attempt(newcomer)
            continue
        if fate == "crash":
            live[who].crash()
        for _ in range(steps):
            live[who].step()


def test_schedule_in_which_two_attempts_draw_at_once_keeps_one_draw(stage):
    one, other = stage.attempt(), stage.attempt()
    while not (one.done and other.done):
        for actor in stage.live:
            actor.step()
    assert outcome_of(one).manifest_sha256 == outcome_of(other).manifest_sha256
    judge(stage.lab, store=stage.store)
