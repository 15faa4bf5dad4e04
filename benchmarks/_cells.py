"""Releases of many cells of a law: by several processes, kept as JSON lines, so that a run can be interrupted.

Each release has a seed of its own, made of the run's seed, the part, the cell and the release's number. So it is the
same whichever process makes it, and whatever was made before.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import progress

AT_ONCE = 10
"""Releases that a process makes before it reports them."""
Cell = tuple[str, float]
"""A part of the benchmark, and a size of its law."""
Work = Callable[[str, float, np.random.Generator], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is to be run.

    Attributes:
        work: makes one release of a cell, with plain JSON types; a function of a module.
        releases: how many of each cell.
        seed: of the whole run.
        processes: how many at a time.
        file: where releases are kept, one a line.
    """

    work: Work
    releases: int
    seed: int
    processes: int
    file: Path


def released(run: Run, cells: Sequence[Cell], *, resume: bool) -> dict[Cell, list[dict[str, Any]]]:
    """The releases of these cells, in the order of their numbers.

    Args:
        run: what is to be run.
        cells: of which parts and sizes.
        resume: whether releases that the file has count; those of other cells and seeds stay there in any case.
    """
    kept = list(_lines(run.file))
    if not resume:
        kept = [line for line in kept if (line["part"], line["cell"]) not in set(cells)]
        run.file.parent.mkdir(parents=True, exist_ok=True)
        run.file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    by_cell: dict[Cell, dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in kept:
        if line["seed"] == run.seed:
            by_cell[line["part"], line["cell"]][line["number"]] = line["shown"]
    jobs = []
    for cell in cells:
        missing = [number for number in range(run.releases) if number not in by_cell[cell]]
        jobs += [(cell, missing[start : start + AT_ONCE]) for start in range(0, len(missing), AT_ONCE)]
    for lines in _lines_of_jobs(run, jobs):
        with run.file.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        for line in lines:
            by_cell[line["part"], line["cell"]][line["number"]] = line["shown"]
    return {cell: [by_cell[cell][number] for number in range(run.releases)] for cell in cells}


def _lines_of_jobs(run: Run, jobs: Sequence[tuple[Cell, list[int]]]) -> Iterator[list[dict[str, Any]]]:
    """The lines of each job, in the order in which jobs end."""
    if run.processes == 1:
        yield from (_job(run.work, run.seed, *job) for job in jobs)
        return
    # several processes with one thread each are faster than one with several
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with ProcessPoolExecutor(run.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        started = [pool.submit(_job, run.work, run.seed, *job) for job in jobs]
        for done, one in enumerate(as_completed(started), 1):
            lines = one.result()
            progress(f"{done} of {len(jobs)}: {lines[0]['part']}, {lines[0]['cell']:,}")
            yield lines


def _job(work: Work, seed: int, cell: Cell, numbers: Iterable[int]) -> list[dict[str, Any]]:
    part, size = cell
    lines = []
    for number in numbers:
        random = np.random.default_rng([seed, zlib.crc32(part.encode()), round(10 * size), number])
        shown = dict(work(part, size, random))
        lines.append({"part": part, "cell": size, "seed": seed, "number": number, "shown": shown})
    return lines


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """What a file has; a last line that an interruption cut short does not count."""
    if file.is_file():
        for text in file.read_text().splitlines(keepends=True):
            if text.endswith("\n"):
                yield json.loads(text)
