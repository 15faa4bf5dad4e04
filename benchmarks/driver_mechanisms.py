"""Error of a released AUC by density, and the time of selection and smooth bounds. Prints figures; no pass or fail."""

from __future__ import annotations

import argparse
import time

import numpy as np

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import cauchy_noise, laplace_noise, polynomial_noise
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.mechanisms.selection import median_by_exponential, permute_and_flip
from spark_jobs.mechanisms.smooth_sensitivity import auc_bound, release_auc, release_average_precision

DRAWS = 3000


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


if __name__ == "__main__":
    main()
