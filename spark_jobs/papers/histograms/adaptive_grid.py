"""AG, the adaptive grid: coarse blocks, each of which is then cut as finely as its noisy count allows.

Specification (Qardaji, Yang, Li, *Differentially private grids for geospatial data*, ICDE 2013, guideline 2). Let d be
the dimension, which is 2 in the paper and 1 or 2 here, and r the 1-norm sensitivity of the counts, 1 or 2.

1. The number of rows n is public, or given as an expectation, or else a noisy total at a share ``TOTAL_SHARE`` of
   epsilon. The remaining budget is e.
2. Cut every axis into ``m = max(FIRST, ceil(pieces(n e / 10) / 4))`` blocks of equal size up to one cell, with at least
   one cell each. Their counts get noise of scale ``r / (a e)``, a = ``BLOCK_SHARE``.
3. Cut every axis of a block with noisy count c into ``ceil(pieces(c (1 - a) e / 5))`` parts, or 1 if c <= 0, but into
   at most as many parts as the block has cells along the axis. The counts of all parts get noise of scale
   ``r / ((1 - a) e)``.
4. Estimate by least squares over parts and blocks, and over the total if it is public (the published constrained
   inference is the case of equal parts and no public total); the estimate of a part is spread evenly over its cells.

``pieces(t) = t^(2 / (2 + d))``: a query over a share q of a grid with m cells per axis has noise with a standard
deviation of about ``m^(d/2) / e`` and misplaces about ``n / m`` rows at its border; the sum is smallest where
``m^(1 + d/2)`` is proportional to ``n e``. In two dimensions that is the published square root; on a line it is the
power 2/3.

Formal guarantee: epsilon-DP under either relation.
Proof. The total changes by at most 1 (a replaced row may enter or leave these cells), and the noise of step 1 has the
scale 1 over its share of epsilon. Given n, the blocks are a fixed partition of the cells and their counts change by r
in 1-norm: step 2 costs a e. Given the noisy blocks, the parts are a fixed partition: step 3 costs (1 - a) e. These
costs compose by adaptive sequential composition. Step 3 depends on the *noisy* count of a block, and step 2 never
depends on a private exact total: otherwise the shape of the release would be a function of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.flat import noisy_total
from spark_jobs.mechanisms.histograms.hierarchy import MIN_VARIANCE, Hierarchy, share_down
from spark_jobs.mechanisms.histograms.interface import PublicFacts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed

BLOCK_SHARE = Decimal("0.5")
FIRST = 10
_BLOCK_CONSTANT = 10.0
_PART_CONSTANT = 5.0


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockParts:
    """The partition of cells into parts, and of blocks into parts; computed from public and released numbers.

    Attributes:
        part: the part of each cell, in the shape of the histogram; the parts of a block are consecutive.
        per_block: the number of parts of each block.
    """

    part: NDArray[np.intp]
    per_block: NDArray[np.intp]


def adaptive_grid(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """Noisy counts of blocks, then of the parts of each block: the larger its noisy count, the more parts.

    Epsilon-DP for what the meter has left.

    Sensitivity, cost and proof: see the module.
    """
    rows = rows_changed(neighbours)
    expected = facts.total if facts.total is not None else facts.expected_rows
    if expected is None:
        expected = noisy_total(counts, meter=meter, noise=noise)
    rest = meter.remaining
    above = meter.spend(share_down(rest, BLOCK_SHARE), label="blocks")
    below = meter.spend_rest(label="parts of blocks")

    blocks = cut_into_blocks(counts.shape, expected * float(rest))
    noisy_blocks = noise.laplace(sums(counts, blocks), epsilon=above, l1_sensitivity=rows)
    cut = cut_blocks(blocks, noisy_blocks, float(below))
    noisy_parts = noise.laplace(sums(counts, cut.part), epsilon=below, l1_sensitivity=rows)

    total = None if facts.total is None else np.array([facts.total])
    variances = [max(laplace_variance(laplace_scale(cost, rows)), MIN_VARIANCE) for cost in (below, above)]
    levels = Hierarchy(
        order=np.arange(noisy_parts.size), children=(cut.per_block, np.array([noisy_blocks.size], dtype=np.intp))
    )
    estimates = levels.least_squares(
        [noisy_parts, noisy_blocks, total], [*variances, math.inf if total is None else 0.0]
    )
    spread: FloatArray = (estimates / np.bincount(cut.part.reshape(-1)))[cut.part]
    return spread


def pieces(worth: float, dimensions: int) -> int:
    """The number of pieces of an axis, where ``worth`` is rows times epsilon over a constant; at least 1."""
    return int(max(1.0, math.ceil(max(worth, 0.0) ** (2 / (2 + dimensions)))))


def cut_into_blocks(shape: tuple[int, ...], worth: float) -> NDArray[np.intp]:
    """The block of each cell, in row-major order; ``worth`` is rows times epsilon, public or released."""
    blocks = max(FIRST, -(-pieces(worth / _BLOCK_CONSTANT, len(shape)) // 4))
    number = np.zeros(shape, dtype=np.intp)
    for axis, cells in enumerate(shape):
        along = np.arange(cells) * min(blocks, cells) // cells
        number = number * min(blocks, cells) + np.expand_dims(along, tuple(a for a in range(len(shape)) if a != axis))
    return number


def cut_blocks(blocks: NDArray[np.intp], noisy: Int64Array, epsilon: float) -> BlockParts:
    """The parts of each block: as many per axis as its noisy count allows at ``epsilon``."""
    power = 2 / (2 + blocks.ndim)
    wanted = np.ceil(np.maximum(noisy * (epsilon / _PART_CONSTANT), 0.0) ** power)
    number = np.zeros(blocks.shape, dtype=np.intp)
    per_block = np.ones(noisy.size, dtype=np.intp)
    for place in np.indices(blocks.shape):
        # the block's first cell and its length along this axis
        first = np.full(noisy.size, blocks.size, dtype=np.intp)
        last = np.zeros(noisy.size, dtype=np.intp)
        np.minimum.at(first, blocks, place)
        np.maximum.at(last, blocks, place)
        length = last - first + 1
        parts = np.clip(wanted, 1, length).astype(np.intp)
        number = number * parts[blocks] + (place - first[blocks]) * parts[blocks] // length[blocks]
        per_block *= parts
    return BlockParts(part=number + (np.cumsum(per_block) - per_block)[blocks], per_block=per_block)


def sums(counts: Int64Array, group: NDArray[np.intp]) -> Int64Array:
    """The exact sums of the cells of each group, as integers."""
    totals = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.add.at(totals, group, counts)
    return totals
