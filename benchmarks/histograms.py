"""The error and regret of every histogram method: ``python -m benchmarks.histograms [--quick]``.

Workloads: all prefixes of a line; 2,000 ranges of a line or rectangles of a grid, ends uniform. The error of a release
is DPBench's scaled average per-query error, ``|W x - W y|_2 / (scale q)`` for q queries (Hay, Machanavajjhala, Miklau,
Chen, Zhang, SIGMOD 2016, definition 3). A method's regret in a setting (shape, scale, epsilon) is its mean error over
that of the best method there; its regret is the mean over settings. Confidence intervals are percentiles of a bootstrap
that draws the repetitions of each setting again. Noise is seeded; its distributions are those of releases.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks._histogram_shapes import Counts, at_scale, shapes
from benchmarks.harness import Report, arguments, progress, publish
from spark_jobs.arrays import FloatArray
from spark_jobs.mechanisms.histograms import methods, release_histogram
from spark_jobs.mechanisms.noise import SeededNoise

SCALES = (1_000, 30_000, 1_000_000)
EPSILONS = ("0.1", "1")
QUERIES = 2000
RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One histogram at one epsilon."""

    shape: str
    scale: int
    epsilon: str
    dimensions: int

    @property
    def signal(self) -> float:
        """Rows times epsilon."""
        return self.scale * float(self.epsilon)


def prefix_error(counts: Counts, estimates: FloatArray) -> float:
    """Scaled average per-query error over all prefixes of a line."""
    return float(np.linalg.norm(np.cumsum(estimates - counts)) / (counts.sum() * counts.size))


def range_error(counts: Counts, estimates: FloatArray) -> float:
    """Scaled average per-query error over fixed random ranges or rectangles."""
    generator = np.random.default_rng(2000)
    missed = estimates - counts
    corners = []
    for axis, size in enumerate(counts.shape):
        missed = np.insert(np.cumsum(missed, axis=axis), 0, 0.0, axis=axis)
        ends = np.sort(generator.integers(0, size, (QUERIES, 2)), axis=1)
        corners.append((ends[:, 0], ends[:, 1] + 1))
    if counts.ndim == 1:
        errors = missed[corners[0][1]] - missed[corners[0][0]]
    else:
        (top, bottom), (left, right) = corners
        errors = missed[bottom, right] - missed[top, right] - missed[bottom, left] + missed[top, left]
    return float(np.linalg.norm(errors) / (counts.sum() * QUERIES))


WORKLOADS = {"prefixes": (prefix_error, 1), "ranges": (range_error, 1), "rectangles": (range_error, 2)}
Errors = dict[str, dict[str, FloatArray]]


def measure(setting: Setting, counts: Counts, *, repetitions: int, seconds: dict[str, float]) -> Errors:
    """Workload -> method -> errors of repeated releases."""
    names = [name for name, entry in methods().items() if counts.ndim in entry.dimensions]
    workloads = {name: error for name, (error, dimensions) in WORKLOADS.items() if dimensions == counts.ndim}
    errors: Errors = {workload: {} for workload in workloads}
    for name in [*names, "auto", "auto, scale known"]:
        noise, started = SeededNoise(zlib.crc32(f"{name} {setting}".encode())), time.process_time()
        method, known = name.split(",")[0], setting.scale if "," in name else None
        releases = [
            release_histogram(counts, epsilon=setting.epsilon, noise=noise, method=method, expected_rows=known).cells
            for _ in range(repetitions)
        ]
        seconds[name] = seconds.get(name, 0.0) + time.process_time() - started
        for workload, error in workloads.items():
            errors[workload][name] = np.array([error(counts, cells) for cells in releases])
    return errors


@dataclass(frozen=True, kw_only=True)
class Regret:
    """A method's regret over settings.

    Attributes:
        mean, low, high: the mean and its 95% interval.
        worst: the largest regret in a setting.
        by_signal: rows times epsilon -> the mean over settings with it.
    """

    mean: float
    low: float
    high: float
    worst: float
    by_signal: dict[float, float]


def regrets(errors: Mapping[Setting, dict[str, FloatArray]]) -> dict[str, Regret]:
    """Method -> its regret."""
    generator = np.random.default_rng(95)
    methods = list(next(iter(errors.values())))
    best_of = [name for name in methods if not name.startswith("auto")]
    draws = np.zeros((RESAMPLES + 1, len(methods), len(errors)))
    for place, by_method in enumerate(errors.values()):
        values = np.stack([by_method[name] for name in methods])
        again = generator.integers(0, values.shape[1], (RESAMPLES, len(methods), values.shape[1]))
        means = np.concatenate([[values.mean(axis=1)], np.take_along_axis(values[None], again, axis=2).mean(axis=2)])
        smallest = means[:, [methods.index(name) for name in best_of]].min(axis=1, keepdims=True)
        draws[:, :, place] = means / smallest
    low, high = np.percentile(draws[1:].mean(axis=2), [2.5, 97.5], axis=0)
    signals = np.array([round(setting.signal, 6) for setting in errors])
    return {
        name: Regret(
            mean=float(draws[0, i].mean()),
            low=float(low[i]),
            high=float(high[i]),
            worst=float(draws[0, i].max()),
            by_signal={float(signal): float(draws[0, i, signals == signal].mean()) for signal in np.unique(signals)},
        )
        for i, name in enumerate(methods)
    }


def main() -> int:
    """Measure, print, write."""
    parser = arguments(__doc__ or "")
    parser.set_defaults(repetitions=10)
    given = parser.parse_args()
    scales, repetitions = (SCALES[:1], 2) if given.quick else (SCALES, given.repetitions)
    generator, seconds = np.random.default_rng(1), dict[str, float]()
    results: dict[str, dict[Setting, dict[str, FloatArray]]] = {workload: {} for workload in WORKLOADS}
    for name, shape in shapes().items():
        for scale in scales:
            counts = at_scale(shape, scale, generator)
            for epsilon in EPSILONS:
                setting = Setting(shape=name, scale=scale, epsilon=epsilon, dimensions=counts.ndim)
                progress(f"{name}, {scale:,} rows, epsilon {epsilon}")
                for workload, errors in measure(setting, counts, repetitions=repetitions, seconds=seconds).items():
                    results[workload][setting] = errors
    return publish(_report(results, repetitions, seconds), given.json)


def _report(
    results: Mapping[str, Mapping[Setting, dict[str, FloatArray]]], repetitions: int, seconds: Mapping[str, float]
) -> Report:
    rows, figures, signals = [], [], dict[float, None]()
    for workload, errors in results.items():
        for name, regret in sorted(regrets(errors).items(), key=lambda item: item[1].mean):
            signals.update(dict.fromkeys(regret.by_signal))
            interval = f"{_short(regret.mean)} ({_short(regret.low)}-{_short(regret.high)})"
            by_signal = [_short(value) for value in regret.by_signal.values()]
            rows.append((workload, f"`{name}`", interval, _short(regret.worst), *by_signal))
        for setting, by_method in errors.items():
            means = {name: float(values.mean()) for name, values in by_method.items()}
            figures.append({"workload": workload, **setting.__dict__, "errors": means})
    return Report(
        name=f"histograms, {repetitions} repetitions",
        columns=("workload", "method", "mean regret (95%)", "worst", *(f"{signal:,.0f}" for signal in signals)),
        rows=rows,
        targets=(),
        figures={"settings": figures, "processor seconds": dict(seconds)},
    )


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
