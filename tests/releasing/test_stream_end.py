"""A stream that was ended releases nothing more, whatever its store or a backup still has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.releasing import ReleaseClosed, ReleaseDamaged
from tests.support.stream_lab import KEY, StreamLab


@pytest.fixture
def lab(tmp_path: Path) -> StreamLab:
    return StreamLab(tmp_path)


def command(lab: StreamLab, name: str, *options: str) -> int:
    file = lab.folder / "stream.json"
    file.write_text(json.dumps(lab.request.to_dict()))
    return run(app, ["stream", name, str(file), "--ledger", lab.url, "--key", KEY, *options])


def end(lab: StreamLab, *options: str) -> int:
    return command(lab, "end", "--reason", "the wards have closed", "--actor", "dora", *options)


def test_nothing_follows_the_end_and_the_state_is_gone(lab: StreamLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.advance(2)
    lab.advance(4)
    before, kept = lab.snapshot(), lab.folder / "backup"
    shutil.copytree(lab.segments()[0].parent, kept)
    assert end(lab) == 0
    assert (
        f"stream {KEY} is ended with 4 of 48 steps; its encrypted state stays in the store" in capsys.readouterr().out
    )
    assert len(lab.segments()) == 2
    assert end(lab, "--remove-state") == 0
    assert lab.segments() == []
    for restored in (False, True):
        if restored:
            shutil.copytree(kept, lab.root / "_draft" / lab.charge().id / "steps", dirs_exist_ok=True)
        with pytest.raises(ReleaseClosed, match="was ended at step 4; what it has published stays"):
            lab.advance(6)
        capsys.readouterr()
        assert command(lab, "show") == 0
        said = capsys.readouterr().out
        assert "committed, ended, epsilon 1" in said
        assert "4 of 48 steps are released" in said
    assert lab.snapshot() == before
    ledger = lab.ledger()
    assert ledger.verification().findings == ()
    assert ledger.remaining("people").epsilon == 2
    ledger.close()


def test_an_attempt_that_draws_meanwhile_releases_nothing(lab: StreamLab) -> None:
    lab.advance(2)
    with pytest.raises(ReleaseDamaged, match="are recorded already, with another object"):
        lab.advance(4, runner=lab.runner(before=lambda: end(lab) and None))
    assert len(lab.published()) == 1


def test_a_stream_without_a_step_is_given_back_instead(lab: StreamLab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.advance(0.5)
    assert end(lab) == 2
    assert "must be the key of a stream that has released a step; free its reservation" in capsys.readouterr().err
