"""The public grid of each score where two are counted together."""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.base import SCORE_CELLS
from spark_jobs.contract.options.comparisons import PAIR_CELLS
from spark_jobs.statistics.arrays import read_only

FINE_BITS, DOUBLINGS = 6, 6
"""The 2^6 cells of ``ScoreCounts`` at either end of [0, 1] are kept; then their width doubles six times."""


def pair_cells(cells: Int64Array) -> Int64Array:
    """The cells of a comparison's grid that hold cells of ``ScoreCounts``: closed form, the same in Spark.

    A cell below the middle with a number of ``b`` bits is shifted down by ``b - 6`` bits, at least 0 and at most 6; the
    upper half mirrors the lower one.
    """
    folded = np.minimum(cells, SCORE_CELLS - 1 - cells)
    doublings = np.clip(np.frexp(folded)[1] - FINE_BITS, 0, DOUBLINGS)
    index = (doublings << (FINE_BITS - 1)) + (folded >> doublings)
    mirrored: Int64Array = np.where(cells < SCORE_CELLS // 2, index, PAIR_CELLS - 1 - index)
    return mirrored


PAIR_CUTS: Int64Array = read_only(np.searchsorted(pair_cells(np.arange(SCORE_CELLS)), np.arange(PAIR_CELLS + 1)))
"""Edges of the cells of each score, as cuts of the grid of ``ScoreCounts``; shape (PAIR_CELLS + 1,)."""
