"""Every benchmark runs to its end: what it imports is there, and fits.

Those whose data are absent say so and skip their work. Those that install other libraries or take minutes even so
belong to ``make soak``.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.__main__ import names
from tests.support.repository import ROOT

LONG = {"forecasts", "growth", "honesty", "large_tables", "one_pass", "peer_speed", "peer_tables", "peers",
        "rare_classes", "roc_accuracy", "score_counts"}  # fmt: skip

pytestmark = [pytest.mark.slow, pytest.mark.verify]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.soak] if name in LONG else []) for name in names()]
)
def test_a_benchmark_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
