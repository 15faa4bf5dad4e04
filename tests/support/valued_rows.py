"""Values of many kinds, for tests of distribution functions."""

from __future__ import annotations

import numpy as np

from spark_jobs.statistics import ValueCounts


def ten_data_sets() -> dict[str, np.ndarray]:
    """Name -> values in [0, 1]: ordinary ones and every kind that breaks a careless implementation."""
    random = np.random.default_rng(20250302)
    return {
        "ordinary": random.normal(0.5, 0.12, 3000),
        "uniform": random.random(5000),
        "heavy skew": np.exp(random.normal(-7, 1.6, 4000)),
        "two far groups": np.concatenate([random.normal(0.1, 0.01, 900), random.normal(0.9, 0.01, 100)]),
        "many ties": random.integers(0, 9, 2000) / 8,
        "constant": np.full(700, 0.3),
        "one row": np.array([0.7]),
        "empty": np.array([]),
        "beyond the bounds": random.normal(0.5, 2.0, 2000),
        "nulls and infinities": np.array([np.nan] * 50 + [np.inf] * 7 + [-np.inf] * 5 + [0.25] * 30),
    }


def counted(values: np.ndarray, *, cells: int = 4096) -> ValueCounts:
    """The counts on [0, 1]."""
    return ValueCounts.from_arrays(values, lower=0, upper=1, cells=cells)


def fractions(statistic: ValueCounts) -> np.ndarray:
    """The exact fractions of rows in the first 1, ..., N cells."""
    return np.cumsum(statistic.counts) / max(statistic.total, 1)
