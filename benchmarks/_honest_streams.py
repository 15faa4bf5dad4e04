"""One release of a stream drawn at random, and the intervals that it shows.

A stream has 400 steps with a stated number of events a step, times epsilon, on average. Its rate is level, or a random
walk in the logarithm, or rises and falls with a day of 24 steps, or changes once, or has bursts. Counts are Poisson's,
or twice as spread.
"""

from __future__ import annotations

import numpy as np

from benchmarks._shown import LEVEL, Intervals, Shown, noise_of
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.diagnostics.count_stream.summary import StreamHistory, banded_sums

EVENTS = (0.1, 1, 10, 100)
"""Of a step, times epsilon."""
STEPS, DAY = 400, 24
SHAPES = ("level", "walk", "day", "change", "bursts")


def drawn_stream(random: np.random.Generator, mean: float) -> Int64Array:
    """The counts of a stream with so many events a step on average."""
    at = np.arange(STEPS)
    rates: dict[str, FloatArray] = {
        "level": np.ones(STEPS),
        "walk": np.exp(np.cumsum(random.normal(0, 10 ** random.uniform(-2.5, -0.5), STEPS))),
        "day": 1 + random.uniform(0.2, 0.95) * np.sin(2 * np.pi * (at / DAY + random.random())),
        "change": np.where(at < random.integers(50, 350), 1.0, np.exp(random.normal(0, 1))),
        "bursts": np.where(random.random(STEPS) < 0.03, np.exp(random.uniform(1, 4)), 1.0),
    }
    rate = rates[str(random.choice(SHAPES))]
    rate = mean * rate / rate.mean()
    if random.random() < 0.5:  # the variance of a count is twice its mean
        return random.negative_binomial(np.maximum(rate, 1e-9), 0.5).astype(np.int64)
    return random.poisson(rate).astype(np.int64)


def of_streams(random: np.random.Generator, signal: float) -> Intervals:
    """The count of a step, with a season or without, and the sum of a window."""
    epsilon = float(random.choice([0.1, 1.0]))
    counts = drawn_stream(random, signal / epsilon)
    shown: Intervals = {}
    for name, season in (("count_stream: a count", 0), ("count_stream: a count, with a season", DAY)):
        steps = CountStream(epsilon=epsilon, season=season, confidence=LEVEL, noise=noise_of(random)).release(counts)
        assert steps.lower is not None and steps.upper is not None  # noqa: PT018
        shown[name] = _at(random, (steps.estimates, steps.lower, steps.upper), counts)
    history = StreamHistory(
        names=("events",),
        noisy=steps.noisy[:, None],
        estimates=steps.estimates[:, None],
        lower=None,
        upper=None,
        measured=np.ones((STEPS, 1), dtype=bool),
        scales=np.full((STEPS, 1), 1 / epsilon),
        terms=np.ones(1, dtype=np.int64),
    )
    width = int(random.choice([4, 16, 64]))
    sums = banded_sums(history, width=width, confidence=LEVEL)
    exact = np.convolve(counts, np.ones(width, dtype=np.int64), mode="valid")
    bands = (sums.sums[:, 0], sums.lower[:, 0], sums.upper[:, 0])
    shown["count_stream: the sum of a window"] = _at(random, bands, exact)
    return shown


def _at(random: np.random.Generator, ends: tuple[FloatArray, FloatArray, FloatArray], exact: Int64Array) -> Shown:
    """A step or window with its exact count."""
    place = int(random.integers(exact.size))
    value, low, high = (float(one[place]) for one in ends)
    return Shown(value=value, low=low, high=high, exact=float(exact[place]))
