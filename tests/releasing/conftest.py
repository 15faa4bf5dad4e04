"""A laboratory of its own for each test, in memory where the machine has such a place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

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
