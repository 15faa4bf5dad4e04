"""The ways into the project: the Makefile, the CI entry, the hooks before a commit."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.repository import ROOT


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile and what it depends on, and no environment."""
    (tmp_path / "spark_jobs").mkdir()
    for name in ("Makefile", "requirements.lock", "setup.cfg", "spark_jobs/setup.cfg", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (
            'case "$*" in *version_info*) exit 1 ;; -V) echo Python 3.9.1 ;; esac',
            "Python 3.9.1 is too old: 3.11 or newer",
        ),
        (
            'case "$*" in *ensurepip*) exit 1 ;; -V) echo Python 3.11.2 ;; esac',
            "Python 3.11.2 has no venv module: install it",
        ),
        (None, "install Python 3.11 or newer"),
    ],
)
def test_make_says_in_one_line_what_is_missing(checkout: Path, python: str | None, said: str) -> None:
    name = "no-such-python" if python is None else str(script(checkout / "bin" / "python", python))
    done = make(checkout, "env", f"PYTHON={name}")
    ours = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert done.returncode != 0
    assert len(ours) == 1, done.stderr
    assert said in ours[0]
    assert "PYTHON=" in ours[0]
    assert not (checkout / ".venv").exists()


def fake_python(folder: Path, *, fails_at: str = "nothing") -> Path:
    """A Python whose environments hold nothing, and that writes down what was asked of it."""
    program = script(
        folder / "bin" / "program", f'echo "$*" >> {folder}/asked\ncase "$*" in *{fails_at}*) exit 1 ;; esac'
    )
    made = (
        f"mkdir -p .venv/bin; echo created >> {folder}/asked; cp {program} .venv/bin/python; cp {program} .venv/bin/uv"
    )
    return script(folder / "bin" / "python", f'case "$*" in "-m venv "*) {made} ;; -V) echo Python 3.11.9 ;; esac')


def test_environment_is_made_once(checkout: Path) -> None:
    python = fake_python(checkout)
    for _ in range(2):
        assert make(checkout, "-j4", "env", f"PYTHON={python}").returncode == 0
    assert (checkout / "asked").read_text().split("\n").count("created") == 1


def test_environment_is_made_anew_after_an_interruption(checkout: Path) -> None:
    python = fake_python(checkout, fails_at="sync")
    assert make(checkout, "env", f"PYTHON={python}").returncode != 0
    (checkout / ".venv" / "half-made").touch()
    python = fake_python(checkout)
    assert make(checkout, "env", f"PYTHON={python}").returncode == 0
    assert not (checkout / ".venv" / "half-made").exists()


def test_environment_is_updated_when_the_lock_file_changes(checkout: Path) -> None:
    python = fake_python(checkout)
    assert make(checkout, "env", f"PYTHON={python}").returncode == 0
    stamp = (checkout / ".venv" / ".installed").stat().st_mtime
    os.utime(checkout / "requirements.lock", (stamp + 10, stamp + 10))
    assert make(checkout, "env", f"PYTHON={python}").returncode == 0
    asked = (checkout / "asked").read_text()
    assert asked.count("created") == 1
    assert asked.count("pip sync") == 2


def test_every_target_that_needs_the_environment_makes_it() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):(.*?)##", text, re.MULTILINE)
    assert {"env", "demo", "test", "test-fast", "verify", "soak", "audit", "bench", "docs", "lint"} <= {
        name for name, _ in targets
    }
    alone = {name for name, needs in targets if "$(STAMP)" not in needs}
    assert alone == {"help", "clean", "images"}


def run_ci(folder: Path, tests: str) -> subprocess.CompletedProcess[bytes]:
    """``.ci/run`` of a checkout whose ``make`` is ``tests``, from a folder of no concern, without standard input."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    script(folder / "bin" / "make", tests)
    return subprocess.run(
        [str(folder / ".ci" / "run")],
        cwd="/",
        env={"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("test", "verify", "closing", "code"),
    [
        (
            ("===== 12 passed, 1 skipped, 7 deselected in 3.20s =====", 0),
            ("= 8 passed, 20 deselected, 2 warnings in 125.01s (0:02:05) =", 0),
            "===== 20 passed, 1 skipped, 2 warnings in 128.21s =====",
            0,
        ),
        (
            ("= 1 failed, 11 passed in 1.00s =", 2),
            ("= 8 passed in 1.00s =", 0),
            "===== 1 failed, 19 passed in 2.00s =====",
            2,
        ),
        (
            ("= 11 passed in 1.00s =", 0),
            ("= 8 passed, 1 error in 1.00s =", 2),
            "===== 19 passed, 1 error in 2.00s =====",
            2,
        ),
        (("= 3 errors in 0.01s =", 2), ("= 1 error in 0.01s =", 2), "===== 4 errors in 0.02s =====", 2),
        # ended before the tests did, and after a closing line that has nothing to complain of
        (("ruff: 3 errors", 2), ("= 8 passed in 1.00s =", 0), "===== 8 passed, 1 error in 1.00s =====", 2),
        (("= 8 passed in 1.00s =", 3), ("= 8 passed in 1.00s =", 0), "===== 8 passed, 1 error in 1.00s =====", 3),
    ],
)
def test_ci_ends_with_one_line_that_sums_both_tiers_up(
    tmp_path: Path, test: tuple[str, int], verify: tuple[str, int], closing: str, code: int
) -> None:
    tiers = "".join(
        f'if [ "$1" = {name} ]; then echo "{line}"; exit {end}; fi\n'
        for name, (line, end) in {"test": test, "verify": verify}.items()
    )
    done = run_ci(tmp_path, f'echo "$CI $* $PWD"\necho "make: something else" >&2\n{tiers}')
    lines = done.stdout.decode().splitlines()
    assert done.returncode == code
    assert [line for line in lines if line.startswith("true ")] == [f"true test {tmp_path}", f"true verify {tmp_path}"]
    assert lines[-1] == closing


def test_ci_says_so_if_no_tests_ran(tmp_path: Path) -> None:
    done = run_ci(tmp_path, "exit 0")
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert "make test ended with 0" in lines
    assert lines[-1] == "===== 2 errors in 0.00s ====="


def test_hooks_before_a_commit_fetch_nothing() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["id"] for hook in hooks} == {"ruff-format", "ruff-check", "mypy", "import-contracts"}
    for hook in hooks:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")
