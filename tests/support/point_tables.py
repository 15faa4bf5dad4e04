"""Points in groups for tests of lines: ordinary ones, and every kind that breaks a careless implementation."""

from __future__ import annotations

import numpy as np

from spark_jobs.statistics import PointCounts

KEYS = ("line", "cloud", "steep", "one x", "one row", "empty", "outside", "infinite", "missing", "two corners")
CELLS = 1024


def rows_of(key: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y of one group, meant for the box [0, 1] x [0, 1]."""
    random = np.random.default_rng(KEYS.index(key))
    x = random.random(300)
    made = {
        "line": lambda: (x, 0.2 + 0.5 * x + random.normal(0, 0.05, 300)),
        "cloud": lambda: (x, random.random(300)),
        "steep": lambda: (0.5 + 0.02 * x, x),
        "one x": lambda: (np.full(80, 0.3), random.random(80)),
        "one row": lambda: (np.array([0.4]), np.array([0.9])),
        "empty": lambda: (np.array([]), np.array([])),
        "outside": lambda: (x * 40 - 20, 30 - x * 60),
        "infinite": lambda: (np.where(x < 0.5, np.inf, -np.inf), np.where(x < 0.3, -np.inf, np.inf)),
        "missing": lambda: (np.where(x < 0.6, np.nan, x), np.where(x > 0.9, np.nan, x)),
        "two corners": lambda: (np.repeat([0.0, 1.0], 40), np.repeat([0.0, 1.0], 40)),
    }
    return made[key]()


def counted(*keys: str, lower=(0.0, 0.0), upper=(1.0, 1.0), cells: int = CELLS) -> PointCounts:
    """The statistic of these groups, of all of them unless some are named; their box is moved to the given bounds."""
    keys = keys or KEYS
    columns = [rows_of(key) for key in keys]
    groups = np.repeat(keys, [x.size for x, _ in columns])
    x, y = (
        low + (high - low) * np.concatenate([column[axis] for column in columns])
        for axis, (low, high) in enumerate(zip(lower, upper, strict=True))
    )
    return PointCounts.from_arrays(x, y, groups=groups, keys=keys, lower=lower, upper=upper, cells=cells)


def snapped(points: PointCounts, group: int) -> tuple[np.ndarray, np.ndarray]:
    """The points of a group where their cells put them, in the user's units."""
    grid = points.grid
    return tuple(
        axis.lower + (axis.upper - axis.lower) * place / grid.steps
        for axis, place in zip((grid.x, grid.y), points.points(group), strict=True)
    )
