"""Unbiased estimates for the cells of each table of a draw, consistent between the tables, and their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.arrays import FloatArray
from spark_jobs.diagnostics._simulation import normal
from spark_jobs.diagnostics.aggregates.copied import SINGLE_COPIES, CopiedNoise, sums_of_noise
from spark_jobs.diagnostics.aggregates.measurement import AggregatesDraw
from spark_jobs.diagnostics.aggregates.simulated import (
    COPIES,
    SimulatedNoise,
    normal_laws,
    simulated,
    weighted_noise,
)
from spark_jobs.mechanisms.cell_forms import CellForm, forms_of
from spark_jobs.mechanisms.cell_noise import CellNoise
from spark_jobs.mechanisms.cell_sums import NoisyCellSums, noise_of_cells
from spark_jobs.mechanisms.marginals import Dimensions, consistent
from spark_jobs.mechanisms.noise import SeededNoise

TableNoise = CellNoise | SimulatedNoise | CopiedNoise
_POOL = 1 << 16
"""Vectors of noise of a table by itself, from which sums of several are drawn."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellEstimates:
    """Unbiased estimates for the cells of one table, and the law of their noise.

    Attributes:
        table: the positions of the table's dimensions in the design.
        rows, incomplete: rows of each cell with and without usable values; shape (k,).
        centred: sums of the design's terms, which are scaled to [-1, 1]; shape (terms, k).
        noise: the noise in ``rows`` and ``centred``; joint copies if several terms are of one value.
    """

    table: Dimensions
    rows: FloatArray
    incomplete: FloatArray
    centred: FloatArray
    noise: TableNoise

    def law(self, term: int = 0) -> CellNoise | SimulatedNoise:
        """The law of the noise in the rows and in the sum of one term."""
        return self.noise.along(self.axis(term)) if isinstance(self.noise, CopiedNoise) else self.noise

    @property
    def copies(self) -> CopiedNoise:
        """Joint copies of the noise in all numbers of a cell.

        Raises:
            TypeError: no two terms are of one value, so that no copies were drawn.
        """
        if not isinstance(self.noise, CopiedNoise):
            raise TypeError("no two sums of these cells are of one value")
        return self.noise

    def axis(self, term: int) -> FloatArray:
        """Weights over a cell's numbers, rows first, that pick out one term; shape (1 + terms,)."""
        weights = np.zeros(1 + len(self.centred))
        weights[1 + term] = 1.0
        return weights

    @property
    def numbers(self) -> FloatArray:
        """Rows and then the sums; shape (1 + terms, k)."""
        return np.concatenate([self.rows[None], self.centred])


def estimates(draw: AggregatesDraw, seed: int) -> list[CellEstimates]:
    """The estimates for each table: as drawn if there is one table, else made consistent between the tables.

    Args:
        draw: the measurement.
        seed: seed of the simulation of noise, where its law has no closed form.
    """
    sizes = [len(dimension.labels) for dimension in draw.design.by]
    drawn = {tuple(range(len(sizes))): draw.cells, **{one.dimensions: one.cells for one in draw.marginals}}
    numbers = {
        table: np.stack([cells.rows, *cells.centred, *([cells.incomplete] if cells.incomplete.size else [])])
        for table, cells in drawn.items()
    }
    costs = {table: cells.cost for table, cells in drawn.items()}
    if len(drawn) > 1:
        shaped = {
            table: values.reshape((len(values), *(sizes[one] for one in table))) for table, values in numbers.items()
        }
        numbers = {table: values.reshape(len(values), -1) for table, values in consistent(shaped, sizes, costs).items()}
    noises, terms = _noises(drawn, forms_of(draw.design.terms), sizes, costs, SeededNoise(seed)), len(draw.design.terms)
    return [
        CellEstimates(
            table=table,
            rows=values[0],
            centred=values[1 : 1 + terms],
            incomplete=values[1 + terms :].sum(axis=0),
            noise=noises[table],
        )
        for table, values in numbers.items()
    ]


def _noises(
    drawn: Mapping[Dimensions, NoisyCellSums],
    forms: Sequence[CellForm],
    sizes: Sequence[int],
    costs: Mapping[Dimensions, float],
    noise: SeededNoise,
) -> Mapping[Dimensions, TableNoise]:
    """The noise in a cell of each table."""
    laws = {table: cells.law for table, cells in drawn.items()}
    if all(law.gaussian for law in laws.values()):
        laws = normal_laws(laws, sizes, costs)
        return {table: _copied(law, noise) for table, law in laws.items()} if forms else laws
    if not forms:
        return simulated(laws, sizes, costs, noise) if len(drawn) > 1 else dict(laws)
    if len(drawn) == 1:
        [(table, cells)] = drawn.items()
        alone = noise_of_cells(cells, forms, SINGLE_COPIES, noise)
        return {table: CopiedNoise(numbers=alone, single=laws[table], spread=float(np.std(alone[:, 0])))}
    pools = {table: noise_of_cells(cells, forms, _POOL, noise) for table, cells in drawn.items()}
    copies = weighted_noise(
        tuple(drawn), sizes, costs, lambda table, entries: sums_of_noise(pools[table], entries, COPIES, noise)
    )
    return {
        table: CopiedNoise(numbers=numbers, single=laws[table], spread=float(np.std(pools[table][:, 0])))
        for table, numbers in copies.items()
    }


def _copied(law: CellNoise, noise: SeededNoise) -> CopiedNoise:
    """Copies of Gaussian noise, whose law is known."""
    numbers = normal(noise, (SINGLE_COPIES, 1 + law.measures)) * law.scale
    return CopiedNoise(numbers=numbers, single=law, spread=law.scale)
