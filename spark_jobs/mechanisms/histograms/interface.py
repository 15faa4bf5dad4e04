"""What every histogram method takes, and what comes of it.

A method gets the exact counts of disjoint cells, shape (n,) or (rows, columns), and a meter that holds its whole
budget. It draws every cost from the meter before the noise it pays for, and answers with estimates of the same shape.
Whatever else it reads is public: the shape, epsilon, the relation and ``PublicFacts``.

Disjoint cells: one row changes one cell by 1 when it is added or removed, and moves from one cell to another when it is
replaced. ``rows_changed`` is that 1 or 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter, Spending
from spark_jobs.mechanisms.noise import Noise


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """What may steer a method without being paid for.

    Attributes:
        total: the exact sum of the counts where it is public (``REPLACE_ONE``, all rows of the table), else None.
        expected_rows: roughly how many rows there are, from a source that is not this table: a declared bound, an
            earlier release; None if nobody said. It steers accuracy alone; a wrong figure costs no privacy.
    """

    total: int | None = None
    expected_rows: int | None = None


class Method(Protocol):
    """A histogram method. It spends all that ``meter`` has left, and is differentially private at that cost."""

    def __call__(
        self, counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
    ) -> FloatArray:
        """Estimates of the cells' counts, of the shape of ``counts``; possibly negative or fractional."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A method in the registry.

    Attributes:
        release: the method.
        summary: what it does, in a line.
        dimensions: of the histograms it takes.
    """

    release: Method
    summary: str
    dimensions: tuple[int, ...] = (1, 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """A released histogram.

    Attributes:
        cells: estimates of the counts, of the shape of the exact ones; float64, possibly negative.
        method: the name of the method that made them; never ``"auto"``.
        epsilon: what it cost in all, exact.
        spendings: what it paid for, in order.
        neighbours: the neighbouring relation of the guarantee.
        guarantee: ``contract.release.PRIVATE``, or ``NOT_PRIVATE`` where the noise had a seed.
    """

    cells: FloatArray
    method: str
    epsilon: Decimal
    spendings: tuple[Spending, ...]
    neighbours: Neighbours
    guarantee: str


def checked_counts(counts: NDArray[np.integer]) -> Int64Array:
    """``counts`` as int64, of one or two dimensions and at least one cell.

    Raises:
        TypeError: they are not integers.
        ValueError: they have no cell, or another number of dimensions.
    """
    counts = np.asarray(counts)
    if not np.can_cast(counts.dtype, np.int64):
        raise TypeError(f"counts: got {counts.dtype}; must be integers that fit int64")
    if counts.ndim not in (1, 2) or counts.size == 0:
        raise ValueError(f"counts: got shape {counts.shape}; must be (cells,) or (rows, columns), not empty")
    return np.ascontiguousarray(counts, dtype=np.int64)


def on_a_line(method: Callable[[Int64Array], FloatArray], counts: Int64Array, order: NDArray[np.intp]) -> FloatArray:
    """``method`` on the cells of a grid taken in a public order, put back in their places."""
    estimates = np.empty(counts.size)
    estimates[order] = method(counts.reshape(-1)[order])
    return estimates.reshape(counts.shape)
