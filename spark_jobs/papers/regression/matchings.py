"""Edge-disjoint matchings of rows in a secret random order, for estimates from pairs of rows.

The circle method, for an even number m of rows: one row stays in the middle and the others move around it by one place
per round; rows that face each other are paired. The m - 1 rounds contain every pair once. If the number of rows is odd,
one empty place is added, and the row that faces the empty place has no partner in that round. Published code omits the
empty place, and then pairs some rows twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.mechanisms.noise import Noise

_PAIRS_AT_ONCE = 1 << 18


def random_order(rows: int, noise: Noise) -> Int64Array:
    """A uniformly random order of ``rows`` places; shape (rows,).

    The places are sorted by random 64-bit words. Their order is uniform if all words differ; otherwise all are drawn
    again.
    """
    while True:
        words = noise.words(rows)
        order = np.argsort(words)
        if not (np.diff(words[order]) == 0).any():
            return order.astype(np.int64)


def rounds_of(rows: int, matchings: int | None) -> int:
    """The number of matchings used of ``rows`` rows: all of them, but at most ``matchings`` if that is not None."""
    all_rounds = rows + rows % 2 - 1 if rows > 1 else 0
    return all_rounds if matchings is None else min(matchings, all_rounds)


def matched(rows: int, rounds: int) -> Iterator[tuple[Int64Array, Int64Array]]:
    """The pairs of the first ``rounds`` matchings of the rows 0 to ``rows - 1``, several matchings at a time.

    Every row is in at most one pair of each matching, and no two matchings share a pair.

    Args:
        rows: at least 0.
        rounds: at most ``rounds_of(rows, None)``.

    Yields:
        The two members of the pairs; two arrays of shape (pairs,).
    """
    places = rows + rows % 2
    if places < 2:
        return
    circle, reach = places - 1, np.arange(1, places // 2)
    together = max(_PAIRS_AT_ONCE // places, 1)
    for first in range(0, rounds, together):
        turn = np.arange(first, min(first + together, rounds))
        left, right = turn[:, None] + reach, turn[:, None] - reach
        left[left >= circle] -= circle
        right[right < 0] += circle
        yield left.reshape(-1), right.reshape(-1)
        if rows == places:
            yield turn, np.full(turn.size, circle)
