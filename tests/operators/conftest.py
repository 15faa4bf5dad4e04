"""What operators' tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dp_operators.releasing import LocalRunner


@pytest.fixture
def fake_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases are made without Spark, and what they hold is not checked against the contract."""
    command = (sys.executable, "-m", "tests.support.fake_application")
    # each task has a runner of its own, which runs one application at a time
    monkeypatch.setattr(
        "dp_operators.operators.release.make_runner",
        lambda *_, **__: LocalRunner(command=command, private_dir=tmp_path / "private", grace=5.0),
    )
    monkeypatch.setattr("dp_operators.release_check.check_release", lambda release, read: None)
