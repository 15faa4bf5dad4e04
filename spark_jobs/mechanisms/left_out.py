"""Noisy counts of the rows that statistics leave out, by cause, for release beside these statistics.

A unit's places (``max_rows``, M) go first to its rows that count and then to rows that do not
(``tables.contribution``), so that a table has at most M of its rows, each either in the statistics or in one cause. A
row without a unit is a unit of its own.

**Rows added or removed: at no extra cost.** Let the statistics be ``e``-DP for one row, and let each count have
two-sided geometric noise that is ``e``-DP for one row. A unit changes at most M rows, one after another, and each of
these changes costs ``e``, as it affects either the statistics or one count: the whole is ``M e``-DP, which the
statistics cost on their own. Where they are ``(e, d)``-DP for one row, so is each step, and ``delta_of_rows`` bounds
the sum as before.

This holds for statistics whose noise is calibrated to one row. A measurement whose cost to a unit does not depend on
the unit's number of rows (``mechanisms.unit_squares``) is paid for first; e is then computed from the rest of the
budget, and the two costs add up. If e were computed from the whole budget, a unit with one row that counts and M - 1
rows that do not would lose more than the budget.

**Rows replaced: at a share of their own.** A row may leave the statistics for a cause, and statistics that are
calibrated for replacement may lose all of their epsilon then. So the statistics run at ``(1 - s) e``, and the counts at
``s e`` for a row that moves from one cause to another. A replaced row then costs ``(1 - s) e`` within the statistics,
``s e`` within the causes, and at most ``(1 - s) e + s e / 2`` from one to the other. The counts also have a share of
their own where Gaussian noise is calibrated to a whole unit in few groups (``cell_gaussian``), because half of the
unit's rows may then cost more than half of what the unit may lose.
"""

from __future__ import annotations

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.noise import Cost, Noise


def count_left_out(counts: Int64Array, *, epsilon: Cost, neighbours: Neighbours, noise: Noise) -> Int64Array:
    """The counts with two-sided geometric noise; negative ones are possible.

    Args:
        counts: the number of rows for each cause; a row has at most one cause.
        epsilon: the cost of one row added, removed or replaced.
        neighbours: the relation; a row that is replaced changes two counts.
        noise: the sampler.
    """
    return noise.laplace(counts, epsilon=epsilon, l1_sensitivity=1 if neighbours is Neighbours.ADD_REMOVE else 2)
