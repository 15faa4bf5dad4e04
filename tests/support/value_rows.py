"""Values, good and nasty, and a slow reference that finds their cells one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from spark_jobs.statistics.value_grid import ValueGrid

NASTY_VALUES = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.0**-1030,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    *(sign * math.nextafter(2.0**power, to) for power in (-20, -1, 0, 1, 3, 29, 30) for to in (0, 1e9, 2.0**power)
      for sign in (1, -1)),
    7.0,
    -7.0,
    0.1,
    999999.9999999999,
    1000000.0,
    1000000.0000000001,
    float(2**63),
    float(-(2**63)),
]  # fmt: skip

GRIDS = {
    "linear": ValueGrid(lower=0, upper=1e6, cells=1024),
    "linear around 0": ValueGrid(lower=-7.3, upper=11.1, cells=64),
    "two cells": ValueGrid(lower=0, upper=1, cells=2),
    "log": ValueGrid(lower=0, upper=1e6, cells=1024, scale="log"),
    "log, positive": ValueGrid(lower=0.01, upper=1e6, cells=32768, scale="log"),
    "log, both signs": ValueGrid(lower=-5, upper=1e6, cells=4096, scale="log", unit=0.125),
    "log, negative": ValueGrid(lower=-(2.0**30), upper=-1, cells=256, scale="log"),
}
LATTICES = {
    "whole numbers": ValueGrid(lower=0, upper=120, step=1),
    "cents": ValueGrid(lower=-3, upper=100, cells=16384, step=0.01),
    "two values": ValueGrid(lower=0, upper=1, cells=2, step=1),
    "many whole numbers": ValueGrid(lower=-7, upper=1000, cells=256, step=1),
    "prices in one cell each 0.35": ValueGrid(lower=0, upper=500, cells=2048, step=0.05),
    "a last cell of one value": ValueGrid(lower=0, upper=8, cells=4, step=1),
}
"""Grids whose values are a whole number of steps apart."""


def values(grid: ValueGrid) -> st.SearchStrategy[float | None]:
    """Values: anywhere, within the bounds, on edges and beside them."""
    edges = st.integers(0, grid.size).map(lambda i: float(grid.edges[i]))
    beside = st.tuples(edges, st.sampled_from([-math.inf, math.inf])).map(lambda pair: math.nextafter(*pair))
    return st.floats(grid.lower, grid.upper) | st.floats() | edges | beside | st.sampled_from(NASTY_VALUES)


def cell_by_search(grid: ValueGrid, value: float | None) -> int | None:
    """The cell by bisection among the edges, without any arithmetic on the value."""
    if value is None or math.isnan(value):
        return None
    return int(np.clip(np.searchsorted(grid.edges, value, side="right") - 1, 0, grid.size - 1))


def column(rows: list[float | None]) -> np.ndarray:
    """Rows as an array of objects, None included."""
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    return array
