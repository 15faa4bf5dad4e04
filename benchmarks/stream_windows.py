"""Counts and sums over sliding windows of real streams, beside the baselines: ``python -m benchmarks.stream_windows``.

The streams of Chen 2018, chapter 5, as far as they are public or have a public likeness: devices on a network, bicycle
trips, taxi rides and tweets. Mean absolute errors, divided by those of plain Laplace noise with the whole epsilon (for
a window: of the sum of its noisy counts).

Counts: backward smoothing is the mean of the last noisy counts; the filter is the default of ``CountStream``, without
and with the season of a day. Regret: the filter with a season, which is what the documented rule chooses from public
facts, over the best method of the row.

Windows: the binary-tree counter (Chan, Shi, Song 2011; Dwork et al. 2010) releases running sums, of which two are
subtracted; the fixed-window tree has blocks of the window's length, and adds the end of one block to the beginning of
the next. Both know the length of the stream or of the window in advance. PeGaSus adds up medians of groups.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from benchmarks._stream_tables import FOLDER, MISSING, buildings, stations
from benchmarks.harness import Report, arguments, progress, publish
from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape, LocalLevelState, filter_steps
from spark_jobs.mechanisms.streams.pegasus import PegasusShape, PegasusState, release_steps
from spark_jobs.mechanisms.streams.windows import window_sums

EPSILONS = ("1", "0.1", "0.01")
WIDTHS = (16, 256)
SMOOTHED = (5, 25)
ADDED = Neighbours.ADD_REMOVE


def real_streams(steps: int) -> dict[str, tuple[Int64Array, int]]:
    """Counts of every step, and the steps of a day; empty where a file is missing."""
    taxis, tweets = FOLDER / "nab_nyc_taxi_30min.csv.gz", FOLDER / "nab_twitter_5min.csv.gz"
    wifi, trips = buildings(), stations(5)
    if wifi is None or trips is None or not (taxis.is_file() and tweets.is_file()):
        progress(MISSING)
        return {}
    posts = pd.read_csv(tweets)
    return {
        "devices, 5 minutes": (wifi[:steps, 0], 288),
        "bicycle trips, 5 minutes": (trips[0].sum(axis=1)[:steps], 288),
        "taxi rides, 30 minutes": (pd.read_csv(taxis)["value"].to_numpy(np.int64)[:steps], 48),
        "tweets about AAPL, 5 minutes": (posts.loc[posts["ticker"] == "AAPL", "value"].to_numpy(np.int64)[:steps], 288),
    }


def count_errors(counts: Int64Array, noisy: Int64Array, day: int, epsilon: str, seed: int) -> dict[str, float]:
    """The mean absolute error of each method for single counts."""
    estimates: dict[str, FloatArray | Int64Array] = {"plain": noisy}
    for last in SMOOTHED:
        estimates[f"backward smoothing, {last}"] = sliding(noisy, last) / np.minimum(np.arange(noisy.size) + 1, last)
    estimates["filter"] = filtered(noisy, epsilon, 0)
    estimates["filter, season of a day"] = filtered(noisy, epsilon, day)
    shape = PegasusShape(epsilon=epsilon, neighbours=ADDED)
    _, grouped = release_steps(PegasusState(), counts, shape=shape, noise=SeededNoise(seed))
    estimates["PeGaSus"] = grouped.estimates
    return {name: float(np.abs(values - counts).mean()) for name, values in estimates.items()}


def window_errors(counts: Int64Array, noisy: Int64Array, width: int, epsilon: str, seed: int) -> dict[str, float]:
    """The mean absolute error of each method for sums over the last ``width`` steps, of full windows."""
    exact, shape = sliding(counts, width), PegasusShape(epsilon=epsilon, neighbours=ADDED)
    _, grouped = release_steps(PegasusState(), counts, shape=shape, noise=SeededNoise(seed))
    sums: dict[str, FloatArray | Int64Array] = {
        "sum of noisy counts": sliding(noisy, width),
        "sum of filtered counts": sliding(filtered(noisy, epsilon, 0), width),
        "PeGaSus": window_sums(grouped.noisy, grouped.starts, width=width),
        "binary-tree counter": exact + counter_noise(counts.size, width, epsilon, seed),
        "fixed-window tree": exact + block_noise(counts.size, width, epsilon, seed),
    }
    return {name: float(np.abs(values - exact)[2 * width :].mean()) for name, values in sums.items()}


def filtered(noisy: Int64Array, epsilon: str, season: int) -> FloatArray:
    """The estimates of the filter."""
    shape = LocalLevelShape(epsilon=epsilon, neighbours=ADDED, season=season)
    return filter_steps(LocalLevelState(), noisy, shape=shape)[1].estimates


def sliding(values: FloatArray | Int64Array, width: int) -> FloatArray | Int64Array:
    """Sums over the last ``width`` values, fewer at the beginning."""
    total = np.concatenate([[0], np.cumsum(values)])
    return total[1:] - total[np.maximum(np.arange(values.size) + 1 - width, 0)]


def counter_noise(steps: int, width: int, epsilon: str, seed: int) -> Int64Array:
    """The noise of differences of running sums by a binary tree over all steps."""
    levels = steps.bit_length()
    noise, upto = SeededNoise(1000 + seed), np.arange(steps + 1)
    of_prefix = np.zeros(steps + 1, dtype=np.int64)
    for level in range(levels):
        nodes = draw(noise, (steps >> level) + 1, epsilon, levels)
        used = (upto >> level) & 1 == 1
        of_prefix[used] += nodes[(upto[used] >> level) - 1]
    return of_prefix[1:] - of_prefix[np.maximum(upto[1:] - width, 0)]


def block_noise(steps: int, width: int, epsilon: str, seed: int) -> Int64Array:
    """The noise of window sums by a binary tree over each block of ``width`` steps, a power of two."""
    levels = width.bit_length()
    noise, ends = SeededNoise(2000 + seed), np.arange(1, steps + 1)
    block, within = np.divmod(ends, width)
    total = np.zeros(steps, dtype=np.int64)
    for level in range(levels):
        of_block = width >> level
        nodes = draw(noise, (steps // width + 1) * of_block, epsilon, levels)
        begun = (within >> level) & 1 == 1
        total[begun] += nodes[block[begun] * of_block + (within[begun] >> level) - 1]
        rest = width - within
        ended = ((rest >> level) & 1 == 1) & (block > 0)
        total[ended] += nodes[block[ended] * of_block - (rest[ended] >> level)]
    return total


def draw(noise: SeededNoise, nodes: int, epsilon: str, levels: int) -> Int64Array:
    """The noise of the nodes of a level, of which an event is in one."""
    return noise.laplace(np.zeros(nodes, dtype=np.int64), epsilon=epsilon, l1_sensitivity=levels)


def main(argv: list[str] | None = None) -> int:
    """Release every stream several times and print the table."""
    given = arguments(__doc__.splitlines()[0]).parse_args(argv)
    steps = 3000 if given.quick else 200_000
    seeds = range(1 if given.quick else given.repetitions)
    rows: list[list[str]] = []
    figures: dict[str, object] = {}
    regrets: list[float] = []
    for name, (counts, day) in real_streams(steps).items():
        for epsilon in EPSILONS:
            progress(f"{name}, epsilon {epsilon}")
            drawn = [SeededNoise(seed).laplace(counts, epsilon=epsilon, l1_sensitivity=1) for seed in seeds]
            singles = averaged([count_errors(counts, drawn[seed], day, epsilon, seed) for seed in seeds])
            rows += shown(name, epsilon, "count", singles)
            regrets.append(singles["filter, season of a day"] / min(singles.values()))
            figures[f"{name} {epsilon}"] = singles
            for width in WIDTHS:
                errors = averaged([window_errors(counts, drawn[seed], width, epsilon, seed) for seed in seeds])
                rows += shown(name, epsilon, f"sum of {width}", errors)
                figures[f"{name} {epsilon} {width}"] = errors
    if regrets:
        rows.append(["all", "", "count", "regret of the rule, mean", "", f"{np.mean(regrets):.2f}"])
        rows.append(["all", "", "count", "regret of the rule, worst", "", f"{max(regrets):.2f}"])
    report = Report(
        name=f"counts and windows of real streams: means of {len(seeds)}",
        columns=("stream", "epsilon", "figure", "method", "mean absolute error", "over plain noise"),
        rows=rows,
        targets=[],
        figures={**figures, "regrets": regrets},
    )
    return publish(report, given.json)


def averaged(runs: list[dict[str, float]]) -> dict[str, float]:
    """The mean error of each method over repetitions."""
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def shown(name: str, epsilon: str, figure: str, errors: dict[str, float]) -> list[list[str]]:
    """Rows of the table; the first method is plain noise."""
    plain = next(iter(errors.values()))
    return [[name, epsilon, figure, method, f"{error:.4g}", f"{error / plain:.2f}"] for method, error in errors.items()]


if __name__ == "__main__":
    sys.exit(main())
