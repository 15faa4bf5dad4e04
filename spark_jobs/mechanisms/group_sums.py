"""Noisy positives, negatives and centred score sums of groups of scores, for binned residuals and calibration.

A group holds the fine cells ``l <= j < r`` of a grid on [0, 1]; the score of a row in cell ``j`` is taken to be the
cell's middle. For each group three numbers are released: its positives, its negatives, and the sum of its scores
relative to the group's own middle, in whole *units*. On a grid of equal cells a unit is half a cell, so that cell ``j``
counts ``2 j + 1 - l - r``. On the refined grid (``score_grid``) it is a fixed part of the group's width, from 2^-17 to
2^-18 of it, to which middles of cells are rounded.

Privacy. The counts are of disjoint sets. The absolute value of a centred score is at most the group's ``w``, which is
reached in the group's first or last cell and is ``r - l - 1`` on a grid of equal cells. The group's epsilon is split
into ``a`` for its counts and ``b`` for its sum, with noise of scale ``1 / a`` and ``w / b``:

* ``ADD_REMOVE``: the row lies in one group. It changes one count by 1, at cost ``a``, and the sum by at most ``w``, at
  cost ``b``: epsilon-DP, whatever the split of each group.
* ``REPLACE_ONE``: scales are doubled. Either the row leaves one group and enters another, at half of ``a + b`` in each
  of the two; or it stays in its group, changes both counts by 1 and the sum by at most ``2 w``, at cost ``a + b``.
  Epsilon-DP again.

Splits depend on the grid and on the groups, which are public or were released before. The sum must be *centred*:
otherwise a row with a score near 1 that joins the group (0.99, 1] changes its sum by 1 instead of by the group's width
0.01, and the loss of noise that is scaled to the width is a hundred times larger than intended (as for the sums of Chen
2018, section 4.4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Decimal, localcontext

import numpy as np

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.grids import SCORE_CELLS
from spark_jobs.contract.privacy import MAX_DIGITS, Neighbours, exact_decimal, exact_difference
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.cells import totals
from spark_jobs.mechanisms.noise import Cost, Noise, laplace_scale, laplace_variance, scale_of_sum
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.score_grid import edges_of, middles_of

UNIT_BITS = 17


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyGroups:
    """The noisy numbers of ``k`` groups, and the public facts that are needed to interpret them.

    Attributes:
        grid: the number of fine cells of [0, 1].
        cuts: the groups, as cuts of the grid; shape (k + 1,).
        positives, negatives, centred: the three noisy numbers of each group; shape (k,).
        epsilons: for an added or removed row, the cost of each group's counts (first row) and of its sum (second row);
            shape (2, k). The sum of a group of one cell costs nothing.
        neighbours: the neighbouring relation of the noise.
        summed: the number of measurements that were added up; they are of tables without common rows, and each has
            noise of these costs. None for a single measurement.
    """

    grid: int
    cuts: Int64Array
    positives: Int64Array
    negatives: Int64Array
    centred: Int64Array
    epsilons: tuple[tuple[Decimal, ...], tuple[Decimal, ...]]
    neighbours: Neighbours
    summed: int | None = field(default=None, metadata={codec.LEFT_OUT: True})

    def plus(self, *others: NoisyGroups) -> NoisyGroups:
        """The sums of measurements of tables that share no row, with equal groups and epsilons; noise adds up."""
        together = {
            name: np.sum([getattr(one, name) for one in (self, *others)], axis=0)
            for name in ("positives", "negatives", "centred")
        }
        return replace(self, **together, summed=1 + len(others))

    @property
    def middles(self) -> FloatArray:
        """The middle of each group, as a score."""
        return _middles(self.cuts, self.grid)

    @property
    def units(self) -> FloatArray:
        """The unit of ``centred`` in each group, as a difference of scores."""
        return _units(self.cuts, self.grid)

    @property
    def off_units(self) -> FloatArray:
        """How far the middle of a cell may be from a whole number of units, as a difference of scores; shape (k,)."""
        return self.units / 2 if self.grid == SCORE_CELLS else np.zeros(self.cuts.size - 1)

    def values(self) -> FloatArray:
        """Unbiased estimates of each group's positives, negatives and sum of scores; shape (3, k)."""
        return self._triples(self.positives, self.negatives, self.centred)

    def scales(self) -> FloatArray:
        """The scales of the two-sided geometric noise in each group's counts and centred sum; shape (2, k).

        For a sum of several measurements, the scales of two-sided geometric noise with the same variance.
        """
        rows, widths = rows_changed(self.neighbours), largest_centred(self.cuts, self.grid)
        counts = [laplace_scale(epsilon, rows) for epsilon in self.epsilons[0]]
        sums = [
            laplace_scale(epsilon, rows * int(width)) if width else 0.0
            for epsilon, width in zip(self.epsilons[1], widths, strict=True)
        ]
        if self.summed is None:
            return np.array([counts, sums])
        return np.array([[scale_of_sum(one, self.summed) if one else 0.0 for one in of] for of in (counts, sums)])

    def size_variance(self) -> float:
        """The variance of the noise in the total of positives over all groups; the same for negatives."""
        return sum(laplace_variance(float(scale)) for scale in self.scales()[0])

    def errors(self, copies: int, noise: Noise) -> FloatArray:
        """Fresh draws of the noise in ``values``, for simulations on released values; shape (copies, 3, k)."""
        zeros = np.zeros((copies, 3, self.cuts.size - 1), dtype=np.int64)
        drawn = sum(
            (
                _noisy(zeros, self.cuts, self.grid, self.epsilons, self.neighbours, noise)
                for _ in range(self.summed or 1)
            ),
            zeros,
        )
        return self._triples(drawn[:, 0], drawn[:, 1], drawn[:, 2])

    def _triples(self, positives: Int64Array, negatives: Int64Array, centred: Int64Array) -> FloatArray:
        rows = positives.astype(np.float64) + negatives
        return np.stack([positives, negatives, self.middles * rows + centred * self.units], axis=-2)


def noisy_groups(
    counts: Int64Array, cuts: Int64Array, *, epsilon: Cost, neighbours: Neighbours, noise: Noise
) -> NoisyGroups:
    """One noisy measurement of the three numbers of every group; ``epsilon``-DP (see the module's proof).

    Args:
        counts: exact counts of the fine cells, shape (2, grid), negatives first; private.
        cuts: the groups; public, or computed from released values only. Strictly increasing from 0 to ``grid``.
        epsilon: the cost of the release.
        neighbours: the neighbouring relation.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).

    Raises:
        InvalidRequest: epsilon is not a finite number above 0.
        ValueError: the counts or the cuts do not fit a grid.
    """
    if counts.ndim != 2 or counts.shape[0] != 2:
        raise ValueError(f"counts: got shape {counts.shape}; must be (2, grid), negatives first")
    grid = counts.shape[1]
    if cuts[0] != 0 or cuts[-1] != grid or (np.diff(cuts) < 1).any():
        raise ValueError(f"cuts: must increase strictly from 0 to {grid}")
    epsilons = split_epsilon(exact_decimal(epsilon, what="epsilon"), cuts, grid)
    exact = np.concatenate([totals(counts[::-1], cuts), centred_sums(counts.sum(axis=0), cuts)[None]])
    noisy = _noisy(exact, cuts, grid, epsilons, neighbours, noise)
    return NoisyGroups(
        grid=grid,
        cuts=cuts,
        positives=noisy[0],
        negatives=noisy[1],
        centred=noisy[2],
        epsilons=epsilons,
        neighbours=neighbours,
    )


def centred_sums(counts: Int64Array, cuts: Int64Array) -> Int64Array:
    """The exact sum of the rows' centred scores in each group ``[l, r)``, in units."""
    group = np.repeat(np.arange(cuts.size - 1), np.diff(cuts))
    return totals(counts * _centred(np.arange(counts.size), group, cuts, counts.size), cuts)


def largest_centred(cuts: Int64Array, grid: int) -> Int64Array:
    """The largest absolute centred score in each group, in units: the most by which one row changes its sum."""
    groups = np.arange(cuts.size - 1)
    first, last = (_centred(cells, groups, cuts, grid) for cells in (cuts[:-1], cuts[1:] - 1))
    return np.maximum(np.abs(first), np.abs(last))


def _centred(cells: Int64Array, group: Int64Array, cuts: Int64Array, grid: int) -> Int64Array:
    """The centred scores of cells, each of which lies in a group, in units."""
    if grid != SCORE_CELLS:
        return 2 * cells + 1 - (cuts[:-1] + cuts[1:])[group]
    off = (middles_of(grid)[cells] - _middles(cuts, grid)[group]) / _units(cuts, grid)[group]
    return np.rint(off).astype(np.int64)


def _middles(cuts: Int64Array, grid: int) -> FloatArray:
    edges = edges_of(grid)[cuts]
    middles: FloatArray = (edges[:-1] + edges[1:]) / 2
    return middles


def _units(cuts: Int64Array, grid: int) -> FloatArray:
    """Half a cell; on the refined grid, 2^-17 of the largest power of two that is not above the group's width."""
    if grid != SCORE_CELLS:
        return np.full(cuts.size - 1, 1 / (2 * grid))
    units: FloatArray = np.ldexp(1.0, np.frexp(np.diff(edges_of(grid)[cuts]))[1] - 1 - UNIT_BITS)
    return units


def split_epsilon(epsilon: Decimal, cuts: Int64Array, grid: int) -> tuple[tuple[Decimal, ...], tuple[Decimal, ...]]:
    """The split of each group's epsilon between counts and sum that minimises the noise of its sum of residuals.

    Let ``c`` be the group's middle and ``u`` the unit of the centred sums. Then the noise of ``sum (y - p) = (1 - c)
    positives - c negatives - u centred`` has a variance proportional to ``((1 - c)^2 + c^2) / a^2 + (w u)^2 / b^2``.
    This variance is smallest if ``a : b`` is the ratio of the cube roots of the two numerators. The parts add up to
    ``epsilon`` exactly; ``b`` is 0 in a group of one cell.
    """
    middle, half_width = _middles(cuts, grid), largest_centred(cuts, grid) * _units(cuts, grid)
    of_counts, of_sum = np.cbrt((1 - middle) ** 2 + middle**2), np.cbrt(half_width**2)
    parts = [_part(epsilon, float(share)) for share in of_sum / (of_counts + of_sum)]
    return tuple(exact_difference(epsilon, part) for part in parts), tuple(parts)


def _part(epsilon: Decimal, share: float) -> Decimal:
    if share == 0:
        return Decimal(0)
    with localcontext(prec=MAX_DIGITS, rounding=ROUND_FLOOR):
        return epsilon * Decimal(round(max(share, 1e-4), 4)).quantize(Decimal("0.0001"))


def _noisy(
    exact: Int64Array,
    cuts: Int64Array,
    grid: int,
    epsilons: tuple[tuple[Decimal, ...], tuple[Decimal, ...]],
    neighbours: Neighbours,
    noise: Noise,
) -> Int64Array:
    """``exact``, shape (..., 3, k), with noise; the sum of a group of one cell is always 0 and gets none."""
    rows, noisy = rows_changed(neighbours), np.empty_like(exact)
    for group, width in enumerate(largest_centred(cuts, grid)):
        of_counts, of_sum = (part[group] for part in epsilons)
        noisy[..., :2, group] = noise.laplace(exact[..., :2, group], epsilon=of_counts, l1_sensitivity=rows)
        noisy[..., 2, group] = (
            noise.laplace(exact[..., 2, group], epsilon=of_sum, l1_sensitivity=rows * int(width))
            if width
            else exact[..., 2, group]
        )
    return noisy
