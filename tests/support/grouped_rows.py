"""Exact figures of the pools that a release of binned residuals or calibration shows, row by row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.support.scored_rows import GRID


@dataclass(frozen=True)
class Pool:
    """What the rows of one pool really are."""

    rows: int
    predicted: float
    observed: float

    @property
    def residual(self):
        return self.observed - self.predicted

    @property
    def excess(self):
        return self.rows * self.residual

    @property
    def expected(self):
        """Expected rows of the smaller class."""
        return self.rows * min(self.predicted, 1 - self.predicted)


def snapped(scores, grid=GRID):
    """Each score's cell, by the public rule."""
    return np.minimum((np.clip(scores, 0, 1) * grid).astype(np.int64), grid - 1)


def exact_pools(released, labels, scores, grid=GRID):
    """The pools of a release, counted on the rows; scores at the middle of their cells."""
    cell = snapped(np.asarray(scores), grid)
    labels, score = np.asarray(labels), (cell + 0.5) / grid
    pools = []
    for pool in range(released.pool.max() + 1):
        bins = np.flatnonzero(released.pool == pool)
        inside = (cell >= round(released.lower[bins[0]] * grid)) & (cell < round(released.upper[bins[-1]] * grid))
        if inside.any():
            pools.append(Pool(int(inside.sum()), float(score[inside].mean()), float(labels[inside].mean())))
        else:
            pools.append(Pool(0, float("nan"), float("nan")))
    return pools


def of_pools(released, values):
    """One value for each pool from an array of bins; the bins of a pool must agree."""
    found = []
    for pool in range(released.pool.max() + 1):
        shared = np.unique(values[released.pool == pool])
        assert shared.size == 1
        found.append(shared[0])
    return np.array(found)


def hosmer_lemeshow(pools):
    """The statistic as textbooks print it: four sums a group."""
    total = 0.0
    for pool in pools:
        seen = {1: pool.rows * pool.observed, 0: pool.rows * (1 - pool.observed)}
        expected = {1: pool.rows * pool.predicted, 0: pool.rows * (1 - pool.predicted)}
        total += sum((seen[label] - expected[label]) ** 2 / expected[label] for label in (0, 1))
    return total


def calibration_error(pools):
    """The mean distance of shares from scores, weighed by rows."""
    rows = sum(pool.rows for pool in pools)
    return sum(pool.rows * abs(pool.observed - pool.predicted) for pool in pools if pool.rows) / rows
