"""Points in groups, good and nasty, and a slow reference that counts and sums them one by one."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from spark_jobs.statistics import PointCounts
from spark_jobs.statistics.point_grid import PointGrid

KEYS = ("north", 17, "017", "", 'a "quoted" key', "Größe\t中\n\x01\\", "last")
GROUPS = [*map(str, KEYS), "nowhere", "North", " north", None]
NASTY_NUMBERS = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    1.0,
    math.nextafter(1.0, 0.0),
    math.nextafter(1.0, 2.0),
    0.25,
    math.nextafter(0.25, 0.0),
    math.nextafter(0.25, 1.0),
    7.0,
    -1e300,
    1.7976931348623157e308,
]
GRIDS = {
    "unit box": PointGrid.between(cells=8, keys=KEYS),
    "two bounds": PointGrid.between((0, -50.0), (1, 125.5), cells=1024, keys=KEYS),
    "finest": PointGrid.between(-1, 1, cells=2**13, keys=KEYS),
}
Row = tuple[object, float | None, float | None]


def numbers() -> st.SearchStrategy[float | None]:
    """Values in and around the unit interval."""
    edges = st.integers(-1, 9).map(lambda edge: edge / 8)
    return st.floats(0, 1) | st.floats() | edges | st.sampled_from(NASTY_NUMBERS)


def row() -> st.SearchStrategy[Row]:
    """A group, x and y."""
    return st.tuples(st.sampled_from(GROUPS), numbers(), numbers())


def rows(*, most: int = 40) -> st.SearchStrategy[list[Row]]:
    """Tables of such rows."""
    return st.lists(row(), max_size=most)


def nasty_rows() -> list[Row]:
    """Every nasty number with every other, in groups that are listed and groups that are not."""
    pairs = [(x, y) for x in NASTY_NUMBERS for y in NASTY_NUMBERS]
    return [(GROUPS[i % len(GROUPS)], x, y) for i, (x, y) in enumerate(pairs)]


def column(table: list[Row], index: int) -> np.ndarray:
    """A column as an array of objects, None included."""
    values = np.empty(len(table), dtype=object)
    values[:] = [row[index] for row in table]
    return values


def counts_of(table: list[Row], grid: PointGrid, kind: type = PointCounts):
    """The counts, or the moments, of a list of rows."""
    return kind.from_arrays(
        column(table, 1),
        column(table, 2),
        groups=column(table, 0),
        keys=grid.keys,
        lower=(grid.x.lower, grid.y.lower),
        upper=(grid.x.upper, grid.y.upper),
        cells=grid.cells,
    )


def counted_one_by_one(table: list[Row], cells: int) -> Counter:
    """Rows per (place of the group, x cell, y cell) of the unit box, exactly; cells None without a point."""
    places = {str(key): place for place, key in enumerate(KEYS)}
    found: Counter = Counter()
    for group, x, y in table:
        if group not in places:
            continue
        cell = (_cell(x, cells), _cell(y, cells))
        found[(places[group], *((None, None) if None in cell else cell))] += 1
    return found


def _cell(value: float | None, cells: int) -> int | None:
    if value is None or math.isnan(value):
        return None
    if math.isinf(value):
        return 0 if value < 0 else cells - 1
    return min(max(math.floor(Fraction(value) * (cells - 1) + Fraction(1, 2)), 0), cells - 1)
