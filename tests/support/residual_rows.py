"""Pairs of fitted value and residual, good and nasty, and a slow exact reference of the counts on a grid."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from tests.support.value_rows import NASTY_VALUES, column

POWERS = [
    sign * math.nextafter(2.0**power, to)
    for power in (-1074, -1022, -7, -2, -1, 0, 1, 2, 3, 29, 30, 31, 52, 53, 58, 59, 60, 61, 1023)
    for to in (0.0, math.inf, 2.0**power)
    for sign in (1, -1)
]
EDGES = [sign * edge * 2.0**power / 64 for power in (0, 1, 5, 59) for edge in range(32, 129, 7) for sign in (1, -1)]
NASTY = [*NASTY_VALUES, *POWERS, *EDGES]

NUMBERS = st.floats() | st.sampled_from(NASTY) | st.floats(-300, 300) | st.integers(-300, 300).map(float) | st.none()
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30)


def nasty_pairs(seed: int) -> list[tuple[float | None, float | None]]:
    """Every nasty number with another, each on either side, and sizes all over."""
    random = np.random.default_rng(seed)
    sizes = (2.0 ** random.uniform(-80, 80, 400) * random.choice([-1, 1], 400)).tolist()
    numbers = [*NASTY, *sizes]
    others = [numbers[i] for i in random.permutation(len(numbers))]
    return [*zip(numbers, others, strict=True), *zip(others, numbers, strict=True)]


def columns(rows: list[tuple[float | None, float | None]]) -> tuple[np.ndarray, np.ndarray]:
    """The two columns, as arrays of objects."""
    return column([row[0] for row in rows]), column([row[1] for row in rows])


def grid_by_fractions(
    rows: list[tuple[float | None, float | None]], *, doublings: tuple[int, int], bins: tuple[int, int]
) -> tuple[np.ndarray, int]:
    """The counts in units of 1 by exact rational arithmetic, row by row."""
    found, outside = np.zeros(bins, dtype=np.int64), 0
    for row in rows:
        if any(number is None or math.isnan(number) for number in row):
            continue
        place = tuple(_place(number, k, m) for number, k, m in zip(row, doublings, bins, strict=True))
        if None in place:
            outside += 1
        else:
            found[place] += 1
    return found, outside


def _place(number: float, k: int, m: int) -> int | None:
    size = Fraction(2) ** 60 if math.isinf(number) else min(abs(Fraction(number)), Fraction(2) ** 60)
    bound = Fraction(2) ** k
    if size > bound:
        return None
    if m == 1:
        return 0
    outwards = max(math.ceil(size / bound * (m // 2)) - 1, 0)
    return m // 2 - 1 - outwards if number < 0 else m // 2 + outwards
