"""Neighbours of tables of counts."""

from __future__ import annotations

import numpy as np

from spark_jobs.contract.privacy import Neighbours


def neighbouring(counts, neighbours):
    """Tables with a row more in every cell, or with one row moved to every cell (from every other occupied one)."""
    one = [np.bincount([i], minlength=counts.size).reshape(counts.shape) for i in range(counts.size)]
    if neighbours is Neighbours.ADD_REMOVE:
        return [counts + row for row in one]
    occupied = np.flatnonzero(counts)[::2]
    return [counts - one[i] + one[j] for i in occupied for j in range(counts.size) if i != j]
