"""The interface of histogram methods: their arguments and their results.

A method gets the exact counts of disjoint cells, shape (n,) or (rows, columns), and a meter with its whole budget. It
charges every cost to the meter before it draws the noise, and returns estimates of the same shape. All other inputs are
public: the shape, epsilon, the neighbouring relation and ``PublicFacts``.

Disjoint cells: a row that is added or removed changes one cell by 1; a row that is replaced moves from one cell to
another. The 1-norm sensitivity is thus 1 or 2 (``rows_changed``).
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
    """Public facts that a method may use without spending budget.

    Attributes:
        total: the exact sum of the counts if it is public (``REPLACE_ONE``, all rows of the table), else None.
        expected_rows: an approximate number of rows from a source other than this table, such as a declared bound or an
            earlier release; None if unknown. It affects only accuracy: a wrong number does not weaken privacy.
    """

    total: int | None = None
    expected_rows: int | None = None


class Method(Protocol):
    """A histogram method. It spends the remaining epsilon of ``meter``, and is differentially private at this cost."""

    def __call__(
        self, counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
    ) -> FloatArray:
        """Estimates of ``counts``, of the same shape; possibly negative or fractional."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A method in the registry.

    Attributes:
        release: the method.
        summary: a description in one line.
        dimensions: the supported numbers of dimensions.
    """

    release: Method
    summary: str
    dimensions: tuple[int, ...] = (1, 2)


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """A released histogram.

    Attributes:
        cells: estimates of the counts, of the shape of the exact counts; float64, possibly negative.
        method: the name of the method; never ``"auto"``.
        epsilon: the exact total cost.
        spendings: the spendings, in order.
        neighbours: the neighbouring relation of the guarantee.
        guarantee: ``contract.release.PRIVATE``, or ``NOT_PRIVATE`` if the noise was seeded.
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
        ValueError: there are no cells, or the number of dimensions is neither 1 nor 2.
    """
    counts = np.asarray(counts)
    if not np.can_cast(counts.dtype, np.int64):
        raise TypeError(f"counts: got {counts.dtype}; must be integers that fit int64")
    if counts.ndim not in (1, 2) or counts.size == 0:
        raise ValueError(f"counts: got shape {counts.shape}; must be (cells,) or (rows, columns), not empty")
    return np.ascontiguousarray(counts, dtype=np.int64)


def on_a_line(method: Callable[[Int64Array], FloatArray], counts: Int64Array, order: NDArray[np.intp]) -> FloatArray:
    """The result of ``method`` on the cells of a grid in a public order, returned to the shape of the grid."""
    estimates = np.empty(counts.size)
    estimates[order] = method(counts.reshape(-1)[order])
    return estimates.reshape(counts.shape)
