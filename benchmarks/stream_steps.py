"""A step of 10,000 states against the Spark job that counts it: ``python -m benchmarks.stream_steps [--quick]``.

By turns, in one session and on one table of arrivals: the job that counts one step alone, and whole attempts at the
next step of streams with each method: the ledger, the state of the step before, the same job, noise, the encrypted
object, and what is published of it. The report is left out; a process of its own makes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Report, Target, alternate, arguments, publish, scratch_folder
from benchmarks.score_counts import jvm_clock, open_session
from spark_jobs.application.progress import Announcer
from spark_jobs.application.streams.chain import ObjectChain, Position
from spark_jobs.application.streams.counting import Counted, count_steps, prepare_steps
from spark_jobs.application.streams.run import run_stream
from spark_jobs.contract.stream_request import StreamRequest
from tests.support.stream_lab import StreamLab, StreamRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATES, STEPS, A_STEP = 10_000, 24, 20
HOUR = 3_600_000_000
"""In microseconds."""
MAX_RATIO = 1.2
METHODS: dict[str, dict[str, Any]] = {
    "local_level": {"kind": "local_level"},
    "local_level, season 4": {"kind": "local_level", "season": 4},
    "pegasus": {"kind": "pegasus", "max_group": 256},
    "hierarchy of three levels": {"kind": "pegasus", "max_group": 256},
}


def states_of(name: str, states: int) -> dict[str, Any]:
    """The public states, in about as many groups as a group has states if there is a hierarchy."""
    keys = [f"s{number:05d}" for number in range(states)]
    if not name.startswith("hierarchy"):
        return {"column": "region", "keys": keys}
    groups = {key: f"g{number // round(states**0.5)}" for number, key in enumerate(keys)}
    return {"column": "region", "keys": keys, "parents": groups | dict.fromkeys(groups.values(), "all")}


def write_arrivals(path: Path, states: int) -> None:
    """Write the arrivals of all steps, one row group for each step."""
    random = np.random.default_rng(1)
    keys = pa.array([f"s{number:05d}" for number in range(states)])
    schema = pa.schema({"at": pa.timestamp("us", tz="UTC"), "region": pa.string()})
    with pq.ParquetWriter(path, schema) as writer:
        for step in range(STEPS):
            rows = A_STEP * states
            at = (
                np.datetime64("2026-01-01", "us")
                + step * 3_600_000_000
                + np.sort(random.integers(0, 3_600_000_000, rows))
            )
            columns = [pa.array(at, schema.field("at").type), keys.take(pa.array(random.integers(0, states, rows)))]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


@dataclass
class SparkRunner(StreamRunner):
    """Counts with a session that is open already."""

    rows: Callable[[StreamRequest], DataFrame] = field(kw_only=True)

    def release(self, chain: ObjectChain, announcer: Announcer) -> None:
        """What the application does, between the opening and the closing of its session."""

        def count(chain: ObjectChain, position: Position, until: int, announcer: Announcer) -> Counted:
            request, first = chain.request, position.next
            return count_steps(self.rows(request), request, first=first, steps=until - first)

        run_stream(chain, count=count, announcer=announcer)


def next_steps(
    folder: Path, name: str, rows: Callable[[StreamRequest], DataFrame], states: int
) -> Callable[[], object]:
    """A function that releases the next step of a new stream each time."""
    folder.mkdir()
    lab = StreamLab(folder, {"steps": STEPS, "states": states_of(name, states), "method": METHODS[name]})
    runner = SparkRunner(counts=lab.counts[:0], rows=rows)
    hours = iter(range(1, STEPS + 1))

    def release() -> None:
        done = lab.advance(next(hours), runner=runner)
        if done.released != 1:
            raise RuntimeError(f"{name}: {done.released} steps were released")

    return release


def measure(folder: Path, *, states: int, repetitions: int) -> tuple[list[list[str]], list[Target]]:
    """The rows of the table, and the targets."""
    write_arrivals(folder / "arrivals.parquet", states)
    spark = open_session("local[2]")
    table = spark.read.parquet(str(folder / "arrivals.parquet"))

    def rows(request: StreamRequest) -> DataFrame:
        return prepare_steps(spark, request, table)

    steps = {name: next_steps(folder / str(place), name, rows, states) for place, name in enumerate(METHODS)}
    alone = StreamLab(folder, {"steps": STEPS, "states": states_of("", states)}).request
    at = iter(range(STEPS))
    cases = {"the Spark job alone": lambda: count_steps(rows(alone), alone, first=next(at), steps=1), **steps}
    java = jvm_clock(spark)
    timed = alternate(cases, repetitions=repetitions, cpu_clock=lambda: java() + time.process_time())
    spark.stop()
    job = timed.pop("the Spark job alone")
    lines, targets = [["the Spark job alone", str(job), f"{job.median_cpu:.2f} s", "", ""]], []
    for name, one in timed.items():
        ratio, by_processor = one.median / job.median, one.median_cpu / job.median_cpu
        lines.append([name, str(one), f"{one.median_cpu:.2f} s", f"{ratio:.2f}", f"{by_processor:.2f}"])
        what = f"a step of {states:,} states over the Spark job that counts it: {name}"
        met = by_processor <= MAX_RATIO
        targets.append(Target(what=what, target=f"at most {MAX_RATIO}", outcome=f"{by_processor:.2f}", met=met))
    return lines, targets


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    given = arguments(str(__doc__).splitlines()[0]).parse_args(argv)
    states = 200 if given.quick else STATES
    with scratch_folder() as folder:
        lines, targets = measure(folder, states=states, repetitions=given.repetitions)
    columns = ("what", "time", "processor time", "over the job", "by processor time")
    name = f"stream_steps: {states:,} states, {A_STEP} rows of each in a step"
    return publish(
        Report(name=name, columns=columns, rows=lines, targets=[] if given.quick else targets, figures={}), given.json
    )


if __name__ == "__main__":
    sys.exit(main())
