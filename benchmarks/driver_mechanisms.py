"""Error of a released AUC by density; the time of selection, smooth bounds, DAWA. Prints figures; no pass or fail."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import cauchy_noise, laplace_noise, polynomial_noise
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import Cost, Int64Array, SecureNoise, SeededNoise
from spark_jobs.mechanisms.selection import median_by_exponential, permute_and_flip
from spark_jobs.mechanisms.smooth_sensitivity import auc_bound, release_auc, release_average_precision

DRAWS = 3000
LINE = 1 << 20


class TimedNoise(SeededNoise):
    """Seeded noise that knows how long its draws took."""

    seconds = 0.0

    def laplace(self, values: NDArray[Any], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """As any noise, on the clock."""
        start = time.perf_counter()
        noisy = super().laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)
        self.seconds += time.perf_counter() - start
        return noisy


def dawa_against_sort(generator: np.random.Generator) -> None:
    """DAWA on 2^20 cells, its noise taken off, over numpy's sort of as many floats; by turns."""
    hill = generator.normal(LINE / 2, LINE / 20, 10**7)
    for name, counts in {
        "flat": generator.poisson(5, LINE),
        "one hill": np.bincount(np.clip(hill, 0, LINE - 1).astype(np.int64), minlength=LINE),
        "spikes": generator.multinomial(10**7, generator.dirichlet(np.full(LINE, 0.01))),
    }.items():
        own, sorts = [], []
        for _ in range(6):
            noise, floats = TimedNoise(1), generator.random(LINE)
            start = time.perf_counter()
            release_histogram(counts, epsilon=1, noise=noise, method="dawa")
            middle = time.perf_counter()
            np.sort(floats)
            own.append(middle - start - noise.seconds)
            sorts.append(time.perf_counter() - middle)
        median, sort = float(np.median(own[1:])), float(np.median(sorts))
        print(
            f"DAWA, 2^20 cells, {name}, noise excluded: median {median:.3f} s, {median / sort:.1f} times "
            f"a sort of {1000 * sort:.1f} ms; the first time {own[0]:.3f} s"
        )


def main() -> None:
    """Print the figures of docs/mechanisms."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    draws = DRAWS // 10 if parser.parse_args().quick else DRAWS
    noise, generator = SecureNoise(), np.random.default_rng(0)
    for shape in (polynomial_noise(1), laplace_noise(1, "1e-6"), cauchy_noise(1)):
        bound = auc_bound(1000, 1000, neighbours=Neighbours.REPLACE_ONE, smoothness=shape.smoothness)
        errors = np.abs([float(x) for x in shape.sample(draws, noise)]) * shape.scale * bound
        errors = np.minimum(errors, 0.5)
        print(f"AUC, {shape.density}: {errors.mean():.5f} +- {1.96 * errors.std() / draws**0.5:.5f}")
    cells = generator.integers(0, 100, 65536)
    shape, replaced = polynomial_noise(1), Neighbours.REPLACE_ONE
    values = generator.integers(0, 1 << 30, 1_000_000)
    for name, run in {
        "AUC, 2 x 65,536 cells": lambda: release_auc(cells, cells, shape=shape, neighbours=replaced, noise=noise),
        "average precision": lambda: release_average_precision(
            cells, cells, shape=shape, neighbours=replaced, noise=noise
        ),
        "permute-and-flip, 65,536": lambda: permute_and_flip(
            np.arange(65536), epsilon=1, l_inf_sensitivity=1, noise=noise
        ),
        "widened median, 1M estimates": lambda: median_by_exponential(
            values, steps=1 << 30, epsilon="0.5", neighbours=replaced, noise=noise, changes=10, widen=1 << 20
        ),
    }.items():
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        print(f"{name}: median {np.median(seconds):.4f} s")
    dawa_against_sort(generator)


if __name__ == "__main__":
    main()
