"""Simulated releases, computed from released numbers and a public seed alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.diagnostics.residual_plot.measurement import ResidualDraw
from spark_jobs.diagnostics.residual_plot.offsets import HALF_CELL, in_units
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import SeededNoise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed

COPIES = 2000
MAX_SIMULATED_COUNTS = 8_000_000
"""Largest number of simulated counts (copies times cells), so fine grids get fewer copies."""
COPIES_OF_METHODS = 200
"""Copies for methods whose error depends on the counts: each copy is another run of the method."""
PLAIN = frozenset({"geometric", "laplace"})
"""Methods that add noise of the same public distribution to every cell."""


def copies_of(measurement: ResidualDraw) -> int:
    """The number of simulated copies for a draw."""
    if measurement.method not in PLAIN:
        return COPIES_OF_METHODS
    return int(min(COPIES, max(COPIES_OF_METHODS, MAX_SIMULATED_COUNTS // measurement.cells.size)))


def cell_variance(measurement: ResidualDraw) -> float:
    """Variance of plain noise in one cell at the cost of the counts; for methods that are not plain, an estimate."""
    return laplace_variance(laplace_scale(measurement.cells_epsilon, rows_changed(measurement.neighbours)))


def noisy_copies(
    measurement: ResidualDraw, means: FloatArray, noise: SeededNoise, *, sampled: bool, effect: float = 1.0
) -> FloatArray:
    """Simulated releases of tables with these expected counts; shape (copies, *means.shape).

    Args:
        measurement: the draw, for its method, cost and relation.
        means: expected counts, at least 0.
        noise: sampler with a public seed.
        sampled: whether to simulate the sampling of rows, by Poisson counts; otherwise counts are the rounded means.
        effect: the design effect of the sampling.
    """
    copies = copies_of(measurement)
    means = np.minimum(means, 1e18)
    counts = (
        np.rint(effect * noise.poissons(means / effect, copies=copies)).astype(np.int64)
        if sampled
        else np.broadcast_to(np.round(means).astype(np.int64), (copies, *means.shape))
    )
    cost, rows = measurement.cells_epsilon, rows_changed(measurement.neighbours)
    if measurement.method in PLAIN:
        return noise.laplace(counts, epsilon=cost, l1_sensitivity=rows).astype(np.float64)
    released = [
        release_histogram(
            table,
            epsilon=cost,
            neighbours=measurement.neighbours,
            noise=noise,
            method=measurement.method,
            expected_rows=max(measurement.rows, 1),
        ).cells
        for table in counts
    ]
    return np.stack(released)


@dataclass(frozen=True, eq=False)
class Offsets:
    """For each pool, the sum over its rows of residual less middle of its cell, in units; 0 in draws without such sums.

    Attributes:
        released: the released sums, shape (pools,).
        copies: the released sums less simulated noise, shape (copies, pools); one copy if there is no noise.
    """

    released: FloatArray
    copies: FloatArray


def offsets_of(measurement: ResidualDraw, starts: Int64Array, noise: SeededNoise, *, copies: int) -> Offsets:
    """The released sums of offsets of a draw, by pool, with simulated copies.

    Args:
        measurement: the draw.
        starts: the first column of each pool.
        noise: sampler with a public seed.
        copies: number of copies.
    """
    if measurement.offsets is None:
        return Offsets(np.zeros(starts.size), np.zeros((1, starts.size)))
    drawn = noise.laplace(
        np.zeros((copies, measurement.box.bins), dtype=np.int64),
        epsilon=measurement.offsets_epsilon,
        l1_sensitivity=HALF_CELL * rows_changed(measurement.neighbours),
    )
    released, again = (
        np.add.reduceat(in_units(sums, measurement.box), starts, axis=-1)
        for sums in (measurement.offsets, measurement.offsets - drawn)
    )
    return Offsets(released, again)
