"""Rows for tables of aggregates, with values that fit and values that do not."""

from __future__ import annotations

import datetime as dt

import numpy as np
from hypothesis import strategies as st

from spark_jobs.statistics import AggregateSums

BY = [
    {"column": "region", "values": ["north", 7]},
    {"column": "age", "edges": [0, 18, 65, 120]},
    {"column": "at", "every": "year", "start": "2025-01-01", "end": "2026-07-01", "other": False},
]
MEASURES = [{"of": "spend", "bounds": [0, 10], "step": 0.5}, {"of": "stay", "bounds": [-5, 20.5]}]
NAMES = ("region", "age", "at", "spend", "stay")
NUMBERS = [None, -1e308, -5.0, -0.0, 0.25, 0.75, 3.3, 17.999999999999996, 18.0, 65.0, 120.0, 1e308]
NUMBERS += [float("nan"), float("inf"), float("-inf"), 5e-324]
MOMENTS = [None, dt.datetime(2024, 12, 31, 23, 59, 59, 999_999), dt.datetime(2025, 1, 1), dt.datetime(2025, 12, 31, 23)]
MOMENTS += [dt.datetime(2026, 1, 1), dt.datetime(2026, 7, 1), dt.datetime(2026, 6, 30, 23, 59, 59, 999_999)]
REGIONS = ["north", "7", "07", "", None, "west"]
ROWS = st.lists(st.tuples(*map(st.sampled_from, (REGIONS, NUMBERS, MOMENTS, NUMBERS, NUMBERS))), max_size=20)


def columns_of(rows):
    """The rows as arrays of objects, by name."""
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    found = {}
    for name, values in zip(NAMES, columns, strict=True):
        found[name] = np.empty(len(values), dtype=object)
        found[name][:] = values
    return found


def summed(rows, by=BY, measures=MEASURES):
    """The statistic of the rows."""
    return AggregateSums.from_arrays(columns_of(rows), by=by, measures=measures)
