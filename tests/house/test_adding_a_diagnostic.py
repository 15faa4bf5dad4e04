"""The page on adding a diagnostic, followed: two kinds of four files each in a copy of the tree, and all suites."""

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
KINDS = ("psi", "mean_gap")
PRODUCT_LINES, PASSED = 200, 100
CHOSEN = "(psi and not epsilon) or mean_gap"
SUITES = (
    "tests/audit/test_replay.py",
    "tests/application/test_rehearsal.py",
    "tests/checks_release/test_declared_rules.py",
    "tests/contract/test_headlines.py",
    "tests/diagnostics/test_extreme_noise.py",
    "tests/diagnostics/test_ten_billion_rows.py",
    "tests/operators/test_diagnostic_operators.py",
    "tests/publishing/test_pages.py",
)
"""Suites that take their kinds from the registry and ``EXAMPLES``."""


def files() -> dict[str, str]:
    """The files that the page prints, by path."""
    return dict(re.findall(r"^`([\w/]+\.py)`:\n\n```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_four_files_and_two_hundred_lines(kind: str) -> None:
    own = {path: text for path, text in files().items() if kind in path}
    assert sorted(own) == [
        f"spark_jobs/contract/options/{kind}.py",
        f"spark_jobs/diagnostics/{kind}/__init__.py",
        f"spark_jobs/diagnostics/{kind}/page.py",
        f"tests/diagnostics/test_{kind}.py",
    ]
    assert sum(len(text.splitlines()) for path, text in own.items() if path.startswith("spark_jobs/")) <= PRODUCT_LINES


@pytest.mark.verify
def test_the_page_makes_two_kinds(tmp_path: Path) -> None:
    for folder in ("spark_jobs", "dp_operators", "tests", "benchmarks"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "*.xz"))
    for name in ("pyproject.toml", "setup.cfg"):
        shutil.copy(ROOT / name, tmp_path)
    for path, text in files().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)

    def run(*command: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("ruff", "check", "--quiet", *files())
    run("ruff", "format", "--check", *files())
    run("tests.support.operator_source")
    tests = [path for path in files() if path.startswith("tests/")]
    ran = run("pytest", "-q", "-rN", "-p", "no:xdist", "-p", "no:cacheprovider", "-k", CHOSEN, *tests, *SUITES)
    passed = re.search(r"(\d+) passed", ran)
    assert passed, ran
    assert int(passed[1]) >= PASSED, ran
