"""GreedyH: a hierarchy with unequal budgets of the levels, chosen level by level for prefix counts.

Specification (after Li, Hay, Miklau, PVLDB 2014, section 5, by level). A tree of branching b over n cells has levels 0
(cells) to h (root). Level l is measured at ``s_l epsilon``, where the shares ``s_l >= 0`` add up to 1; a level with
share 0 is not measured. Start with the whole budget on the cells. For l = 1, ..., h: give level l a share ``lambda``
from a fixed grid in [0, 1), scale the shares below by ``1 - lambda``, and keep the ``lambda`` with the smallest mean
variance of all prefix counts. The choices for low levels do not anticipate the shares of the levels above. So
afterwards change one share at a time for as long as the mean variance falls, once starting from these shares and once
from the best equal shares. If several branchings are possible, keep the best.

Proof of privacy: a row lies in one node of every level, so a level measured with noise of scale
``rows_changed / (s_l epsilon)`` is ``s_l epsilon``-DP, and the levels compose sequentially to epsilon. The plan depends
only on n and on whether the total is public.

The objective in closed form. Let a prefix end in the subtree of a node v, let q be its part there, and write ``own``
for the variance of the estimate of q from v's subtree and ``c`` for its covariance with the estimate of v's count. One
level up, v has d preceding siblings, each of variance w, that lie wholly in the prefix: ``own += d w``, ``c += d w``.
Combining the parent's own measurement, of variance tau, with the sum of its children, of variance ``t = b w``,
subtracts ``c^2 / (tau + t)`` from ``own`` and multiplies ``c`` by ``tau / (tau + t)``. In a full tree all nodes of a
level have the same w, and d is uniform on 0, ..., b - 1 and independent of the levels below, so that the means of own,
c and c^2 have a closed recursion. O(h) for each plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy, measured_cells, split_by
from spark_jobs.mechanisms.histograms.interface import PublicFacts, on_a_line
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise
from spark_jobs.papers.histograms.orders import line_order

_STEPS = 40
_MIN_CELL_SHARE = 1e-3
_SWEEPS = 30
_FACTORS = (0.0, 0.5, 0.8, 0.95, 0.99, 1.01, 1.05, 1.25, 2.0)
_BRANCHINGS = (2, 4, 6, 8, 10, 12, 16, 24)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A full tree and the shares of its levels in a budget.

    Attributes:
        branching: the number of children of a node.
        shares: exact shares of the budget, cells first, the root last; their sum is at most 1.
        mean_variance: of a prefix count, at epsilon 1 under ``ADD_REMOVE``.
    """

    branching: int
    shares: tuple[Decimal, ...]
    mean_variance: float


def greedy_h(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """GreedyH on a line, or on a grid in Hilbert order; epsilon-DP for the meter's remaining epsilon.

    Neighbours, sensitivity and proof: see the module and ``measured_cells``.
    """
    epsilon = meter.spend_rest(label="hierarchy of counts")

    def measured(line: Int64Array) -> FloatArray:
        return greedy_cells(
            line, epsilon=epsilon, neighbours=neighbours, noise=noise, public_total=facts.total is not None
        )

    return on_a_line(measured, counts, line_order(counts.shape))


def greedy_cells(
    counts: Int64Array, *, epsilon: Decimal, neighbours: Neighbours, noise: Noise, public_total: bool
) -> FloatArray:
    """Estimates of a line of cells, by the plan for its length; ``epsilon``-DP (see ``measured_cells``)."""
    if counts.size == 1 and public_total:
        return counts.astype(np.float64)
    plan = greedy_plan(counts.size, public_total=public_total)
    hierarchy = Hierarchy.line(counts.size, branching=plan.branching)
    epsilons = split_by(epsilon, plan.shares)
    return measured_cells(
        hierarchy, counts, epsilons=epsilons, neighbours=neighbours, noise=noise, public_total=public_total
    )


def greedy_plan(cells: int, *, public_total: bool = False) -> Plan:
    """The plan for a line of cells; a function of public facts.

    Args:
        cells: the number of cells; at least 1.
        public_total: whether the root is known exactly; it then has no share.
    """
    plans = []
    for branching in _BRANCHINGS:
        fanouts, size = [], cells
        while size > 1:
            fanouts.append(min(branching, size))
            size = -(-size // branching)
        plans.append(_plan(branching, tuple(fanouts), public_total))
    return min(plans, key=lambda plan: plan.mean_variance)


@lru_cache(maxsize=4096)
def _plan(branching: int, fanouts: tuple[int, ...], public_total: bool) -> Plan:
    """The best shares for a full tree with these numbers of children per level, that of the root last."""
    payable = max(1, len(fanouts) if public_total else len(fanouts) + 1)
    unpaid = [0.0] * (len(fanouts) + 1 - payable)

    def cost(trial: list[float]) -> float:
        return mean_variance(trial + unpaid, fanouts, public_total)

    shares = [1.0] + [0.0] * (payable - 1)
    for level in range(1, payable):
        shares = min((_with_share(shares, level, step / _STEPS) for step in range(_STEPS)), key=cost)
    even = min(([1.0 / paid] * paid + [0.0] * (payable - paid) for paid in range(1, payable + 1)), key=cost)
    shares = min(_swept(shares, cost), _swept(even, cost), key=cost)
    exact = tuple(Decimal(math.floor(share * 10**6)).scaleb(-6) for share in shares + unpaid)
    return Plan(branching=branching, shares=exact, mean_variance=cost(shares))


def _swept(shares: list[float], cost: Callable[[list[float]], float]) -> list[float]:
    """The shares after coordinate descent: each share is multiplied by fixed factors for as long as the cost falls."""
    lowest = cost(shares)
    for _ in range(_SWEEPS):
        before = lowest
        for level in range(len(shares)):
            for factor in _FACTORS:
                tried = _with_share(shares, level, shares[level] * factor)
                trial_cost = cost(tried)
                if trial_cost < lowest:
                    shares, lowest = tried, trial_cost
        if lowest > before * (1 - 1e-6):
            break
    return shares


def _with_share(shares: list[float], level: int, part: float) -> list[float]:
    """The shares with one set to ``part`` and the others rescaled, unless the share of the cells gets too small."""
    others = 1.0 - shares[level]
    if others <= 0 or part >= 1:
        return shares
    trial = [share * (1.0 - part) / others for share in shares]
    trial[level] = part
    return trial if trial[0] >= _MIN_CELL_SHARE else shares


def mean_variance(shares: Sequence[float], fanouts: Sequence[int], public_total: bool) -> float:
    """The mean variance of all prefix counts of a full tree, at epsilon 1 with noise of variance ``2 / share^2``.

    Args:
        shares: of each level, cells first, the root last.
        fanouts: the number of children of a node, for each level above the cells.
        public_total: whether the root is known exactly.
    """
    own = first = w = 2.0 / shares[0] ** 2
    second = w * w
    for level, (share, b) in enumerate(zip(shares[1:], fanouts, strict=True), start=1):
        elder, squared, t = (b - 1) / 2, (b - 1) * (2 * b - 1) / 6, b * w
        second += 2 * elder * w * first + squared * w * w
        own, first = own + elder * w, first + elder * w
        exact = public_total and level == len(fanouts)
        if not exact and share <= 0:
            w = t
            continue
        tau = 0.0 if exact else 2.0 / share**2
        kept = tau / (tau + t)
        own, first, second, w = own - second / (tau + t), first * kept, second * kept**2, t * kept
    return own
