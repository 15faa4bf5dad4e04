"""How much figures vary between made-up units, whose rows are half alike; no row of a table is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_jobs.application.unit_passes import UnitSquares, cells_of_rows
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options import PairedScoreCells, Statistic
from spark_jobs.contract.privacy import UNIT_STEPS


def typical_squares(counts: Mapping[Statistic, Any], *, max_rows: int) -> UnitSquares:
    """What sums the squares of units with ``max_rows`` rows each, which vary half as much as they could at most."""

    def squares(statistic: Statistic, weights: Int64Array) -> Int64Array:
        if isinstance(statistic, PairedScoreCells):
            keys, rows = counts[statistic].keys, counts[statistic].counts
        else:
            rows = np.concatenate([counts[statistic].negatives, counts[statistic].positives])
            keys = np.arange(rows.size)
        of_rows = weights[:, np.stack(cells_of_rows(statistic, keys)).astype(np.int64)].sum(axis=1) / UNIT_STEPS
        effect = (1 + max_rows) / 2
        steps: Int64Array = np.rint((of_rows**2 * rows).sum(axis=1) * effect / max_rows**2 * UNIT_STEPS).astype(
            np.int64
        )
        return steps

    return squares
