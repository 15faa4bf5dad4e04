"""Noisy counts of a tree, with adaptively shrunk differences between the halves of a node; the method ``auto``.

1. The number of rows is public, or given as an expectation, or else a noisy total at a share ``TOTAL_SHARE`` of
   epsilon. Let e be the remaining budget and r the 1-norm sensitivity to a row; the *worth* of a node is its rows times
   e / r.
2. A tree joins pairs of neighbours up to the root (``halving_tree``); some of its levels are measured, each with a part
   of e. *Lines*: levels at most ``APART`` halvings apart get equal parts, from a level of at least ``TOP_NODES`` nodes
   down to the finest level whose nodes are worth at least ``MIN_WORTH``; below that level, every third level and the
   cells get smaller parts. *Small grids, and grids whose cells are worth at least* ``MIN_FLAT_WORTH``: the cells and a
   coarse level are measured. *Other grids* are measured in two steps. First, blocks worth about ``BLOCK_WORTH`` and
   coarser levels get ``BLOCK_SHARE`` of e. Then the noisy count of each block determines which levels inside the block
   share the rest of e: the finest level whose nodes are worth at least ``MIN_PART_WORTH``, coarser levels, and with a
   small part the cells.
3. Estimates (post-processing). Up the tree, own measurements and sums of children are weighted by inverse variances.
   Down the tree, the estimate of a node is divided among its halves: evenly, or by a straight line through its
   neighbours, plus the measured difference, which is shrunk (``shrinkage``) according to the distribution of such
   differences over the level; the whole estimate may also go to one half. No estimate is negative.

Formal guarantee: epsilon-DP under either relation.
Proof. Step 1: ``flat.noisy_total``. Given its result, the levels of a line, and those of blocks and above, are
fixed; a row is in one node of each, so that each costs its part of e, r being the sensitivity. Given the noisy blocks,
the levels of each block are fixed, and their noise has scale r over parts that add up to the rest of e. A row that is
added or removed is in one block: r = 1, and its levels cost the rest. A row that is replaced leaves one block and
enters one, whose levels may differ: r = 2, so that each of the two costs half of the rest. The costs of the steps
compose by adaptive sequential composition.

Chosen on tables drawn at random (docs/contributing/benchmarks/choices.md). Sources: Hay, Rastogi, Miklau, Suciu (PVLDB
2010) for trees; Qardaji, Yang, Li (ICDE 2013) for blocks; Sweldens's average-interpolating lifting for straight lines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_jobs.arrays import FloatArray, Int64Array
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.flat import noisy_total
from spark_jobs.mechanisms.histograms.halving_tree import HalvingTree
from spark_jobs.mechanisms.histograms.hierarchy import MIN_VARIANCE, share_down, split_by
from spark_jobs.mechanisms.histograms.interface import PublicFacts
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import Noise, laplace_scale, laplace_variance
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.shrinkage import shrunk

MIN_WORTH = 8.0
MIN_WEIGHT = 0.1
"""The smallest weight of a level that is used, however little it is worth; the largest is 1."""
APART, APART_BELOW = 4, 3
TOP_NODES, FEW_NODES = 4, 32
"""A level of few nodes that is worth enough needs no coarser one."""
MIN_FLAT_WORTH = 64.0
COARSE, COARSE_WEIGHT = 6, 0.3
BLOCK_SHARE = Decimal("0.3")
MIN_BLOCKS, BLOCK_WORTH = 64, 100.0
BLOCKS_APART, PARTS_APART = 4, 7
MIN_PART_WORTH = 3.0


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measurements:
    """Exact and noisy counts of a tree; of each level the noisy counts and their precisions, 0 where there is none."""

    tree: HalvingTree
    exact: list[NDArray[Any]]
    rows: int
    noise: Noise
    noisy: list[FloatArray] = field(init=False)
    precisions: list[FloatArray] = field(init=False)

    def __post_init__(self) -> None:
        """Begin without measurements."""
        for name in ("noisy", "precisions"):
            object.__setattr__(self, name, [np.zeros(shape) for shape in self.tree.shapes])

    def measure(self, level: int, epsilon: Decimal, where: NDArray[np.bool_] | None = None) -> None:
        """Count the nodes of a level, or those ``where`` it is true, with noise of this cost."""
        mask = np.ones(self.tree.shapes[level], dtype=bool) if where is None else where
        if epsilon <= 0 or not mask.any():
            return
        drawn = self.noise.laplace(self.exact[level][mask], epsilon=epsilon, l1_sensitivity=self.rows)
        precision = 1 / max(laplace_variance(laplace_scale(epsilon, self.rows)), MIN_VARIANCE)
        before = self.precisions[level][mask]
        self.noisy[level][mask] = (before * self.noisy[level][mask] + precision * drawn) / (before + precision)
        self.precisions[level][mask] = before + precision


def shrunken_tree(
    counts: Int64Array, *, meter: BudgetMeter, neighbours: Neighbours, noise: Noise, facts: PublicFacts
) -> FloatArray:
    """Estimates of the cells from noisy counts of a tree, with shrunk differences between the halves of each node.

    Epsilon-DP for what the meter has left.

    Sensitivity, cost and proof: see the module.
    """
    expected = facts.total if facts.total is not None else facts.expected_rows
    if expected is None:
        expected = noisy_total(counts, meter=meter, noise=noise)
    tree = HalvingTree.over(counts.shape)
    rows = rows_changed(neighbours)
    measured = _Measurements(tree=tree, exact=tree.sums(counts), rows=rows, noise=noise)
    worth = max(expected, 1) * float(meter.remaining) / rows
    blocks = 0 if counts.ndim == 1 else block_level(tree, worth)
    if blocks:
        above = meter.spend(share_down(meter.remaining, BLOCK_SHARE), label="blocks and coarser levels")
        below = meter.spend_rest(label="levels within blocks")
        _measure_levels(measured, coarse_levels(tree, blocks, worth), above)
        _measure_within(measured, blocks, below)
    else:
        levels = line_levels(tree, worth) if counts.ndim == 1 else flat_levels(tree)
        _measure_levels(measured, levels, meter.spend_rest(label="levels of the tree"))
    return _estimates(measured, facts.total)


def line_levels(tree: HalvingTree, worth: float) -> dict[int, float]:
    """The levels of a line that are measured, each with its weight: its relative share of the budget."""
    top = max((level for level in range(tree.root + 1) if tree.size(level) >= TOP_NODES), default=0)
    finest = next((level for level in range(top) if worth / tree.size(level) >= MIN_WORTH), top)
    if tree.size(finest) <= FEW_NODES:
        top = finest
    steps = math.ceil((top - finest) / APART)
    weights = {finest + round((top - finest) * step / max(steps, 1)): 1.0 for step in range(steps + 1)}
    level = finest
    while level > 0:
        level = level - APART_BELOW if level - APART_BELOW > 1 else 0
        weights[level] = min(1.0, max(MIN_WEIGHT, worth / tree.size(level) / MIN_WORTH))
    return weights


def flat_levels(tree: HalvingTree) -> dict[int, float]:
    """The measured levels of a small grid, or of one whose cells are worth enough, each with its relative share."""
    return {0: 1.0, COARSE: COARSE_WEIGHT} if tree.root > COARSE else {0: 1.0}


def block_level(tree: HalvingTree, worth: float) -> int:
    """The level of the blocks of a grid; 0 if it needs none."""
    if worth / tree.size(0) >= MIN_FLAT_WORTH:
        return 0
    level = tree.root
    while level > 0 and (tree.size(level) < MIN_BLOCKS or worth / tree.size(level - 1) >= BLOCK_WORTH):
        level -= 1
    return level


def coarse_levels(tree: HalvingTree, blocks: int, worth: float) -> dict[int, float]:
    """The measured levels from the blocks of a grid upwards, each with its weight: its relative share of the budget."""
    weights = {
        level: COARSE_WEIGHT * min(1.0, max(MIN_WEIGHT, worth / tree.size(level) / MIN_WORTH))
        for level in range(blocks + BLOCKS_APART, tree.root + 1, BLOCKS_APART)
    }
    return {blocks: min(1.0, max(MIN_WEIGHT, worth / tree.size(blocks) / MIN_WORTH)), **weights}


def finest_in_blocks(noisy: FloatArray, blocks: int, epsilon: float) -> NDArray[np.intp]:
    """For each block, the finest level whose nodes in it are worth ``MIN_PART_WORTH`` on average, or the block's own.

    Args:
        noisy: counts of the blocks.
        blocks: their level.
        epsilon: the epsilon for levels within blocks, divided by the 1-norm sensitivity to a row.
    """
    worth = np.clip(noisy * epsilon / MIN_PART_WORTH, 1, 2.0**blocks)
    return np.asarray(blocks - np.floor(np.log2(worth)).astype(np.intp))


def _measure_levels(measured: _Measurements, weights: Mapping[int, float], epsilon: Decimal) -> None:
    for level, part in _parts(weights, epsilon).items():
        measured.measure(level, part)


def _measure_within(measured: _Measurements, blocks: int, epsilon: Decimal) -> None:
    finest = finest_in_blocks(measured.noisy[blocks], blocks, float(epsilon) / measured.rows)
    for level in range(blocks + 1):
        here = finest == level
        weights = dict.fromkeys(range(level, max(blocks, level + 1), PARTS_APART), 1.0)
        weights.setdefault(0, MIN_WEIGHT)
        for below, part in _parts(weights, epsilon).items():
            measured.measure(below, part, measured.tree.repeated(here, above=blocks, below=below))


def _parts(weights: Mapping[int, float], epsilon: Decimal) -> dict[int, Decimal]:
    """Level -> cost, in proportion to weights; the finest level first, which gets what rounding leaves."""
    levels, total = sorted(weights), sum(weights.values())
    shares = [Decimal(str(round(weights[level] / total, 6))) for level in levels]
    return dict(zip(levels, split_by(epsilon, shares), strict=True))


def _estimates(measured: _Measurements, total: int | None) -> FloatArray:
    """Estimates of the cells; the sum is ``total`` where it is public."""
    tree, sizes = measured.tree, measured.tree.sums(np.ones(measured.tree.shapes[0]))
    values, variances = measured.noisy[0], 1 / measured.precisions[0]
    upwards = [(values, variances)]
    for level in range(1, tree.root + 1):
        values, variances = np.add(*tree.halves(level - 1, values)), np.add(*tree.halves(level - 1, variances))
        weight = measured.precisions[level] * variances / (1 + measured.precisions[level] * variances)
        values = weight * measured.noisy[level] + (1 - weight) * values
        variances = (1 - weight) * variances
        upwards.append((values, variances))
    known = np.maximum(values, 0.0) if total is None else np.full_like(values, total)
    for level in range(tree.root - 1, -1, -1):
        first = _first_halves(tree, level, known, upwards[level], sizes[level])
        known = tree.joined(level, first, known - first)
    return known


def _first_halves(
    tree: HalvingTree, level: int, known: FloatArray, upwards: tuple[FloatArray, FloatArray], sizes: FloatArray
) -> FloatArray:
    """Estimates of the first children of nodes that are estimated as ``known``.

    Given the sum of two children, the first one's best linear estimate moves from its own by its share of the surplus.
    """
    (first, second), variances = tree.halves(level, upwards[0]), tree.halves(level, upwards[1])
    number = tree.halves(level, sizes)
    even = known * number[0] / (number[0] + number[1])
    together = variances[0] + variances[1]
    values = first + (known - first - second) * variances[0] / together - even
    paired = number[1] > 0
    away = np.zeros_like(known)
    away[paired] = shrunk(
        values[paired],
        (variances[0] * variances[1] / together)[paired],
        centres=(np.zeros_like(values[paired]), _slopes(known, tree.axes[level])[paired]),
        low=-even[paired],
        high=(known - even)[paired],
    )
    return np.asarray(np.clip(even + away, 0.0, known))


def _slopes(known: FloatArray, axis: int) -> FloatArray:
    """What a first half has beyond the even share, if counts change along a straight line through the neighbours."""
    along = np.moveaxis(known, axis, 0)
    padded = np.concatenate([along[:1], along, along[-1:]])
    return np.moveaxis((padded[:-2] - padded[2:]) / 16, 0, axis)
