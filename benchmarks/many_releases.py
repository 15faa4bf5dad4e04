"""Many releases by one command: seconds of the first and of every further one, beside commands of their own.

Each table has 1,000 rows, and each request is a ROC curve. Processor seconds are those of all processes that the
command leaves or ends, Java and engines included: this process adopts what loses its parent.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Report, Target, arguments, progress, publish, scratch_folder
from tests.support.small_tables import SmallTables, small_tables

ROWS = 1000
ENGINES = {"embedded": "embedded", "spark": "local[*]"}
MAX_SECONDS = 150.0
"""On the clock, for 100 releases by the embedded engine."""
MAX_STARTS = 2.0
"""What all starts together may cost, in starts of a single run."""
_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Seconds on the clock, and seconds of processor of all processes."""

    wall: float
    cpu: float


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that its processor time is counted."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def usage_of(words: Sequence[str]) -> Usage:
    """What a command takes to its end, and to that of all processes that it leaves."""
    before, started = _children_seconds(), time.perf_counter()
    done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wall = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    with suppress(ChildProcessError):
        while True:
            os.wait()
    return Usage(wall=wall, cpu=_children_seconds() - before)


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def command(tables: SmallTables, master: str, paths: Sequence[Path]) -> list[str]:
    """The command that releases some requests."""
    options = ["--master", master, "--private-dir", str(tables.private), "--ledger", tables.url]
    return [sys.executable, "-m", "dp_operators.cli", "run", *map(str, paths), *options]


def measured(engine: str, tables: int, folder: Path) -> tuple[list[list[str]], list[Target], dict[str, object]]:
    """The rows of one engine's table, its targets and its figures."""
    lab = small_tables(folder, tables=tables + 2, rows=ROWS)
    alone, first, *others = lab.requests
    progress(f"{engine}: one request alone, {tables} together")
    single = usage_of(command(lab, ENGINES[engine], [alone]))
    # a request that is named twice is released once: the command for many, with the start and a single run
    of_one = usage_of(command(lab, ENGINES[engine], [first, first]))
    together = usage_of(command(lab, ENGINES[engine], others))
    further = Usage(wall=(together.wall - of_one.wall) / (tables - 1), cpu=(together.cpu - of_one.cpu) / (tables - 1))
    starts = (of_one.cpu - further.cpu) / max(single.cpu - further.cpu, 0.01)
    cases = {
        "one, in a command of its own": single,
        "one, by the command for many": of_one,
        f"{tables}, by one command": together,
        "every further one": further,
    }
    rows = [[engine, case, f"{used.wall:.1f} s", f"{used.cpu:.1f} s"] for case, used in cases.items()]
    targets = [
        Target(
            what=f"{engine}: the start of all {tables}, in starts of a single run, by processor time",
            target=f"at most {MAX_STARTS:g}",
            outcome=f"{starts:.2f}",
            met=starts <= MAX_STARTS,
        )
    ]
    if engine == "embedded":
        of_hundred = together.wall * 100 / tables
        targets.append(
            Target(
                what=f"{engine}: 100 releases, on the clock",
                target=f"at most {MAX_SECONDS:g} s",
                outcome=f"{of_hundred:.0f} s",
                met=of_hundred <= MAX_SECONDS,
            )
        )
    figures = {case: [used.wall, used.cpu] for case, used in cases.items()}
    return rows, targets, {engine: figures}


def main(argv: list[str] | None = None) -> int:
    """Release, and print the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=100, help="how many are released together (default: 100)")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="by default all")
    given = parser.parse_args(argv)
    adopt_orphans()
    rows: list[list[str]] = []
    targets: list[Target] = []
    figures: dict[str, object] = {}
    for engine in given.engine or (["embedded"] if given.quick else list(ENGINES)):
        with scratch_folder() as folder:
            more = measured(engine, 3 if given.quick else given.tables, folder / engine)
        rows += more[0]
        targets += more[1]
        figures |= more[2]
    report = Report(
        name=f"releases of tables of {ROWS:,} rows",
        columns=("engine", "releases", "clock", "processor time"),
        rows=rows,
        targets=[] if given.quick else targets,
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
