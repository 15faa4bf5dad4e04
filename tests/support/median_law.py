"""The exact law of recursive medians: what each node may release, from the medians, bounds and scales it uses."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spark_jobs.mechanisms.continuous_noise import polynomial_noise
from spark_jobs.mechanisms.median_bounds import Line, part_medians
from spark_jobs.mechanisms.quantiles import node_budgets


def recursive_law(cells, *, levels, epsilon, neighbours):
    """Thresholds, as a tuple, to the logarithm of their probability; every node but its own level is told apart."""
    laws = {(0, len(cells)): 0.0}
    for budget in node_budgets(Decimal(epsilon), levels, neighbours):
        shape = polynomial_noise(budget)
        deeper = {}
        for edges, log in laws.items():
            private = part_medians(Line.of(np.asarray(cells)), np.array(edges), smoothness=shape.smoothness)
            nodes = [
                node_law(shape, edges[at], edges[at + 1], private.doubled[at] / 2, private.bounds[at])
                for at in range(len(edges) - 1)
            ]
            for inner, chance in products(nodes):
                merged = tuple(np.append(np.column_stack([edges[:-1], inner]), edges[-1]).tolist())
                deeper[merged] = log + chance
        laws = deeper
    return {edges[1:-1]: log for edges, log in laws.items()}


def node_law(shape, start, end, median, bound):
    """Log probabilities of a node's threshold: rounded noise; what falls outside becomes the middle."""
    width = end - start
    if width <= 1:
        return {end: 0.0}
    borders = np.arange(1, width + 1) - 0.5
    # from both ends, so that far tails keep their digits
    below, above = (tail(shape, sign * (borders - median) / (shape.scale * bound)) for sign in (-1, 1))
    inside = np.where(borders[:-1] >= median, above[:-1] - above[1:], below[1:] - below[:-1])
    inside[width // 2 - 1] += below[0] + above[-1]
    return {start + at + 1: float(np.log(mass)) for at, mass in enumerate(inside)}


def tail(shape, x):
    """P(X >= x) of the standard polynomial density."""
    alpha, size = float(shape.epsilon) / shape.rate, np.abs(x)
    centre = 1 - (1 - 1 / alpha) ** alpha
    outer = (1 - 1 / alpha) ** (alpha - 1) * (1 + 1 / alpha)
    near = centre - (1 - (1 - np.minimum(size, 1 / alpha)) ** alpha) + outer
    far = outer * ((1 + size) / (1 + 1 / alpha)) ** -alpha
    upper = np.where(size <= 1 / alpha, near, far) / (2 * (centre + outer))
    return np.where(x >= 0, upper, 1 - upper)


def products(nodes):
    """Every choice of one outcome for each node, with the sum of its logarithms."""
    found = [((), 0.0)]
    for node in nodes:
        found = [((*inner, place), log + chance) for inner, log in found for place, chance in node.items()]
    return found
