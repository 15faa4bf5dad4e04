"""Histogram methods with the faults that are easily made: never private, here to be convicted."""

from __future__ import annotations

import numpy as np

from spark_jobs.mechanisms.histograms.shrunken_tree import finest_in_blocks
from spark_jobs.papers.histograms.adaptive_grid import cut_blocks, cut_into_blocks, sums
from spark_jobs.papers.histograms.ahp import cluster_cells
from spark_jobs.papers.histograms.mwem import WeightedCells


def ahp_with_clusters_of_exact_counts(counts, *, epsilon, noise):
    """Every total has noise; which cells share one has none."""
    clusters = cluster_cells(counts, threshold=0.0, variance=2.0 / epsilon**2)
    totals = noise.laplace(sums(counts, clusters), epsilon=epsilon, l1_sensitivity=1)
    return (totals / np.bincount(clusters))[clusters]


def grid_cut_by_exact_counts(counts, *, epsilon, noise):
    """Every part has noise; how many parts there are says what the block holds."""
    blocks = cut_into_blocks(counts.shape, 1.0)
    parts = cut_blocks(blocks, sums(counts, blocks), epsilon).part
    noisy = noise.laplace(sums(counts, parts), epsilon=epsilon, l1_sensitivity=1)
    return (noisy / np.bincount(parts))[parts]


def tree_of_levels_by_exact_counts(counts, *, epsilon, noise):
    """Every count has noise; whether those of a block or of its two cells are taken, its exact count says."""
    blocks = counts.reshape(-1, 2).sum(axis=1)
    fine = finest_in_blocks(blocks, 1, epsilon) == 0
    cells = noise.laplace(counts, epsilon=epsilon, l1_sensitivity=1)
    spread = noise.laplace(blocks, epsilon=epsilon, l1_sensitivity=1) / 2
    return np.where(np.repeat(fine, 2), cells, np.repeat(spread, 2))


def mwem_with_the_exact_total(counts, *, epsilon, noise):
    """Every answer has noise; their common scale is the number of rows, which add/remove keeps private."""
    learned = WeightedCells.uniform(counts.shape, float(counts.sum()))
    inside = np.arange(counts.size) == 0
    learned.take(inside, float(noise.laplace(counts[:1], epsilon=epsilon, l1_sensitivity=1)[0]))
    learned.learn(5)
    return learned.cells()
