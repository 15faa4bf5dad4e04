"""Pairs of rows for estimates by pairs: edge-disjoint matchings of a secret random order.

The circle method: of m rows, m even, one stays in the middle and the others move round it, one place a round; rows that
face each other are paired. The m - 1 rounds hold every pair once. An odd number of rows gets one empty place more, and
who faces it has no partner in that round; published code leaves it out, and then pairs some rows twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.mechanisms.noise import Noise

_PAIRS_AT_ONCE = 1 << 18


def random_order(rows: int, noise: Noise) -> Int64Array:
    """A uniformly random order of ``rows`` places; shape (rows,).

    Sorted random words are in uniformly random order once no two are equal; else all are drawn anew.
    """
    while True:
        words = noise.words(rows)
        order = np.argsort(words)
        if not (np.diff(words[order]) == 0).any():
            return order.astype(np.int64)


def rounds_of(rows: int, matchings: int | None) -> int:
    """How many matchings there are of ``rows`` rows, up to ``matchings``; None: all."""
    all_rounds = rows + rows % 2 - 1 if rows > 1 else 0
    return all_rounds if matchings is None else min(matchings, all_rounds)


def matched(rows: int, rounds: int) -> Iterator[tuple[Int64Array, Int64Array]]:
    """The pairs of the first ``rounds`` matchings of the places 0 to ``rows - 1``, some matchings at a time.

    Every place is in at most one pair of each matching, and no two matchings share a pair.

    Args:
        rows: at least 0.
        rounds: at most ``rounds_of(rows, None)``.

    Yields:
        The two ends of the pairs; shape (pairs,) each.
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
