"""Published readings of the private ECDF that are not private. They are here to be convicted.

Barczewski, Mawass, Ramon, "Differentially private empirical cumulative distribution functions".
"""

from __future__ import annotations

import numpy as np

from benchmarks.competitors.shared_nodes import shared_node_prefixes


def ecdf_between_its_extremes(values, *, points, epsilon, neighbours, noise):
    """Section 3.1: the grid's ends are the data's own smallest and largest value. Returns the grid and the counts."""
    grid = np.linspace(values.min(), values.max(), points)
    cells = np.bincount(np.searchsorted(grid, values), minlength=points)
    return grid, shared_node_prefixes(cells, epsilon=epsilon, neighbours=neighbours, noise=noise).prefix_counts


def point_by_point(counts, point, *, times, epsilon, neighbours, noise):
    """Section 4.1 without a store: every evaluation of one point draws its noise afresh."""
    return np.array(
        [
            shared_node_prefixes(counts, epsilon=epsilon, neighbours=neighbours, noise=noise).prefix_counts[point]
            for _ in range(times)
        ]
    )
