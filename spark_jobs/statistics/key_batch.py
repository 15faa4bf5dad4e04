"""Exact rows and sums of some of the keys of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.arrays import Int64Array


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeyBatch:
    """Exact rows and sums of k keys; private, and ``repr`` omits them.

    Attributes:
        keys: distinct texts.
        rows: the number of rows with a value of every measure; shape (k,).
        incomplete: the number of rows that lack the value of a measure; shape (k,).
        sums: sums of places on the lattice of each measure; shape (measures, k).
    """

    keys: Sequence[str]
    rows: Int64Array
    incomplete: Int64Array
    sums: Int64Array

    def __repr__(self) -> str:
        return "KeyBatch()"
