"""The private choice of a bound on the rows of a unit: the smallest of some public candidates that few units exceed.

Let ``A_j`` be the number of units with more rows than candidate j. The candidate has the score

    ``-max(A_j - t, 0) - j w``,

with public t and w. Scores are whole numbers, and a candidate is chosen by permute-and-flip with monotone scores.

Neighbours: one unit with all its rows added or removed, or replaced by another one. ``epsilon``-DP for both.
Proof. A unit of n rows adds 1 to ``A_j`` where candidate j is below n, and 0 elsewhere. So if the unit is added, no
``A_j`` falls and none rises by more than 1. If the unit is replaced by a unit of n' > n rows, the ``A_j`` of the
candidates from n to n' - 1 rise by 1; if it is replaced by a unit of fewer rows, some ``A_j`` fall by 1 and none rises.
Hence all scores move by at most 1, all in the same direction, and ``permute_and_flip`` is ``epsilon``-DP at the
exponent ``epsilon``. ∎ The choice is made before any row is left out.

What t and w are for. A count of rows by group has noise of size ``M / epsilon`` for a bound of M rows. A bound that is
larger by one row adds ``1 / epsilon`` to the error in each of G groups, and saves as many lost rows as there are units
with more than M rows. So the sum of errors is smallest where the number of units with more than M rows is
``G / epsilon``. The noise of the choice itself acts like a change of ``A_j`` by about ``1 / epsilon``. So that a
candidate does not lose to larger ones by chance, each next candidate's score is lower by ``w = 2 / epsilon``, and the
chance of a bound that is m candidates too large falls like ``e^(-2 m)``. A candidate then wins against the next as long
as fewer than ``t + w`` units exceed it; t is therefore the intended number of such units minus w, or 0 if that is
negative.
"""

from __future__ import annotations

import math

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.selection import permute_and_flip

STEPS_APART = 2
"""How many times ``1 / epsilon`` the score of a candidate is below that of the next smaller one."""


def tolerance_of(epsilon: Cost) -> int:
    """The number w, in units, by which each candidate's score is lowered against that of the next smaller candidate."""
    return math.ceil(STEPS_APART / float(epsilon))


def scores_of(units: Int64Array, *, units_above: int, epsilon: Cost) -> Int64Array:
    """The score of each candidate; private.

    Args:
        units: for each candidate, in ascending order, the number of units whose rows are at most this candidate and
            more than the candidate before it; as the last entry, the number of units with more rows than the largest
            candidate. Shape (candidates + 1,).
        units_above: the intended number of units with more rows than the bound.
        epsilon: the cost of the choice.
    """
    above = units[::-1].cumsum()[::-1][1:]
    step = tolerance_of(epsilon)
    scores: Int64Array = -np.maximum(above - max(units_above - step, 0), 0) - step * np.arange(above.size)
    return scores


def choose_rows(units: Int64Array, *, units_above: int, epsilon: Cost, noise: Noise) -> int:
    """The index of the chosen candidate; ``epsilon``-DP (see the module). Arguments: see ``scores_of``."""
    scores = scores_of(units, units_above=units_above, epsilon=epsilon)
    return permute_and_flip(scores, epsilon=epsilon, l_inf_sensitivity=1, noise=noise, monotone=True)
