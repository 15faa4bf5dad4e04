"""Speed of other libraries beside this one, on the same work: ``python -m benchmarks.peer_speed [--quick]``.

Private counts of 1,024 public groups in a Parquet table of 10 million rows; epsilon 1, one row added or removed. Each
library runs in a process of its own environment (``peers``) and releases when it is its turn, with both processors to
itself. *First* is the first release of a new process, from its start; *warm* are those after two more. PipelineDP has
its rows in memory already and counts a tenth of them, a hundredth with ``--quick``: its time is that of a row times
the rows of the table. Bare counts are what each engine takes for the same counts without noise.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Report, Target, Timing, alternate, arguments, progress, publish, scratch_folder
from benchmarks.peers import OURS, environment, for_spark

GROUPS, FILES = 1024, 4
SLOW = "pipeline_dp"
PEERS = ("tumult", SLOW)
EMBEDDED = f"{OURS}, embedded"
FLOORS = ("bare counts of Spark", "bare counts of the embedded engine")
MIN_RATIOS: Mapping[str, Mapping[tuple[str, str], float]] = {
    OURS: {("tumult", "first"): 2.0, ("tumult", "warm"): 2.5},
    EMBEDDED: {("tumult", "first"): 10.0, ("tumult", "warm"): 5.0, (SLOW, "warm"): 500.0},
}
"""How many times faster this library is to be, by engine, than a peer's first release and its warm ones."""


def write_places(folder: Path, rows: int) -> Path:
    """A table of the places of so many rows, uniform over the groups."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for part in range(FILES):
        places = pa.table({"place": random.integers(0, GROUPS, rows // FILES)})
        pq.write_table(places, folder / f"part-{part}.parquet")
    return folder


@dataclass(kw_only=True)
class Peer:
    """A library's process, which releases when it is told to.

    Attributes:
        library: its name.
        python: the interpreter of its environment.
        table: the table whose ``rows`` rows it counts.
        first: seconds from the start of the process to the end of its first release.
    """

    library: str
    python: Path
    table: Path
    rows: int
    first: float = field(init=False)

    def __enter__(self) -> Self:
        script = Path(__file__).with_name("_peer_work.py")
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(self.python), str(script), self.library, str(self.table), str(GROUPS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**for_spark(self.python), "PYTHONPATH": "" if self.library in PEERS else str(script.parent.parent)},
        )
        self.release()
        self.first = time.perf_counter() - began
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.communicate()

    def release(self) -> float:
        """Release once; the library's own seconds.

        Raises:
            RuntimeError: the process has ended, or the counts are not those of the table.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"{self.library} ended with {self._process.wait()}")
        groups, total, seconds = int(answer[0]), float(answer[1]), float(answer[2])
        # the sum of 1,024 draws of noise at epsilon 1 has a standard deviation of 45
        if groups != GROUPS or abs(total - self.rows) > 500:
            raise RuntimeError(f"{self.library}: {groups} groups with {total} rows in all")
        return seconds


def measure(folder: Path, environments: Mapping[str, Path], rows: int, slow_rows: int, repetitions: int) -> Report:
    """The times of all libraries that could be installed."""
    tables = {rows: write_places(folder / "all", rows), slow_rows: write_places(folder / "some", slow_rows)}
    with ExitStack() as stack:
        peers = {}
        for library, python in environments.items():
            size = slow_rows if library == SLOW else rows
            peers[library] = stack.enter_context(Peer(library=library, python=python, table=tables[size], rows=size))
            progress(f"{library}: first release after {peers[library].first:.1f} s")
        timed = alternate({library: peer.release for library, peer in peers.items()}, repetitions=repetitions)
        first = {library: peer.first for library, peer in peers.items() if library != SLOW}
    if SLOW in timed:
        wall = tuple(seconds * rows / slow_rows for seconds in timed[SLOW].wall)
        timed[SLOW] = Timing(wall=wall, cpu=wall)
    times = {(library, "warm"): timing.median for library, timing in timed.items()}
    times |= {(library, "first"): seconds for library, seconds in first.items()}
    lines = []
    for library, timing in timed.items():
        begun = f"{first[library]:.1f} s" if library in first else ""
        ratios = [f"{timing.median / timed[engine].median:.1f}" for engine in MIN_RATIOS]
        lines.append([library, begun, str(timing), *ratios])
    targets = [
        Target(
            what=f"{which} release of {peer} over {ours}",
            target=f"at least {bound:g}x",
            outcome=f"{times[peer, which] / times[ours, which]:.1f}x",
            met=times[peer, which] >= bound * times[ours, which],
        )
        for ours, bounds in MIN_RATIOS.items()
        for (peer, which), bound in bounds.items()
        if (peer, which) in times
    ]
    heads = ("library", "first", "warm", "over ours", "over embedded")
    name = f"peer_speed: {GROUPS:,} groups of {rows:,} rows"
    return Report(name=name, columns=heads, rows=lines, targets=targets, figures={})


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    parser = arguments(str(__doc__).splitlines()[0])
    parser.add_argument("--rows", type=int, help="of the table (default: 10 million)")
    parser.add_argument("--cache", type=Path, default=Path("build/peers"), help="where environments are kept")
    given = parser.parse_args(argv)
    rows = given.rows or (1_000_000 if given.quick else 10_000_000)
    environments = dict.fromkeys((*MIN_RATIOS, *FLOORS), Path(sys.executable))
    for library in PEERS:
        python = environment(library, given.cache.absolute())
        if python is not None:
            environments[library] = python
    with scratch_folder() as folder:
        report = measure(folder, environments, rows, rows // (100 if given.quick else 10), given.repetitions)
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
