"""The random part of a profile: noisy rows of every cell of each column, and of each pair of columns."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.profile import ProfileCells, ProfileSettings
from spark_jobs.contract.privacy import share
from spark_jobs.diagnostics.diagnostic import Draw, Terms
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.statistics import ProfileCounts


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyProfileCells:
    """Noisy rows of the cells of one column, or of two.

    Attributes:
        design: the columns and their cells.
        counts: rows with two-sided geometric noise; shape (cells,).
        epsilon: the cost of these counts.
        scale: scale of the noise.
    """

    design: ProfileCells
    counts: Int64Array
    epsilon: Decimal
    scale: float


@dataclass(frozen=True, kw_only=True, eq=False)
class ProfileDraw(Draw):
    """Noisy rows of all cells, with the public facts that are needed to interpret them.

    Attributes:
        tables: the noisy rows of each column, and then of each pair.
        quantiles: levels of the quantiles.
        confidence: nominal level of intervals.
    """

    tables: tuple[NoisyProfileCells, ...]
    quantiles: tuple[float, ...]
    confidence: float


def measure_profile(
    statistic: ProfileCounts | tuple[ProfileCounts, ...], options: ProfileSettings, terms: Terms
) -> ProfileDraw:
    """Draw the noise of all cells.

    Guarantee: ``epsilon``-DP for one row added or removed (``ADD_REMOVE``), or replaced (``REPLACE_ONE``).

    Proof: in one column, or in one pair, a row is in exactly one cell. If a row is added or removed, the vector of
    counts changes by 1 in the 1-norm; if a row is replaced, it changes by at most 2. Two-sided geometric noise of scale
    ``1 / e``, or ``2 / e``, makes this vector e-DP. A row is in a cell of every column and pair, so the k vectors
    compose: each has ``e = epsilon / k``, and together they cost epsilon. Everything else is computed from the noisy
    counts alone. A unit of m rows costs m times as much as a row, as in all kinds.

    Args:
        statistic: exact rows of the cells of each column and pair; private.
        options: the settings.
        terms: budget, relation and noise; all of epsilon is spent.

    Raises:
        InvalidRequest: the budget is not above 0.
    """
    counted = statistic if isinstance(statistic, tuple) else (statistic,)
    meter, changed = terms.meter(), rows_changed(terms.neighbours)
    part, tables = share(meter.remaining, len(counted)), []
    for number, one in enumerate(counted, 1):
        label = "rows by " + " and ".join(column.column for column in one.design.columns)
        epsilon = meter.spend(part, label=label) if number < len(counted) else meter.spend_rest(label=label)
        noisy = terms.noise.laplace(one.counts, epsilon=epsilon, l1_sensitivity=changed)
        scale = laplace_scale(epsilon, changed)
        tables.append(NoisyProfileCells(design=one.design, counts=noisy, epsilon=epsilon, scale=scale))
    return ProfileDraw.of(
        terms, meter, tables=tuple(tables), quantiles=options.quantiles, confidence=options.confidence
    )
