"""Rows of labels and scores, good and nasty, and a slow reference that counts them one by one."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import strategies as st

from spark_jobs.statistics import ScoreCounts

NASTY_LABELS = [
    None,
    math.nan,
    0.0,
    -0.0,
    1.0,
    0.5,
    -1.0,
    2.0,
    math.inf,
    -math.inf,
    1e300,
    -1e300,
    5e-324,
    math.nextafter(1.0, 0.0),
    math.nextafter(1.0, 2.0),
    float(2**31),
    float(2**63),
]
NASTY_SCORES = [
    None,
    math.nan,
    0.0,
    -0.0,
    1.0,
    0.5,
    math.nextafter(0.5, 0.0),
    math.nextafter(0.5, 1.0),
    math.nextafter(1.0, 0.0),
    math.nextafter(1.0, 2.0),
    5e-324,
    -5e-324,
    2.0**-1030,
    1e-300,
    -1e-300,
    1e300,
    -1e300,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    7.0,
    -7.0,
    float(2**31),
    float(-(2**31)) - 1,
    float(2**63),
    float(-(2**63)),
]
NASTY_ROWS = list(product(NASTY_LABELS, NASTY_SCORES))


def labels() -> st.SearchStrategy[float | None]:
    """Labels, mostly of the two classes."""
    return st.sampled_from([0.0, 1.0]) | st.sampled_from(NASTY_LABELS) | st.floats()


def scores(cells: int) -> st.SearchStrategy[float | None]:
    """Scores: anywhere, on the edges of cells, and beside them."""
    edges = st.integers(-1, cells + 1).map(lambda edge: edge / cells)
    beside = st.tuples(edges, st.sampled_from([-math.inf, math.inf])).map(lambda pair: math.nextafter(*pair))
    return st.floats(0, 1) | st.floats() | edges | beside | st.sampled_from(NASTY_SCORES)


def rows(cells: int, *, most: int = 60) -> st.SearchStrategy[list[tuple[float | None, float | None]]]:
    """Tables of label and score."""
    return st.lists(st.tuples(labels(), scores(cells)), max_size=most)


def from_rows(table: list[tuple[object, object]], cells: int) -> ScoreCounts:
    """The counts of a list of rows."""
    return ScoreCounts.from_arrays(column(table, 0), column(table, 1), cells=cells)


def column(table: list[tuple[object, object]], index: int) -> np.ndarray:
    """A column as an array of objects, None included."""
    values = np.empty(len(table), dtype=object)
    values[:] = [row[index] for row in table]
    return values


def counted_one_by_one(table: list[tuple[object, object]], cells: int) -> tuple[list[int], list[int]]:
    """The counts by exact rational arithmetic, one row after the other."""
    counts = ([0] * cells, [0] * cells)
    for label, score in table:
        if label not in (0, 1) or score is None or score != score:
            continue
        if score in (math.inf, -math.inf):
            cell = 0 if score < 0 else cells - 1
        else:
            exact = Fraction(score) if not isinstance(score, Decimal) else Fraction(float(score))
            cell = min(max(math.floor(exact * cells), 0), cells - 1)
        counts[int(label)][cell] += 1
    return counts


def l1_distance(one: ScoreCounts, other: ScoreCounts) -> int:
    """How far apart two counts of one grid are."""
    return int(np.abs(one.negatives - other.negatives).sum() + np.abs(one.positives - other.positives).sum())
