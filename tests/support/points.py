"""Small tables of points on a grid, and all their neighbours."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.regression.sums import GroupSums


def places(steps):
    """Every point of the box."""
    return list(product(range(steps + 1), repeat=2))


def tables(steps, rows):
    """Every table of so many rows, up to their order."""
    return combinations_with_replacement(places(steps), rows)


def neighbours_of(table, steps, relation):
    """Every neighbour that has no fewer rows."""
    if relation is Neighbours.ADD_REMOVE:
        return [(*table, row) for row in places(steps)]
    return [(*table[:at], row, *table[at + 1 :]) for at in range(len(table)) for row in places(steps)]


def sums_of(table, steps, *, copies=1):
    """The sums of a table, of as many groups as it has copies."""
    x, y = np.array(table, dtype=np.int64).reshape(-1, 2).T
    one = GroupSums.from_cells(0 * x, x, y, np.ones(x.size, np.int64), groups=1, steps=steps)
    repeated = {name: np.repeat(getattr(one, name), copies) for name in ("rows", "x", "y", "xx", "xy")}
    return GroupSums(steps=steps, **repeated)
