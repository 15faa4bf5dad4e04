"""What takes hours: ``make soak`` runs each of its parts, and writes how they ended into a page of the documentation.

A part that this machine cannot run (a Python version that is not installed, images without root) is written down as
such, and does not fail the others. A soak that was interrupted goes on where it was: a part that has ended well with
this code is not repeated, unless it is named. The exit code is 1 if any part failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "contributing" / "soak-results.md"
AIRFLOWS = ("3.1.8", "3.2.2")
PYTHONS = ("3.11", "3.12", "3.13")
HEAD = """\
# Soak results

`make soak` writes this table of what takes too long for every change. Long audits have [their own](audit-results.md).

| Part | Command | Result | Minutes | Date | Commit | Machine |
|---|---|---|---|---|---|---|
"""
REPEATED = re.compile(r"pytest\.mark\.(soak|halved)\b")
CLOSING = re.compile(r"(\d+ (?:passed|failed|errors?).*) in [\d.]+s")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the soak.

    Attributes:
        name: as the page gives it.
        command: what is run, in the repository's root.
        missing: what this machine lacks to run it; empty if nothing.
    """

    name: str
    command: tuple[str, ...]
    missing: str = ""


@cache
def starts(program: str) -> bool:
    """Whether a program can be started; a version manager may have scripts on the path for what is not installed."""
    path = shutil.which(program)
    return path is not None and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


def parts(has: Callable[[str], bool] = starts, user: int = -1) -> tuple[Part, ...]:
    """All parts: repetitions, long audits, other providers, older Airflows, images, and all tests under each Python.

    Args:
        has: whether this machine has a program.
        user: the user's number; -1 for that of this process.
    """
    root = (os.getuid() if user < 0 else user) == 0
    tools = [tool for tool in ("buildah", "debootstrap") if not has(tool)] + ([] if root else ["root"])
    files = (path for path in sorted(TESTS.rglob("test_*.py")) if path.parent.name != "house")
    repeated = [path for path in files if REPEATED.search(path.read_text(encoding="utf-8"))]
    audits = sorted(TESTS.glob("audit/test_*_audit.py"))
    return (
        *(_part_of("repetitions", "storm", path) for path in repeated),
        *(_part_of("long audit", "audit", path) for path in audits),
        Part(name="extras", command=("make", "extras")),
        *(
            Part(name=f"Airflow {version}", command=("make", f"AIRFLOW={version}", "older-airflow"))
            for version in AIRFLOWS
        ),
        Part(name="images", command=("make", "images"), missing=", ".join(tools)),
        *(
            Part(
                name=f"Python {version}",
                command=("make", f"VENV=.venv-{version}", f"PYTHON=python{version}", "test"),
                missing="" if has(f"python{version}") else f"python{version}",
            )
            for version in PYTHONS
        ),
    )


def _part_of(what: str, target: str, path: Path) -> Part:
    words = path.stem.removeprefix("test_").removesuffix("_audit").replace("_", " ")
    return Part(name=f"{what}: {words}", command=("make", target, f"FILES={path.relative_to(ROOT)}"))


def row_of(part: Part, run: Callable[[Part], tuple[int, str]], now: dt.date, commit: str) -> tuple[str, ...]:
    """Run a part, if the machine can; its row of the page, without the machine."""
    command = command_of(part)
    if part.missing:
        return (part.name, command, f"not run: no {part.missing}", "", str(now), commit)
    began = time.monotonic()
    code, output = run(part)
    closing = CLOSING.findall(output)
    result = ("" if code == 0 else f"failed with {code}: ") + (closing[-1].strip("= ") if closing else "")
    result = result.rstrip(": ") or "done"
    return (part.name, command, result, f"{(time.monotonic() - began) / 60:.0f}", str(now), commit)


def rows_of(page: str) -> dict[str, tuple[str, ...]]:
    """The rows of a page, by their parts' names."""
    cells = (tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.splitlines()[5:])
    return {row[0]: row for row in cells}


def page(rows: Mapping[str, tuple[str, ...]], before: str = "") -> str:
    """The page with these rows, by the parts' names; a part that was not run keeps the row that it had ``before``."""
    known = {**rows_of(before), **rows}
    return HEAD + "".join(
        f"| {' | '.join(known.get(part.name, (part.name, command_of(part), 'not run yet', *'----')))} |\n"
        for part in parts()
    )


def command_of(part: Part) -> str:
    """A part's command, as the page shows it."""
    return f"`{' '.join(part.command)}`"


def due(chosen: Sequence[str], before: str, is_current: Callable[[str], bool]) -> list[Part]:
    """The parts to run: those that are chosen; without a choice, all that have not ended well with this code.

    Args:
        chosen: how the names of the parts begin.
        before: the page.
        is_current: whether the code of a commit is that of now.
    """
    if chosen:
        return [part for part in parts() if part.name.startswith(tuple(chosen))]
    known = rows_of(before)
    ended = {name for name, row in known.items() if not row[2].startswith(("failed", "not run")) and is_current(row[5])}
    return [part for part in parts() if part.name not in ended]


def _is_current(commit: str) -> bool:
    command = ["git", "diff", "--quiet", commit, "--", ".", ":!docs"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _run(part: Part) -> tuple[int, str]:
    process = subprocess.Popen(part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout or ():
        sys.stdout.write(line)
        lines.append(line)
    return process.wait(), "".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts one after the other; the page holds each as soon as it has ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Long tests, in parts.")
    parser.add_argument("parts", nargs="*", help="how the names of the parts begin; by default, all that are not done")
    parser.add_argument("--list", action="store_true", help="print the parts and the minutes that they took; run none")
    given = parser.parse_args(argv)
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    commit, before = asked.stdout.strip(), PAGE.read_text(encoding="utf-8")
    chosen, known = due(given.parts, before, _is_current), rows_of(before)
    machine = f"{platform.machine()}, {os.cpu_count()} processors"
    failed = False
    for number, part in enumerate(chosen, start=1):
        minutes = known[part.name][3] if part.name in known else "-"
        took = f"it took {minutes} min last time" if minutes.isdigit() else "not run yet"
        print(f"part {number} of {len(chosen)}: {part.name}; {took}", flush=True)
        if given.list:
            continue
        row = row_of(part, _run, dt.datetime.now(dt.UTC).date(), commit)
        before = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page({part.name: (*row, machine)}, before), encoding="utf-8")
        failed = failed or row[2].startswith("failed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
