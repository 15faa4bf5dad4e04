"""The noise in a cell of a table that was made consistent with other tables, by simulation.

An estimate is a weighted sum of the noisy entries of all tables, with public weights. The weight of an entry depends
only on its table and on a pattern: in which of the dimensions common to both tables the entry and the estimated cell
agree. So the weights are alike for all cells of a table. The noise of a cell is a sum, over tables and patterns, of a
weight times a sum of independent noises. A sum of more than ``DRAWN`` noises is close to normal and is drawn as a
normal variable; other sums are drawn entry by entry. Sums of Gaussian noise are exactly normal, so nothing is drawn for
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.marginals import Dimensions, consistent, subsets
from spark_jobs.mechanisms.noise import SeededNoise

COPIES, DRAWN = 8192, 16
_FINE = 1 << 20
"""Lattice steps of a row in simulated noise."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedNoise:
    """Simulated copies of the noise in the rows (z) and in one sum (w) of a cell; has the methods of ``CellNoise``.

    Attributes:
        rows, sums: the copies of z and of w; shape (copies,).
        single: the noise law of a table that was not made consistent with others, or a law with heavier tails. Either
            has heavier tails than a sum of several noises.
        spread: the standard deviation of the noise in the rows of a table that was not made consistent with others.
        symmetric: whether, whatever z is, w is as often positive as negative.
    """

    rows: FloatArray
    sums: FloatArray
    single: CellNoise
    spread: float
    symmetric: bool = True

    def quantile(self, level: float, of_rows: FloatArray, of_sum: FloatArray) -> FloatArray:
        """The ``level`` quantile of ``|of_rows z + of_sum w|``."""
        pairs = zip(*np.broadcast_arrays(of_rows, of_sum), strict=True)
        sizes = (np.abs(of * self.rows + other * self.sums) for of, other in pairs)
        return np.array([np.quantile(one, level, method="higher") for one in sizes])

    def quantile_of_difference(self, level: float, ratios: FloatArray) -> FloatArray:
        """The ``level`` quantile of ``|w - ratio z|``, for each ratio."""
        return self.quantile(level, ratios if self.symmetric else -ratios, np.ones(ratios.size))

    def stddev(self, of_rows: float, of_sum: float) -> float:
        """The standard deviation of ``of_rows z + of_sum w``."""
        return float(np.std(of_rows * self.rows + of_sum * self.sums))

    def count_above(self, chance: float) -> float:
        """A number that the noise in rows exceeds with at most the probability ``chance``."""
        return self.single.count_above(chance) * self.stddev(1.0, 0.0) / self.spread


def simulated(
    laws: Mapping[Dimensions, CellNoise],
    sizes: Sequence[int],
    costs: Mapping[Dimensions, float],
    noise: SeededNoise,
) -> dict[Dimensions, SimulatedNoise]:
    """The noise in a cell of each of several tables, drawn by these laws and made consistent with each other."""
    totals = weighted_noise(tuple(laws), sizes, costs, lambda table, entries: _sums(laws[table], entries, noise))
    return {
        table: SimulatedNoise(
            rows=total[:, 0], sums=total[:, 1], single=laws[table], spread=laws[table].stddev(1.0, 0.0)
        )
        for table, total in totals.items()
    }


def normal_laws(
    laws: Mapping[Dimensions, CellNoise], sizes: Sequence[int], costs: Mapping[Dimensions, float]
) -> dict[Dimensions, CellNoise]:
    """The law of the noise in a cell of each of several tables with Gaussian noise, made consistent with each other."""
    if len(laws) == 1:
        return dict(laws)
    variances = dict.fromkeys(laws, 0.0)
    for table, other, weight, entries in _all_weights(tuple(laws), sizes, costs):
        variances[table] += entries * (weight * laws[other].scale) ** 2
    return {table: replace(laws[table], scale=math.sqrt(variance)) for table, variance in variances.items()}


def weighted_noise(
    tables: Sequence[Dimensions],
    sizes: Sequence[int],
    costs: Mapping[Dimensions, float],
    sums: Callable[[Dimensions, int], FloatArray],
) -> dict[Dimensions, FloatArray]:
    """Copies of the noise in a cell of each of several tables made consistent; shape (copies, numbers).

    Args:
        tables: the dimensions of each table.
        sizes: the number of groups of every dimension.
        costs: the cost of each table.
        sums: given a table and a number, copies of the sum of the noises in that number of its cells.
    """
    totals: dict[Dimensions, FloatArray] = {}
    for table, other, weight, entries in _all_weights(tables, sizes, costs):
        totals[table] = totals.get(table, 0.0) + weight * sums(other, entries)
    return totals


def _all_weights(
    tables: Sequence[Dimensions], sizes: Sequence[int], costs: Mapping[Dimensions, float]
) -> Iterator[tuple[Dimensions, Dimensions, float, int]]:
    """For a cell of each table, how much entries of each other one weigh, and how many do."""
    for other in tables:
        impulses = {one: np.zeros((1, *(sizes[dimension] for dimension in one))) for one in tables}
        impulses[other][(0,) * (1 + len(other))] = 1.0
        for table, estimate in consistent(impulses, sizes, costs).items():
            for weight, entries in _weights(estimate[0], table, other, sizes):
                yield table, other, weight, entries


def _weights(
    estimate: FloatArray, table: Dimensions, other: Dimensions, sizes: Sequence[int]
) -> Iterator[tuple[float, int]]:
    """How much an entry of ``other`` weighs in a cell of ``table``, and how many do, by what both have in common.

    Args:
        estimate: what the first entry of ``other`` adds to every cell of ``table``.
        table: the table of the cell.
        other: the table of the entries.
        sizes: the number of groups of every dimension.
    """
    shared = tuple(one for one in table if one in other)
    alone = math.prod(sizes[one] for one in other if one not in shared)
    for alike in subsets(shared):
        unlike = [one for one in shared if one not in alike]
        entries = alone * math.prod(sizes[one] - 1 for one in unlike)
        if entries:
            yield float(estimate[tuple(int(one in unlike) for one in table)]), entries


def _sums(law: CellNoise, entries: int, noise: SeededNoise) -> FloatArray:
    """Copies of the sum of so many independent noises, in rows and in one sum; shape (copies, 2)."""
    if entries > DRAWN:
        spread = np.array([law.stddev(1.0, 0.0), law.stddev(0.0, 1.0)])
        near: FloatArray = normal(noise, (COPIES, 2)) * spread * math.sqrt(entries)
        return near
    shape, scale = (COPIES, entries), law.scale * _FINE
    if law.measures > 1 and law.joint:
        drawn = noise.boxed((*shape, 1 + law.measures), scale=scale)[..., :2]
    else:
        drawn = noise.two_sided((*shape, 2), scale=scale * (1 + law.measures if law.measures > 1 else 1))
    total: FloatArray = drawn.sum(axis=1) / _FINE
    if law.measures == 0:
        total[:, 1] = 0.0
    if law.measures == 1:  # of its two halves
        total = np.stack([total[:, 0] + total[:, 1], total[:, 0] - total[:, 1]], axis=-1)
    return total
