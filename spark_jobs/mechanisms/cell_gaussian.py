"""Gaussian noise for the rows and sums of cells, at a delta above 0: for rows of many numbers, or units in few groups.

A complete row changes D numbers of its cell, the rows and D - 1 sums, each by at most 1: the 2-norm of the change is at
most ``sqrt(D)``, and that of numbers rounded to units of ``1 / UNIT`` at most ``UNIT sqrt(D)``. Noise that is drawn
together (``cell_sums``) grows in proportion to D, and Gaussian noise to the root of D.

Privacy, for one row, at ``rho`` in all. ``ADD_REMOVE``: the row changes either the numbers of one cell, whose noise is
calibrated to the 2-norm ``sqrt(D)``, or one number of incomplete rows, whose noise is calibrated to 1. Either change is
rho-zCDP. ``REPLACE_ONE``: if the old and the new row are complete and in the same cell, the cell's rows stay the same
and each of its sums changes by at most 2, so that the square of the 2-norm is at most ``4 (D - 1)``; if the two rows
are in two cells, the square is at most ``2 D``. So the numbers of complete rows get noise at which an added row costs
``rho D / max(2 D, 4 (D - 1))``, and the numbers of incomplete rows get noise at which an added row costs ``rho / 2``. A
row that turns from complete to incomplete costs at most half of rho in each of the two.

Units. If a unit may have its k rows in any groups, they are counted as k changes of one row, one after another: group
privacy. If a unit has rows in at most k groups, at most r in each, it changes each group's numbers by r vectors of one
row, and all numbers together by a 2-norm of at most ``sqrt(k) r sqrt(D)``. (Without the bound r, all k r rows could be
in one group, and the 2-norm could be ``k r sqrt(D)``.) So one row may cost ``1 / (k r^2)`` of the unit's rho. The r
rows of a unit in a group may be complete or incomplete: the cost is convex in the number of complete ones, and so is
largest if all or none are complete, which are the cases above. If one unit is replaced by another, a group in which
both units have rows costs at most as much as r replaced rows, and a group in which only one of the two has rows costs
at most half of that.

Several tables have shares of rho, and the shares add up: the numbers of all tables are one vector, in which each
table's numbers have noise of the table's own scale. A table by fewer dimensions adds groups up. There the k groups of a
unit may be one cell, which the unit changes by k r vectors of one row: by a 2-norm of at most ``k r sqrt(D)``, whose
square is k times as large. So the noise of such a table is drawn at a k-th of the rho that it may cost a row.

The rule. At the table's share of rho for a row, Gaussian noise has standard deviation ``sqrt(D / 2 rho)``; at the
table's share of epsilon, noise drawn together has standard deviation ``sqrt((D + 1) (D + 2) / 3) / epsilon``. The kind
of noise with the smaller standard deviation is drawn; the choice depends on public numbers only. If all tables have
equal shares, the comparison has the same result for all of them; otherwise the geometric mean of the tables' ratios of
these two standard deviations decides for all tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal, localcontext

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import MAX_DIGITS, GroupBound, Neighbours, share
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.cell_sums import UNIT, NoisyCellSums, fitting, in_units, l2_of_row
from spark_jobs.mechanisms.noise import Cost, Noise
from spark_jobs.mechanisms.regression.sums import whole
from spark_jobs.mechanisms.zcdp import rho_within


def rho_of_row(epsilon: Decimal, delta: Cost, bound: GroupBound | None = None) -> Decimal:
    """The rho of one row at which the loss of a row, or of a unit in few groups, stays within epsilon and delta.

    Args:
        epsilon: the epsilon of one row. For a unit in few groups, the unit's epsilon divided by ``bound.rows_of_unit``.
        delta: the delta of one row. For a unit in few groups, the delta of the whole unit.
        bound: the groups of one unit; None if rows are protected one by one.

    Raises:
        InvalidRequest: no rho above 0 is within epsilon and delta.
    """
    if bound is None:
        return rho_within(epsilon, delta)
    # rounded down, as an exact product may have more digits than a cost
    with localcontext(prec=MAX_DIGITS - 2, rounding=ROUND_FLOOR):
        of_unit = epsilon * bound.rows_of_unit
    return share(rho_within(of_unit, delta), bound.groups * bound.rows**2)


def gaussian_is_nearer(numbers: int, epsilons: Sequence[Decimal], rhos: Sequence[Decimal]) -> bool:
    """Whether Gaussian noise is smaller than noise that is drawn together; a function of public numbers.

    Args:
        numbers: how many numbers of a table a row changes.
        epsilons: each table's epsilon for an added or removed row, with noise that is drawn together.
        rhos: each table's rho for an added or removed row, with Gaussian noise.
    """
    together = CellNoise(measures=numbers - 1, scale=1.0, joint=True).stddev(1.0, 0.0)
    ratios = (
        math.log(numbers / (2 * float(rho))) / 2 - math.log(together / float(epsilon))
        for epsilon, rho in zip(epsilons, rhos, strict=True)
    )
    return sum(ratios) < 0


def cost_of_added(rho: Decimal, numbers: int, neighbours: Neighbours) -> Decimal:
    """The rho of an added or removed complete row, for noise that costs ``rho`` under the relation; rounded down."""
    if neighbours is Neighbours.ADD_REMOVE:
        return rho
    with localcontext(prec=60, rounding=ROUND_FLOOR):
        return share(rho * numbers, max(2 * numbers, 4 * (numbers - 1)))


def gaussian_cell_sums(
    rows: Int64Array,
    incomplete: Int64Array,
    sums: Int64Array,
    steps: Sequence[int],
    *,
    rho: Decimal,
    epsilon: Decimal,
    neighbours: Neighbours,
    noise: Noise,
    measured: bool = False,
) -> NoisyCellSums:
    """One measurement of all cells with Gaussian noise; ``rho``-zCDP (see the module's proof).

    Args:
        rows: exact numbers of complete rows; shape (k,); private.
        incomplete: exact numbers of incomplete rows; shape (k,).
        sums: exact sums of places on each term's lattice; shape (p, k).
        steps: the last place of each lattice.
        rho: the cost of all cells together.
        epsilon: the table's share of epsilon; recorded in the result and not used for the noise.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        measured: whether rows can be incomplete even without terms, because they lack a value that no sum uses.
    """
    cost = cost_of_added(rho, 1 + len(steps), neighbours)
    exact = fitting(in_units(whole(rows), whole(sums), steps))
    numbers = noise.gaussian(exact, rho=cost, l2_sensitivity=l2_of_row(len(steps)))
    lacking = np.zeros(0, dtype=np.int64)
    if steps or measured:
        half = rho if neighbours is Neighbours.ADD_REMOVE else share(rho, 2)
        fine = noise.gaussian(fitting(UNIT * whole(incomplete)), rho=half, l2_sensitivity=UNIT)
        lacking = np.rint(fine / UNIT).astype(np.int64)
    return NoisyCellSums(steps=tuple(steps), numbers=numbers, incomplete=lacking, epsilon=epsilon, joint=True, rho=cost)
