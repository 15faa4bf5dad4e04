"""The page on adding a diagnostic, followed: its six files in a copy of the tree, and the test that it prints."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repository import ROOT

PAGE = ROOT / "docs" / "contributing" / "adding-a-diagnostic.md"
PACKAGE = "spark_jobs/diagnostics/lift_at_k"
FILES = (
    "spark_jobs/contract/results/lift_at_k.py",
    f"{PACKAGE}/__init__.py",
    f"{PACKAGE}/page.py",
    "tests/diagnostics/test_lift_at_k.py",
)


@pytest.mark.verify
def test_six_files_make_a_diagnostic(tmp_path: Path) -> None:
    text = PAGE.read_text()
    for folder in ("spark_jobs", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.xz"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copy(ROOT / "setup.cfg", tmp_path)

    options, changelog = re.findall(r"```diff\n(.*?)```", text, re.S)
    module = tmp_path / "spark_jobs" / "contract" / "options" / "score_figures.py"
    for hunk in options.split("\n@@ ")[1:]:
        removed, added = ("\n".join(line[1:] for line in hunk.splitlines() if line.startswith(sign)) for sign in "-+")
        assert module.read_text().count(removed) == 1
        module.write_text(module.read_text().replace(removed, added))
    assert "lift_at_k" in changelog

    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    for name, block in zip(FILES, blocks, strict=True):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(block)

    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", FILES[-1]]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "7 passed" in run.stdout
