"""The reservation of a stream is free again only where nothing can have been drawn for it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from dp_operators.budget import ChargeState
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.releasing import ReleaseClosed, ReleaseError, release_stale
from tests.support.stream_lab import KEY, StreamLab, judge_stream

AT_ONCE = timedelta(seconds=-1)


@pytest.fixture
def lab(tmp_path: Path) -> StreamLab:
    return StreamLab(tmp_path)


def free_stale(lab: StreamLab) -> list[str]:
    """What ``release-stale`` makes of all reservations."""
    ledger = lab.ledger()
    try:
        look = lab.runner().look
        done = release_stale(
            lab.output, ledger=ledger, older_than=AT_ONCE, reason="nobody left", actor="ops", look=look
        )
        return [one.charge.state.value for one in done]
    finally:
        ledger.close()


def give_back(lab: StreamLab, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code of the command, and its line."""
    file = lab.folder / "stream.json"
    file.write_text(json.dumps(lab.request.to_dict()))
    options = ("--reason", "not needed", "--ledger", lab.url, "--key", KEY, "--actor", "ops")
    code = run(app, ["stream", "give-back", str(file), *options])
    said = capsys.readouterr()
    return code, (said.out + said.err).strip()


def test_a_stream_before_its_first_step_is_given_back_and_may_begin_again(lab: StreamLab) -> None:
    lab.advance(0.5)
    assert free_stale(lab) == ["void"]
    assert free_stale(lab) == []
    ledger = lab.ledger()
    assert ledger.remaining("people").epsilon == 3
    ledger.close()
    assert lab.advance(3).steps == 3
    judge_stream(lab, steps=3)


@pytest.mark.verify
@pytest.mark.parametrize(
    ("point", "became"),
    [
        ("after_reserve", "void"),
        ("before_start_run", "void"),
        ("after_start_run", "burnt"),
        ("after_run", "burnt"),
        ("before_record_steps", "burnt"),
    ],
)
def test_a_stream_that_died_is_given_back_only_if_no_run_was_started(lab: StreamLab, point: str, became: str) -> None:
    lab.attempt(point, 3).wait()
    assert free_stale(lab) == [became]
    if became == "void":
        assert lab.advance(3).steps == 3
    else:
        with pytest.raises(ReleaseClosed):
            lab.advance(3)
    judge_stream(lab, steps=3 if became == "void" else 0)


def test_a_stream_with_a_released_step_is_no_reservation(lab: StreamLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.advance(3)
    assert free_stale(lab) == []
    code, said = give_back(lab, capsys)
    assert (code, said.endswith("is committed")) == (0, True)
    assert lab.advance(5).steps == 5
    judge_stream(lab, steps=5)


@pytest.mark.parametrize("published", [False, True])
def test_a_ledger_that_forgot_the_run_burns_what_the_store_has(lab: StreamLab, published: bool) -> None:
    """The ledger is restored from a backup that was made between the reservation and the first run."""
    lab.advance(0.5)
    backup = (lab.folder / "ledger.db").read_bytes()
    lab.advance(3)
    if published:  # the encrypted object is lost as well, and what was published of it is not
        for path in lab.segments():
            path.unlink()
    (lab.folder / "ledger.db").write_bytes(backup)
    assert free_stale(lab) == ["burnt"]
    ledger = lab.ledger()
    assert ledger.remaining("people").epsilon == 2
    ledger.close()


def test_a_worker_that_comes_back_draws_nothing_readable(lab: StreamLab) -> None:
    """Its reservation is given back while its application runs; what it stores is never recorded or published."""
    runner = lab.runner(before=lambda: free_stale(lab) and None)
    with pytest.raises(ReleaseError):
        lab.advance(3, runner=runner)
    assert lab.charge().state is ChargeState.BURNT
    assert lab.snapshot() == {}


def test_the_command_says_what_became_of_the_charge(lab: StreamLab, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = give_back(lab, capsys)
    assert code == 2
    assert "key: got 'prod/wards/stream/count/-1'; must be the key of a reservation for this request" in said
    lab.advance(0.5)
    code, said = give_back(lab, capsys)
    assert (code, said.endswith("of epsilon 1 is void")) == (0, True)
