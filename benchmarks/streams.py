"""Streams of counts, step by step: speed with noise drawn beforehand, and error: ``python -m benchmarks.streams``.

Made streams of 200,000 steps: nothing happens, a steady rate, a rate that changes every thousand steps, bursts in
silence, and counts of which no two are alike; and real ones, where they lie beside the repository. The speed is that of
``CountStream.steps``. The error is the mean absolute one of the estimates, over that of the plain Laplace mechanism
with the whole epsilon.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import numpy as np

from benchmarks._stream_tables import real_streams
from benchmarks.harness import Report, Target, arguments, progress, publish
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import Cost, SeededNoise
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape, draw_noise, take_steps
from spark_jobs.papers.streams.smoothing import Smoother

STEPS = 200_000
AIM = 1_000_000
REPETITIONS = 3
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


class DrawnBefore:
    """A source whose noisy counts were drawn before."""

    private = False
    guarantee = SeededNoise.guarantee

    def __init__(self, noisy: Int64Array) -> None:
        self.noisy = noisy

    def laplace(self, values: Int64Array, *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """The noisy counts."""
        return self.noisy


def main(argv: list[str] | None = None) -> int:
    """Take every stream several times and print the table."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    steps = 2000 if given.quick else STEPS
    rows: list[list[str]] = []
    figures: dict[str, object] = {}
    slowest, worst = float("inf"), 0.0
    real = {name: stream.counts for name, stream in real_streams(steps).items()}
    for name, counts in {**streams(steps), **real}.items():
        for epsilon in EPSILONS:
            progress(f"{name}, epsilon {epsilon}")
            rates: list[float] = []
            errors: dict[str, list[float]] = {method: [] for method in ("noise", "filter", *Smoother)}
            coverages: list[float] = []
            for seed in range(1 if given.quick else REPETITIONS):
                noisy = SeededNoise(seed).laplace(counts, epsilon=epsilon, l1_sensitivity=1)
                stream = CountStream(epsilon=epsilon, noise=DrawnBefore(noisy))
                start = time.process_time()
                released = stream.release(counts)
                rates.append(counts.size / (time.process_time() - start))
                errors["noise"].append(np.abs(noisy - counts).mean())
                errors["filter"].append(np.abs(released.estimates - counts).mean())
                assert released.lower is not None and released.upper is not None  # noqa: PT018
                coverages.append(((released.lower <= counts) & (counts <= released.upper)).mean())
                shape = PegasusShape(epsilon=epsilon, neighbours=Neighbours.ADD_REMOVE)
                drawn = draw_noise(PegasusState(), counts, shape=shape, noise=SeededNoise(seed))
                for smoother in Smoother:
                    smoothing = replace(shape, smoother=smoother)
                    _, smoothed = take_steps(PegasusState(), counts, shape=smoothing, drawn=drawn)
                    errors[smoother].append(np.abs(smoothed.estimates - counts).mean())
            rate, noise = float(np.median(rates)), np.mean(errors["noise"])
            relative = {
                method: float(np.mean(values) / noise) for method, values in errors.items() if method != "noise"
            }
            slowest, worst = min(slowest, rate), max(worst, relative["filter"])
            figures[f"{name} {epsilon}"] = {"rates": rates, "errors": errors, "coverages": coverages}
            shown = [f"{value:.2f}" for value in relative.values()]
            rows.append([name, epsilon, f"{rate:,.0f}", shown[0], f"{np.mean(coverages):.3f}", *shown[1:]])
    aim = Target(
        what="CountStream.release: steps a second of processor time, noise drawn beforehand, the slowest stream",
        target=f">= {AIM:,}",
        outcome=f"{slowest:,.0f}",
        met=slowest >= AIM,
    )
    never_worse = Target(
        what="error of the filter over that of plain noise, the worst",
        target="<= 1.10",
        outcome=f"{worst:.2f}",
        met=worst <= 1.10,
    )
    report = Report(
        name=f"streams: {steps:,} steps, medians of {REPETITIONS}",
        columns=(
            "stream",
            "epsilon",
            "steps a second",
            "filter",
            "bands hold",
            *(f"PeGaSus, {name}" for name in Smoother),
        ),
        rows=rows,
        targets=[] if given.quick else [aim, never_worse],
        figures=figures,
    )
    return publish(report, given.json)


if __name__ == "__main__":
    sys.exit(main())
