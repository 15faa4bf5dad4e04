"""Histogram methods with the faults that are easily made: never private, here to be convicted."""

from __future__ import annotations

import numpy as np

from spark_jobs.mechanisms.histograms.adaptive_grid import cut_blocks, cut_into_blocks, sums
from spark_jobs.mechanisms.histograms.ahp import cluster_cells
from spark_jobs.mechanisms.histograms.mwem import WeightedCells


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


def mwem_with_the_exact_total(counts, *, epsilon, noise):
    """Every answer has noise; their common scale is the number of rows, which add/remove keeps private."""
    learned = WeightedCells.uniform(counts.shape, float(counts.sum()))
    inside = np.arange(counts.size) == 0
    learned.take(inside, float(noise.laplace(counts[:1], epsilon=epsilon, l1_sensitivity=1)[0]))
    learned.learn(5)
    return learned.cells()
