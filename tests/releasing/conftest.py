"""A laboratory of its own for each test, in memory where the machine has such a place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.release_lab import Lab

IN_MEMORY = Path("/dev/shm")


@pytest.fixture
def lab() -> Iterator[Lab]:
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="release-lab-", dir=place))
    try:
        yield Lab(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def command(lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("DP_LEDGER_URL", lab.url)
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0123456789abcdef" * 2)
    monkeypatch.chdir(lab.folder)
    return Command(lab=lab, capture=capsys)
