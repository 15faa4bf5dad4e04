"""The example of a federation, really run: five parties with an Airflow each release the same curve."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo.federation import Parties
from examples.demo.lake import PLANS
from tests.support.repository import ROOT

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]


def test_the_demo_of_a_federation_ends_with_one_release(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo.federation", "--home", str(tmp_path)]
    for _ in range(2):  # a second run finds the same
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "the results of the three silos are the same" in done.stdout
    manifests = [Parties(path=tmp_path).released(plan) for plan in PLANS]
    assert len({manifest["key"] for manifest in manifests if manifest}) == 1
