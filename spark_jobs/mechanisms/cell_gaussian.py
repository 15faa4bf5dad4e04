"""Gaussian noise for the rows and sums of cells, for a delta: where a row has many numbers, or a unit many groups.

A complete row changes D numbers of its cell, its rows and D - 1 sums, each by at most 1: its 2-norm is at most
``sqrt(D)``, and that of any vector of rounded numbers, in units of ``1 / UNIT``, ``UNIT sqrt(D)``. Noise that is drawn
together (``cell_sums``) grows with D, and Gaussian noise with its root.

Privacy, for one row, at ``rho`` in all. ``ADD_REMOVE``: the row changes the numbers of one cell, with noise for
``sqrt(D)``, or one number of incomplete rows, with noise for 1: each is rho-zCDP, and a row does one of both.
``REPLACE_ONE``: with a row less and one more in the same cell, its rows stay and its sums change by at most 2, so that
the square of the 2-norm is at most ``4 (D - 1)``; in two cells it is at most ``2 D``. Numbers have the noise of
``rho D / max(2 D, 4 (D - 1))`` for an added row, and incomplete rows that of ``rho / 2``: a row that turns from
complete to incomplete loses at most half in each.

Units. Where a unit may have its k rows anywhere, it is k changes of one row: group privacy. A unit of k groups with r
rows in each of them changes each group's numbers by r such vectors, and so by a 2-norm of at most ``sqrt(k) r sqrt(D)``
in all, where k r rows could change those of one group by ``k r sqrt(D)``. So a row has ``1 / (k r^2)`` of what the unit
may lose. Complete and incomplete rows of a unit share these places: the losses are convex in how many rows of a group
are of which sort, and so are largest where all are of one, as above. When units are replaced, a group of both units
loses at most what one of r rows may, and a group of one of them half of that.

Several tables have shares of rho, which add up: all of them together are one vector, whose noise differs by table.

The rule. A table's noise has standard deviation ``sqrt(D / 2 rho)`` for a row, at its share of rho, where noise drawn
together has ``sqrt((D + 1) (D + 2) / 3) / epsilon``, at its share of epsilon. Whichever is smaller is public, as all of
this is. At one share for each table it is the same for all of them; at several the geometric mean decides.
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
    """The rho of one row with which a row, or a unit in few groups, loses at most epsilon and delta.

    Args:
        epsilon: for one row; where a unit is in few groups, for one of its ``bound.rows_of_unit`` rows.
        delta: for one row; where a unit is in few groups, for the unit.
        bound: the groups of one unit; None where rows are counted for themselves.

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
        numbers: how many a row changes.
        epsilons: the cost of each table to an added or removed row, with noise that is drawn together.
        rhos: that with Gaussian noise.
    """
    together = CellNoise(measures=numbers - 1, scale=1.0, joint=True).stddev(1.0, 0.0)
    ratios = (
        math.log(numbers / (2 * float(rho))) / 2 - math.log(together / float(epsilon))
        for epsilon, rho in zip(epsilons, rhos, strict=True)
    )
    return sum(ratios) < 0


def cost_of_added(rho: Decimal, numbers: int, neighbours: Neighbours) -> Decimal:
    """What an added or removed complete row loses of noise that costs ``rho`` by a relation; rounded down."""
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
        epsilon: the share of epsilon that the table has; stated, not used.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
        measured: whether rows can be incomplete also without terms.
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
