"""How much figures vary between made-up units, whose rows are half alike; no row of a table is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_jobs.application.unit_passes import UnitSquares, cells_of_rows
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import PairedScoreCells, Statistic
from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.statistics.unit_squares import OfCells


def typical_squares(counts: Mapping[Statistic, Any], *, max_rows: int) -> UnitSquares:
    """What sums the squares of units with ``max_rows`` rows each, which vary half as much as they could at most."""

    def squares(statistic: Statistic, weights: OfCells) -> Int64Array:
        if isinstance(statistic, PairedScoreCells):
            keys, rows = counts[statistic].keys, counts[statistic].counts
            of_rows = weights.at(np.stack(cells_of_rows(statistic, keys))).sum(axis=1) / UNIT_STEPS
        else:  # by group, if there are some, and label
            every = np.stack([counts[statistic].negatives, counts[statistic].positives], axis=-2).reshape(-1)
            rows, of_rows = np.add.reduceat(every, weights.starts), weights.values / UNIT_STEPS
        effect = (1 + max_rows) / 2
        steps: Int64Array = np.rint((of_rows**2 * rows).sum(axis=1) * effect / max_rows**2 * UNIT_STEPS).astype(
            np.int64
        )
        return steps

    return squares
