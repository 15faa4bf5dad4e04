"""Noisy numbers of rows below the edges of a grid, for a number of edges that is paid for in advance.

Neighbours and guarantee: adding, removing or replacing a row changes the number of rows below any edge by at most 1. So
k of these numbers, with k = ``evaluations``, change by at most k in 1-norm. With independent two-sided geometric noise
of scale ``k / epsilon`` in each, the k numbers are together ``epsilon``-DP by adaptive composition, even if an edge is
chosen by the noisy numbers of earlier edges. With ``min(count, limit)`` in place of each number, the changes are still
at most 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.mechanisms.noise import Cost, Noise

Evaluate = Callable[[Int64Array], Int64Array]
"""Edges to noisy numbers of rows below them; an edge that is asked for again has the same number."""


HIDDEN, CLEAR = 0.5, 3.0
"""How near the wanted number an answer says nothing of the side that the exact one is on, and how far from it an answer
is trusted; both in scales of the noise."""


class Deposit(Protocol):
    """A function that hands a table over once, hidden, to servers that later answer how many rows lie below an edge."""

    def __call__(self, counts: Int64Array, *, epsilon: Cost, evaluations: int, capacity: int) -> Evaluate:
        """See ``paid_counts``."""


@runtime_checkable
class Depositing(Protocol):
    """A noise sampler that may be able to hand a table over to servers (``deposit``)."""

    @property
    def deposit(self) -> Deposit | None:
        """The function that hands a table over; None if the sampler adds noise to counts one after the other."""


class PaidCounts:
    """Noisy numbers of rows below at most ``evaluations`` different edges; see the module for the guarantee.

    Args:
        evaluate: a function from edges to the noisy numbers of rows below them. It is called once for each edge.
        cells: the number of cells of the grid; its edges are numbered from 0 to ``cells``.
        evaluations: how many edges may be asked for.

    Raises:
        InvalidRequest: ``evaluations`` is below 1.
    """

    def __init__(self, evaluate: Evaluate, *, cells: int, evaluations: int) -> None:
        if evaluations < 1:
            raise InvalidRequest(
                "evaluations", evaluations, "must be at least 1", "give the number of evaluations that are paid for"
            )
        self._evaluate = evaluate
        self._cells = cells
        self._left = evaluations
        self._answers: dict[int, int] = {}

    @property
    def left(self) -> int:
        """How many edges may still be asked for."""
        return self._left

    @property
    def answers(self) -> dict[int, int]:
        """The noisy numbers so far, by edge."""
        return dict(self._answers)

    def ask(self, edges: Iterable[int]) -> None:
        """Evaluate, in one call, those of these edges that have no answer yet.

        Raises:
            InvalidRequest: an edge is out of range, or too few evaluations are left.
        """
        new = [edge for edge in dict.fromkeys(edges) if edge not in self._answers]
        if new:
            self._require_left(len(new))
            numbers = self._evaluate(np.array(new, dtype=np.int64))
            self._answers |= zip(new, numbers.tolist(), strict=True)
            self._left -= len(new)

    def below(self, edge: int) -> int:
        """The noisy number of rows below an edge; errors as in ``ask``."""
        self.ask([edge])
        return self._answers[edge]

    def first_cell(self, wanted: float, *, scale: float = 0.0) -> int:
        """An estimate, by bisection, of the first cell up to whose end at least ``wanted`` rows lie.

        The search asks for at most as many edges as the number of cells has bits. The bisection stops at an edge whose
        noisy number is so close to ``wanted`` that noise would decide all further steps. The edges that the search may
        still ask for are then spent on both sides of this edge, to approach the nearest edges whose numbers differ from
        ``wanted`` by clearly more than the noise: a confidence interval can end there. A repeated search asks for the
        same edges and costs nothing.

        Args:
            wanted: the number of rows that lie up to the end of the cell.
            scale: the scale of the noise in each number.

        Raises:
            InvalidRequest: the search comes to an edge without a noisy number, and fewer evaluations are left than the
                rest of the search may need.
        """
        low, off = 0, {0: -wanted}
        for bit in reversed(range((self._cells - 1).bit_length())):
            edge = min(low + (1 << bit), self._cells)
            if edge not in self._answers:
                self._require_left(bit + 1)
            off[edge] = self.below(edge) - wanted
            if off[edge] < 0:
                low += 1 << bit
            if abs(off[edge]) < HIDDEN * scale:
                low = edge if off[edge] < 0 else edge - 1
                self._surround(edge, off, wanted, clear=CLEAR * scale, times=bit)
                break
        return min(low, self._cells - 1)

    def _surround(self, edge: int, off: Mapping[int, float], wanted: float, *, clear: float, times: int) -> None:
        """Ask for so many edges around one, each in the middle of the wider gap before the noise decides nothing."""
        below = max((one for one, by in off.items() if one < edge and by < -clear), default=0)
        above = min((one for one, by in off.items() if one > edge and by > clear), default=self._cells)
        first = last = edge
        for left in range(times, 0, -1):
            wider = above - last > first - below
            middle = (last + above) // 2 if wider else (below + first + 1) // 2
            if middle in (below, above):
                break
            if middle not in self._answers:
                self._require_left(left)
            hidden = abs(self.below(middle) - wanted) <= clear
            if wider:
                last, above = (middle, above) if hidden else (last, middle)
            else:
                first, below = (middle, below) if hidden else (first, middle)

    def _require_left(self, evaluations: int) -> None:
        if self._left < evaluations:
            raise InvalidRequest(
                "evaluations", self._left, f"must be at least {evaluations}, the number of evaluations that this call "
                "needs",
                "pay for more evaluations when the counts are made",
            )  # fmt: skip


def paid_counts(counts: Int64Array, *, epsilon: Cost, evaluations: int, capacity: int, noise: Noise) -> PaidCounts:
    """The noisy numbers of a table; ``epsilon``-DP all together (see the module).

    Args:
        counts: exact counts per cell of the grid; private.
        epsilon: the cost of all evaluations.
        evaluations: how many edges may be asked for.
        capacity: if ``noise`` has a ``deposit``, the largest number of rows that are counted; rows with smaller values
            come first. Otherwise without effect.
        noise: the sampler. If it has a ``deposit``, the counts are passed to this method, which answers with noisy
            numbers; otherwise noise is added to the counts here.

    Raises:
        InvalidRequest: the noise cannot be drawn at this cost, or ``evaluations`` is below 1.
    """
    deposit = noise.deposit if isinstance(noise, Depositing) else None
    if deposit is not None:
        evaluate = deposit(counts, epsilon=epsilon, evaluations=evaluations, capacity=capacity)
    else:
        below = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

        def evaluate(edges: Int64Array) -> Int64Array:
            return noise.laplace(below[edges], epsilon=epsilon, l1_sensitivity=evaluations)

    return PaidCounts(evaluate, cells=counts.size, evaluations=evaluations)
