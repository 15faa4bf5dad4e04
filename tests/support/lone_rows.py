"""Squares of units of which each has a single row, for tests that have counts and no units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_jobs.application.unit_passes import UnitSquares
from spark_jobs.contract.options import Statistic
from spark_jobs.statistics.unit_squares import squared


def lone_rows(counts: Mapping[Statistic, Any], *, max_rows: int) -> UnitSquares:
    """What sums their squares, where a unit may have had up to ``max_rows`` rows."""

    def squares(statistic: Statistic, weights: Any) -> Any:
        rows = np.stack([counts[statistic].negatives, counts[statistic].positives], axis=-2).reshape(-1)
        return (squared(weights.values, max_rows) * np.add.reduceat(rows, weights.starts)).sum(axis=1)

    return squares
