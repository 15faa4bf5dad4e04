"""The selection of a public number of rows of a group, in an order that the rows' contents and a secret salt determine.

Sensitivity. Rows of one cell are numbered, so that the rows of a group are distinct. They are ordered by a hash of
salt, cell and number; ties are broken by cell and number. The order of two rows depends on no other row. If n rows are
kept at most:

* a row that is replaced by another of its group (``REPLACE_ONE``, sizes public) replaces at most one kept row. Say r is
  removed and s added. If r was kept, the place of r goes to s or to the first row that was not kept. If r was not kept,
  s is not kept either, or s takes the place of the last kept row. The number of kept rows is ``min(size, n)``, which is
  public.
* a row that is added to a full group may displace another: the kept rows change by a replacement, not by an addition,
  and sums over them must be charged as if a row were replaced under either relation.

This holds for every salt that is drawn independently of the rows; it is secret so that nobody knows which rows count.
"""

from __future__ import annotations

import numpy as np

from spark_jobs.arrays import Int64Array, UInt64Array

MAX_ROWS = 2**20
"""The rows of a group that methods on single rows take at most; public."""
_AT_ONCE = 2**20
_ODD = np.uint64(0x9E3779B97F4A7C15)


def kept_counts(cells: Int64Array, counts: Int64Array, *, salt: np.uint64, limit: int = MAX_ROWS) -> Int64Array:
    """How many rows of each cell are among the first ``limit`` rows; private, like the arguments.

    The memory needed is that of somewhat more than ``limit`` rows; the time grows with the number of all rows.

    Args:
        cells: the distinct cells of one group, shape (k,).
        counts: the number of rows in each cell, shape (k,).
        salt: 64 random bits, drawn for this group alone.
        limit: the number of rows that are kept of a larger group; at least 1.
    """
    ends = np.cumsum(counts)
    rows = int(ends[-1]) if ends.size else 0
    if rows <= limit:
        return counts
    hashes, places = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    for start in range(0, rows, _AT_ONCE):
        row = np.arange(start, min(start + _AT_ONCE, rows))
        place = np.searchsorted(ends, row, side="right")
        number = row - (ends[place] - counts[place])
        fresh = _mixed(_mixed(cells[place].astype(np.uint64) ^ salt) + number.astype(np.uint64))
        if hashes.size == limit:
            near = fresh <= hashes.max()
            fresh, place = fresh[near], place[near]
        hashes, places = np.concatenate([hashes, fresh]), np.concatenate([places, place])
        # sorted again by place, so that among equal hashes the first rows stay
        first = np.sort(np.argsort(hashes, kind="stable")[:limit])
        hashes, places = hashes[first], places[first]
    return np.bincount(places, minlength=counts.size).astype(np.int64)


def _mixed(words: UInt64Array) -> UInt64Array:
    """The finaliser of SplitMix64, a bijection of 64-bit words (Steele, Lea, Flood, OOPSLA 2014)."""
    words = words + _ODD
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: UInt64Array = words ^ (words >> np.uint64(31))
    return mixed
