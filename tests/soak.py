"""What takes hours: ``make soak`` runs each of its parts, and writes how they ended into a page of the documentation.

A part that this machine cannot run (a Python version that is not installed, images without root) is written down as
such, and does not fail the others. The exit code is 1 if any part failed.
"""

from __future__ import annotations

import datetime as dt
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contributing" / "soak-results.md"
PYTHONS = ("3.11", "3.12", "3.13")
HEAD = """\
# Soak results

`make soak` writes this table of what takes too long for every change. Long audits have [their own](audit-results.md).

| Part | Command | Result | Minutes | Date | Commit | Machine |
|---|---|---|---|---|---|---|
"""
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


def parts(find: Callable[[str], str | None] = shutil.which, user: int = -1) -> tuple[Part, ...]:
    """All parts: repetitions, long audits, images, and the tests under each Python version.

    Args:
        find: finds a program on the path.
        user: the user's number; -1 for that of this process.
    """
    root = (os.getuid() if user < 0 else user) == 0
    tools = [tool for tool in ("buildah", "debootstrap") if find(tool) is None] + ([] if root else ["root"])
    versions = [
        Part(
            name=f"Python {version}",
            command=("make", f"VENV=.venv-{version}", f"PYTHON=python{version}", "test"),
            missing="" if find(f"python{version}") else f"python{version}",
        )
        for version in PYTHONS
    ]
    return (
        Part(name="repetitions", command=("make", "storm")),
        Part(name="long audits", command=("make", "audit")),
        Part(name="images", command=("make", "images"), missing=", ".join(tools)),
        *versions,
    )


def row_of(part: Part, run: Callable[[Part], tuple[int, str]], now: dt.date, commit: str) -> tuple[str, ...]:
    """Run a part, if the machine can; its row of the page, without the machine."""
    command = f"`{' '.join(part.command)}`"
    if part.missing:
        return (part.name, command, f"not run: no {part.missing}", "", str(now), commit)
    began = time.monotonic()
    code, output = run(part)
    closing = CLOSING.findall(output)
    result = ("" if code == 0 else f"failed with {code}: ") + (closing[-1].strip("= ") if closing else "")
    result = result.rstrip(": ") or "done"
    return (part.name, command, result, f"{(time.monotonic() - began) / 60:.0f}", str(now), commit)


def page(rows: Mapping[str, tuple[str, ...]], before: str = "") -> str:
    """The page with these rows, by the parts' names; a part that was not run keeps the row that it had ``before``."""
    cells = (line.strip("|").split("|") for line in before.splitlines() if line.startswith("| "))
    kept = {row[0].strip(): tuple(cell.strip() for cell in row) for row in cells}
    known = {part.name for part in parts()}
    merged = {name: row for name, row in {**kept, **rows}.items() if name in known}
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in merged.values())


def _run(part: Part) -> tuple[int, str]:
    process = subprocess.Popen(part.command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout or ():
        sys.stdout.write(line)
        lines.append(line)
    return process.wait(), "".join(lines)


def main() -> int:
    """Run the parts one after the other; the page holds each as soon as it has ended."""
    asked = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    machine = f"{platform.machine()}, {os.cpu_count()} processors"
    failed = False
    for part in parts():
        row = row_of(part, _run, dt.datetime.now(dt.UTC).date(), asked.stdout.strip())
        before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        PAGE.write_text(page({part.name: (*row, machine)}, before), encoding="utf-8")
        failed = failed or row[2].startswith("failed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
