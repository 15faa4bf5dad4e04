"""Streams of counts, step by step: speed with noise drawn beforehand, and error: ``python -m benchmarks.streams``.

Simulated streams of 200,000 steps: nothing happens, a steady rate, a rate that changes every thousand steps, bursts in
silence, and counts that are all different; and real ones, where they lie beside the repository. The speed is that of
``CountStream.steps``. The error is the mean absolute one of the estimates, over that of the plain Laplace mechanism
with the whole epsilon.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks._stream_tables import MISSING, buildings, stations
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import Cost, SeededNoise
from spark_jobs.mechanisms.streams.pegasus import PegasusShape, PegasusState, draw_noise, take_steps
from spark_jobs.mechanisms.streams.smoothing import Smoother

STEPS = 200_000
AIM = 200_000
REPETITIONS = 5
EPSILONS = ("1", "0.1", "0.01")


def streams(steps: int) -> dict[str, Int64Array]:
    """Counts of every step."""
    random = np.random.default_rng(4)
    rates = np.repeat(random.gamma(1.0, 40.0, -(-steps // 1000)), 1000)[:steps]
    burst = random.random(steps) < 0.001
    return {
        "nothing": np.zeros(steps, dtype=np.int64),
        "steady": random.poisson(20, steps),
        "changing": random.poisson(rates),
        "bursts": np.where(burst, random.poisson(500, steps), 0),
        "all different": random.integers(0, 10**6, steps),
    }


def real_streams(steps: int) -> dict[str, Int64Array]:
    """Counts of real streams; empty where they are missing."""
    wifi, trips = buildings(), stations(5)
    if wifi is None or trips is None:
        progress(MISSING)
        return {}
    busiest = trips[0].sum(axis=0).argmax()
    return {
        "devices in a building": wifi[:steps, 0],
        "trips, all stations": trips[0].sum(axis=1)[:steps],
        "trips, the busiest": trips[0][:steps, busiest],
    }


class DrawnBefore:
    """A source of noise that was drawn before, so that taking it costs only a lookup."""

    private = False
    guarantee = SeededNoise.guarantee

    def __init__(self, counts: Int64Array, shape: PegasusShape, seed: int) -> None:
        drawn = draw_noise(counts, shape=shape, noise=SeededNoise(seed))
        self.answers = [drawn.noisy, drawn.levels, drawn.tests]

    def laplace(self, values: Int64Array, *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """The next noise, in the order in which a stream takes it."""
        return self.answers.pop(0)


def main(argv: list[str] | None = None) -> int:
    """Take every stream several times and print the table."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    steps = 2000 if given.quick else STEPS
    rows: list[list[str]] = []
    figures: dict[str, object] = {}
    slowest = float("inf")
    for name, counts in {**streams(steps), **real_streams(steps)}.items():
        for epsilon in EPSILONS:
            progress(f"{name}, epsilon {epsilon}")
            shape = PegasusShape(epsilon=epsilon, neighbours=Neighbours.ADD_REMOVE)
            rates: list[float] = []
            errors: dict[Smoother, list[float]] = {smoother: [] for smoother in Smoother}
            for seed in range(1 if given.quick else REPETITIONS):
                stream = CountStream(epsilon=epsilon, noise=DrawnBefore(counts, shape, seed))
                start = time.process_time()
                stream.steps(counts)
                rates.append(counts.size / (time.process_time() - start))
                drawn = draw_noise(counts, shape=shape, noise=SeededNoise(seed))
                _, released = take_steps(PegasusState(), counts, shape=shape, drawn=drawn)
                for smoother in Smoother:
                    other = PegasusShape(epsilon=epsilon, neighbours=Neighbours.ADD_REMOVE, smoother=smoother)
                    _, smoothed = take_steps(PegasusState(), counts, shape=other, drawn=drawn)
                    errors[smoother].append(np.abs(smoothed.estimates - counts).mean())
            plain = np.abs(SeededNoise(9).laplace(counts, epsilon=epsilon, l1_sensitivity=1) - counts).mean()
            rate, groups = float(np.median(rates)), counts.size / np.unique(released.starts).size
            slowest = min(slowest, rate)
            figures[f"{name} {epsilon}"] = {"rates": rates, "errors": errors}
            relative = [f"{np.mean(errors[smoother]) / plain:.2f}" for smoother in Smoother]
            rows.append([name, epsilon, f"{rate:,.0f}", f"{groups:.1f}", *relative])
    aim = Target(
        what="CountStream.steps: steps a second of processor time, noise drawn beforehand, the slowest stream",
        target=f">= {AIM:,}",
        outcome=f"{slowest:,.0f}",
        met=slowest >= AIM,
    )
    report = Report(
        name=f"streams: {steps:,} steps, medians of {REPETITIONS}",
        columns=(
            "stream",
            "epsilon",
            "steps a second",
            "steps a group",
            *(f"error, {smoother}" for smoother in Smoother),
        ),
        rows=rows,
        targets=[] if given.quick else [aim],
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
