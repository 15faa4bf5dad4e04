"""Releases by real runs of the application that share one Java, as those of ``dp-budget run`` for many requests do.

A release that starts Java takes about nine seconds of processor time, and one in a Java that runs about three. Where
neither the start nor the environment is what a test is about, it uses ``shared_java``; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from dp_operators.releasing import WarmRunner

OF_A_TEST = ("PYTEST_CURRENT_TEST", "XDG_STATE_HOME", "STORAGE_EMULATOR_HOST")
"""Variables that differ from test to test, by which no run is changed."""


class SharedRunner(WarmRunner):
    """A runner that takes the place of ``LocalRunner``: all that are made share their processes.

    Attributes:
        first: the one whose processes the others use.
        folder: where the application starts, and keeps what it prints.
    """

    first: ClassVar[SharedRunner | None] = None
    folder: ClassVar[Path]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.first is not None:
            for name in ("_processes", "_shared"):
                object.__setattr__(self, name, getattr(self.first, name))

    def inherited(self) -> dict[str, str]:
        """The variables that all tests have."""
        return {name: value for name, value in super().inherited().items() if name not in OF_A_TEST}

    def private_folder(self) -> Path:
        """The folder of all, because a test's own goes with it."""
        super().private_folder()
        return self.folder


@pytest.fixture(scope="session")
def shared_runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[type[SharedRunner]]:
    """The class, whose shared processes end with the run."""
    SharedRunner.folder = tmp_path_factory.mktemp("java")
    SharedRunner.folder.chmod(0o700)
    SharedRunner.first = None
    with SharedRunner() as first:
        SharedRunner.first = first
        yield SharedRunner
    SharedRunner.first = None


@pytest.fixture
def shared_java(shared_runner: type[SharedRunner], monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the local runs of a test's commands and DAGs one Java with those of other tests."""
    for module in ("dp_operators.releasing", "dp_operators.releasing.runners"):
        monkeypatch.setattr(f"{module}.LocalRunner", shared_runner)
    monkeypatch.chdir(shared_runner.folder)
