"""The memory of streams, however long they are: ``python -m benchmarks.stream_memory [--quick]``.

Streams of 20 states over 100,000 steps, taken in segments as in the product: steady counts, and counts that are all 0,
on which groups of PeGaSus stay open as long as they may. The state is the one that is encrypted.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.application.streams.advance import advance, start_state
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms.noise import SeededNoise

STREAMS, SEGMENT, LENGTHS = 20, 1000, (1_000, 10_000, 100_000)
MAX_GROWTH = 1.1
"""Of the process's memory from the second length to the third."""
METHODS: dict[str, dict[str, Any]] = {
    "local_level": {"kind": "local_level"},
    "local_level, season 24": {"kind": "local_level", "season": 24},
    "pegasus": {"kind": "pegasus"},
}


def request(path: str, states: int, steps: int, method: dict[str, Any]) -> StreamRequest:
    """A stream of hourly counts by state."""
    return StreamRequest.parse(
        {
            "table": {"path": path, "snapshot": {"path_version": "v1"}},
            "time": "at",
            "start": "2026-01-01T00:00:00Z",
            "step": "1 hour",
            "steps": steps,
            "states": {"column": "state", "keys": [f"s{number:05d}" for number in range(states)]},
            "method": method,
            "budget": {"epsilon": "1"},
        }
    )


def followed(
    method: dict[str, Any], counts: Callable[[int], Int64Array], lengths: tuple[int, ...]
) -> list[list[float]]:
    """After each length: bytes of the state, megabytes of the process at most so far, and microseconds of a count."""
    one = request("/lake/visits", STREAMS, lengths[-1], method)
    state, noise, figures, began = start_state(one), SeededNoise(1), [], time.process_time()
    while state.step < lengths[-1]:
        state, _ = advance(one, state, counts(min(SEGMENT, lengths[-1] - state.step)), noise=noise)
        if state.step in lengths:
            took = (time.process_time() - began) / (state.step * STREAMS)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            figures.append([len(state.to_bytes(one.charged_sha256)), peak, 1e6 * took])
    return figures


def memory(lengths: tuple[int, ...]) -> tuple[list[list[str]], list[Target]]:
    """The rows of the table of memory, and their targets."""
    random = np.random.default_rng(1)
    streams: dict[str, Callable[[int], Int64Array]] = {
        "steady": lambda steps: random.poisson(20, (steps, STREAMS)),
        "nothing happens": lambda steps: np.zeros((steps, STREAMS), dtype=np.int64),
    }
    rows, targets = [], []
    for name, method in METHODS.items():
        for stream, counts in streams.items():
            progress(f"{name}, {stream}")
            figures = followed(method, counts, lengths)
            for length, (size, peak, took) in zip(lengths, figures, strict=True):
                rows.append([name, stream, f"{length:,}", f"{size:,.0f}", f"{peak:.0f} MB", f"{took:.2f} µs"])
            growth = figures[-1][1] / figures[-2][1]
            what = f"memory after {lengths[-1]:,} steps over {lengths[-2]:,}: {name}, {stream}"
            target = f"<= {MAX_GROWTH}"
            targets.append(Target(what=what, target=target, outcome=f"{growth:.3f}", met=growth <= MAX_GROWTH))
    return rows, targets


def main(argv: list[str] | None = None) -> int:
    """Measure memory, and print the table."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    lengths = (1_000, 2_000, 3_000) if given.quick else LENGTHS
    rows, targets = memory(lengths)
    columns = ("method", "stream", "steps", "bytes of the state", "memory at most", "time of a count")
    name = f"memory of {STREAMS} streams"
    report = Report(name=name, columns=columns, rows=rows, targets=[] if given.quick else targets, figures={})
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
