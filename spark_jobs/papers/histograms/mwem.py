"""MWEM: multiplicative weights with queries that the exponential mechanism selects by their error.

Specification (Hardt, Ligett, McSherry, *A simple and practical algorithm for differentially private data release*, NIPS
2012, figure 1, with the repeated updates of its section 4). Queries are counts of sets of cells: all prefixes of a
line, or all rectangles that start at the first cell of a grid, except the set of all cells.

1. The number of rows n is public, or else a noisy total at a share ``TOTAL_SHARE`` of epsilon, where a noisy total
   below 1 is raised to 1. At first, the estimate A is n spread evenly over the cells. The number of rounds T is
   ``rounds(n e, queries)``, where e is the remaining budget.
2. In each round, the exponential mechanism at ``e / 2T`` selects a query by the score ``|q(x) - [q(A)]|``, where
   ``[.]`` rounds to a whole number. Its count gets noise of scale ``1 / (e / 2T)``. Then A is updated with all answers
   so far, several times: ``A(cell) *= exp((answer - q(A)) / 2n)`` in q's cells, and A is scaled to n.
3. The last A is released.

Formal guarantee: epsilon-DP under either relation.
Proof. The count of one query changes by at most 1 when a row is added or removed, and also when one is replaced: the
row enters the set, leaves it, or neither. A is a function of released numbers, so every score is
``|integer - public integer|`` and changes by at most 1: a selection costs e / 2T by
``selection.exponential_mechanism``, whose choice is exact, and the noisy count of the selected query costs e / 2T. If a
noisy total is drawn, it costs its share, also with sensitivity 1. These costs compose by adaptive sequential
composition. The published algorithm takes n as known: under add/remove its exact value would disclose the presence of a
row.

Weights are kept as logarithms, so that none is lost by underflow. Cells that lie in the same measured queries share one
weight, so that the cost of an update grows with the number of such groups and not with the number of cells.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import split_evenly
from spark_jobs.mechanisms.histograms.interface import PublicFacts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.mechanisms.selection import exponential_mechanism

TOTAL_SHARE = Decimal("0.05")
MAX_ROUNDS = 64
PASSES = 20
_ROUNDS_CONSTANT = 10.0
_MAX_TOTAL = 1 << 60


def mwem(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """Multiplicative weights with exponential-mechanism queries; epsilon-DP for the meter's remaining epsilon.

    Sensitivity, cost and proof: see the module; ``neighbours`` has no effect, as a count moves by 1 under both
    relations.
    """
    # clipped cell by cell, so that no sum overflows; this does not increase the sensitivity
    exact = np.clip(counts, -_MAX_TOTAL // counts.size, _MAX_TOTAL // counts.size)
    total = float(facts.total if facts.total is not None else _noisy_total(exact, meter, noise))
    if counts.size == 1:
        return np.full(counts.shape, total)
    rest = meter.spend_rest(label="rounds of selection and measurement")
    size = max(total, 1.0)
    budget = split_evenly(rest, 2 * rounds(size * float(rest), counts.size))
    learned = WeightedCells.uniform(counts.shape, size)
    truth = queries(exact)
    for pick, answer in zip(budget[1::2], budget[0::2], strict=True):
        scores = np.abs(truth - np.rint(queries(learned.cells())).astype(np.int64))
        query = exponential_mechanism(scores, epsilon=pick, l_inf_sensitivity=1, noise=noise)
        noisy = noise.laplace(truth[query : query + 1], epsilon=answer, l1_sensitivity=1)
        learned.take(members(counts.shape, query), float(noisy[0]))
        learned.learn(PASSES)
    return learned.cells()


def _noisy_total(exact: Int64Array, meter: BudgetMeter, noise: Noise) -> int:
    what = "noisy total"
    cost = meter.spend_share(TOTAL_SHARE, label=what) if exact.size > 1 else meter.spend_rest(label=what)
    return int(noise.laplace(exact.sum(keepdims=True), epsilon=cost, l1_sensitivity=1).reshape(-1)[0])


def rounds(worth: float, cells: int) -> int:
    """The public number of rounds, where ``worth`` is rows times epsilon.

    The error of T rounds is bounded by ``n sqrt(log cells / T) + T log queries / e``, which is smallest where
    ``T^(3/2)`` is proportional to ``n e sqrt(log cells) / log queries``; there are as many queries as cells.
    """
    best = (worth / math.sqrt(math.log(cells)) / _ROUNDS_CONSTANT) ** (2 / 3)
    return int(min(MAX_ROUNDS, max(1.0, math.ceil(best))))


def queries(values: NDArray[Any]) -> NDArray[Any]:
    """The answers to all queries, flat: cumulative sums along every axis, without the last, which is the total."""
    for axis in range(values.ndim):
        values = np.cumsum(values, axis=axis)
    return values.reshape(-1)[:-1]


def members(shape: tuple[int, ...], query: int) -> BoolArray:
    """Whether each cell, in the shape of the histogram, is counted by the query."""
    ends = np.unravel_index(query, shape)
    inside = np.zeros(shape, dtype=np.bool_)
    inside[tuple(slice(0, int(end) + 1) for end in ends)] = True
    return inside


class WeightedCells:
    """A distribution over cells, as logarithms of weights, one for each group of cells that no query has separated."""

    def __init__(self, group: NDArray[np.intp], size: float) -> None:
        self._group, self._size = group, size
        self._log = np.zeros(int(group.max()) + 1)
        self._cells = np.bincount(group.reshape(-1)).astype(np.float64)
        self._inside: list[BoolArray] = []
        self._answers: list[float] = []

    @classmethod
    def uniform(cls, shape: tuple[int, ...], size: float) -> WeightedCells:
        """``size`` rows spread evenly."""
        return cls(np.zeros(shape, dtype=np.intp), size)

    def cells(self) -> FloatArray:
        """The estimates of all cells; at least 0, with sum ``size``."""
        estimates: FloatArray = (self._masses() / self._cells)[self._group]
        return estimates

    def take(self, inside: BoolArray, answer: float) -> None:
        """Record the noisy answer of a query, clipped to [0, n], and separate the query's cells from all others."""
        keys, group = np.unique(2 * self._group.reshape(-1) + inside.reshape(-1), return_inverse=True)
        before = keys // 2
        self._group = group.reshape(self._group.shape)
        self._cells = np.bincount(group.reshape(-1)).astype(np.float64)
        self._log = self._log[before]
        self._inside = [*(earlier[before] for earlier in self._inside), keys % 2 == 1]
        self._answers.append(min(max(answer, 0.0), self._size))

    def learn(self, passes: int) -> None:
        """Apply the multiplicative updates of all answers so far, in their order, ``passes`` times."""
        for _ in range(passes):
            for inside, answer in zip(self._inside, self._answers, strict=True):
                masses = self._masses()
                self._log[inside] += (answer - masses[inside].sum()) / (2 * self._size)

    def _masses(self) -> FloatArray:
        masses = self._cells * np.exp(self._log - self._log.max())
        scaled: FloatArray = masses * (self._size / masses.sum())
        return scaled
