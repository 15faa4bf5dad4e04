"""Tools of all benchmarks: alternating runs, medians with their spread, and tables that state whether a target is met.

Figures are ratios of cases that run by turns in one process on one machine, so that other load on the machine affects
all of them alike. The spread from the fastest to the slowest run is the machine's noise.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

MIN_REPETITIONS = 5


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The times of the runs of one case.

    Attributes:
        wall: seconds on the clock, one per run.
        cpu: seconds of processor time, one per run; steadier on a machine that does other things, too.
    """

    wall: tuple[float, ...]
    cpu: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median time on the clock."""
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        """The median processor time."""
        return statistics.median(self.cpu)

    def __str__(self) -> str:
        return f"{self.median:.2f} s ({min(self.wall):.2f}-{max(self.wall):.2f})"


@dataclass(frozen=True, kw_only=True)
class Target:
    """A target, and the figure that was measured."""

    what: str
    target: str
    outcome: str
    met: bool


@dataclass(frozen=True, kw_only=True)
class Report:
    """The results of a benchmark.

    Attributes:
        name: the name of the benchmark's module.
        columns: headings of the table.
        rows: the table's rows, as text.
        targets: the targets with their figures; empty for a quick run, which cannot judge them.
        figures: everything measured, for the JSON file.
    """

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    targets: Sequence[Target]
    figures: Mapping[str, object]
    machine: Mapping[str, object] = field(default_factory=lambda: describe_machine())

    def to_markdown(self) -> str:
        """The report as Markdown tables."""
        computer = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        parts = [f"### {self.name}", computer, markdown_table(self.columns, self.rows)]
        if self.targets:
            verdicts = [(t.what, t.target, t.outcome, "met" if t.met else "**missed**") for t in self.targets]
            parts.append(markdown_table(("target", "aimed at", "measured", ""), verdicts))
        return "\n\n".join(parts)

    def to_json(self) -> str:
        """The report as a line of JSON."""
        return json.dumps(asdict(self), default=str)


def report_of_times(name: str, what: str, timed: Mapping[str, Timing], targets: Sequence[Target]) -> Report:
    """The report of cases that were timed by turns, one row each; ``what`` heads their names."""
    return Report(
        name=name,
        columns=(what, "time", "processor time"),
        rows=[[case, str(timing), f"{timing.median_cpu:.2f} s"] for case, timing in timed.items()],
        targets=targets,
        figures={case: asdict(timing) for case, timing in timed.items()},
    )


def alternate(
    cases: Mapping[str, Callable[[], object]],
    *,
    repetitions: int = MIN_REPETITIONS,
    warmups: int = 2,
    cpu_clock: Callable[[], float] = time.process_time,
) -> dict[str, Timing]:
    """Run the cases by turns, first ``warmups`` rounds that do not count, and then ``repetitions`` rounds that do.

    Args:
        cases: name -> the function that is timed.
        repetitions: at least five.
        warmups: rounds in which code is compiled and files get cached.
        cpu_clock: a clock of the processor seconds that the measured program has used.
    """
    if repetitions < MIN_REPETITIONS:
        raise ValueError(f"repetitions: got {repetitions}; at least {MIN_REPETITIONS} are needed for a median")
    wall: dict[str, list[float]] = {name: [] for name in cases}
    cpu: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(-warmups, repetitions):
        for name, run in cases.items():
            before, started = cpu_clock(), time.perf_counter()
            run()
            took, spent = time.perf_counter() - started, cpu_clock() - before
            if turn >= 0:
                wall[name].append(took)
                cpu[name].append(spent)
    return {name: Timing(wall=tuple(wall[name]), cpu=tuple(cpu[name])) for name in cases}


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with padded cells, as Markdown."""
    table = [tuple(columns), *(tuple(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in table)) for i in range(len(columns))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def mean_and_half(values: ArrayLike) -> tuple[float, float]:
    """The mean of repetitions and half of its 95% interval of Student's t; 0 of a single one."""
    runs = np.asarray(values, dtype=np.float64)
    spread = float(runs.std(ddof=1) / np.sqrt(runs.size)) if runs.size > 1 else 0.0
    return float(runs.mean()), float(student.ppf(0.975, max(runs.size - 1, 1))) * spread


def mean_interval(values: ArrayLike) -> str:
    """``mean_and_half`` as text."""
    mean, half = mean_and_half(values)
    return f"{mean:.4g} ± {half:.2g}"


def describe_machine() -> dict[str, object]:
    """The properties of the machine on which the figures depend; nothing that identifies it."""
    return {
        "when": dt.datetime.now(dt.UTC).date().isoformat(),
        "cores": os.cpu_count() or 0,
        "load before": f"{os.getloadavg()[0]:.1f}",
        "system": platform.system(),
        "Python": platform.python_version(),
    }


_BEGUN: set[Path] = set()
"""The files that this process has written reports to."""


def arguments(description: str) -> argparse.ArgumentParser:
    """The arguments that every benchmark understands."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a small run that shows that the benchmark works")
    parser.add_argument("--repetitions", type=int, default=MIN_REPETITIONS, help="runs of each case (default: 5)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all figures there, too, a line for each report"
    )
    return parser


def publish(report: Report, json_file: Path | None) -> int:
    """Print the report, and write its figures to a file if one is given, below those of the run's earlier reports."""
    print(report.to_markdown(), flush=True)
    if json_file is not None:
        with json_file.open("a" if json_file in _BEGUN else "w") as file:
            file.write(report.to_json() + "\n")
        _BEGUN.add(json_file)
    return 0


def progress(text: str) -> None:
    """Report progress on standard error."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for a benchmark's data, deleted afterwards."""
    with TemporaryDirectory(prefix="dp-benchmark-") as folder:
        yield Path(folder)
