"""Signatures that a type checker knows, in a file of a user's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

pytestmark = [pytest.mark.verify, pytest.mark.slow]

PROGRAM = """
from spark_jobs.diagnostics import auc, linear_regression, roc_curve
from spark_jobs.statistics import PointCounts, ScoreCounts

counts = ScoreCounts.from_arrays([0, 1], [0.2, 0.7])
curve: roc_curve.RocCurve = roc_curve.release(counts, epsilon="0.5", method="tree", thresholds=64)
area: float | None = auc.release(counts, epsilon=1).value
auc.release(counts, epsilon=1, method="tre")
auc.release(counts, epsilon=1, thresholds=64)
auc.release(counts)
linear_regression.release(counts, epsilon=1)
roc_curve.release(counts, epsilon=1).aucc
"""
ERRORS = {8: "arg-type", 9: "call-arg", 10: "call-arg", 11: "arg-type", 12: "attr-defined"}


def test_a_misspelt_method_does_not_pass_a_strict_type_check(tmp_path: Path) -> None:
    (tmp_path / "analysis.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    command += ["--follow-imports=silent", "--ignore-missing-imports", "analysis.py"]
    environment = {"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    found = {
        int(line.split(":")[1]): line.rsplit("[", 1)[1].rstrip("]")
        for line in run.stdout.splitlines()
        if line.startswith("analysis.py") and ": error:" in line
    }
    assert found == ERRORS, run.stdout + run.stderr
