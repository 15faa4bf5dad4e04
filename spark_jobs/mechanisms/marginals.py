"""Tables of one set of rows by fewer and more dimensions, measured apart and made consistent by least squares.

A table by the dimensions in S has entries of independent noise of one scale. Every table is a sum of components, one
for each subset T of its dimensions: what the groups of T together have beyond what fewer of them explain. Components of
different subsets are orthogonal, so that least squares over all tables takes each component by itself: of every table
that contains T, sums over its other dimensions are taken, lower components are removed by subtracting means along each
dimension of T, and these estimates are averaged with the inverse of their variances. With ``e`` the cost of a table and
``k_i`` the sizes of its dimensions, that variance is proportional to ``prod k_i / e^2``, over the dimensions not in T.
The estimate of a table is the sum of its components, each spread evenly over the cells that it is a sum of.

Estimates are unbiased, and sums of one are the other: it is post-processing of what was paid for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from spark_jobs.arrays import FloatArray

Dimensions = tuple[int, ...]
"""The dimensions of a table, by number, ascending."""


def consistent(
    tables: Mapping[Dimensions, FloatArray], sizes: Sequence[int], costs: Mapping[Dimensions, float]
) -> dict[Dimensions, FloatArray]:
    """The least-squares estimates of all tables.

    Args:
        tables: unbiased tables, whose last axes are their dimensions.
        sizes: the number of groups of every dimension.
        costs: the cost of each table, relative to the others.
    """
    components: dict[Dimensions, FloatArray] = {}
    for part in dict.fromkeys(part for table in tables for part in subsets(table)):
        weights = {
            table: costs[table] ** 2 / math.prod(sizes[one] for one in table if one not in part)
            for table in tables
            if set(part) <= set(table)
        }
        estimates = [weight * _component(tables[table], table, part) for table, weight in weights.items()]
        components[part] = np.sum(estimates, axis=0) / sum(weights.values())
    return {table: _assembled(components, table, sizes) for table in tables}


def subsets(table: Dimensions) -> list[Dimensions]:
    """All subsets of the dimensions of a table, none and all of them included."""
    return [part for size in range(len(table) + 1) for part in combinations(table, size)]


def _component(values: FloatArray, table: Dimensions, part: Dimensions) -> FloatArray:
    """Sums over the dimensions that are not in ``part``, and what they have beyond their means along each one that is.

    The result keeps an axis of length 1 for a dimension that is summed over.
    """
    first = values.ndim - len(table)
    for place, one in enumerate(table):
        along = first + place
        if one in part:
            values = values - values.mean(axis=along, keepdims=True)
        else:
            values = values.sum(axis=along, keepdims=True)
    return values.reshape((*values.shape[:first], *(values.shape[first + table.index(one)] for one in part)))


def _assembled(components: Mapping[Dimensions, FloatArray], table: Dimensions, sizes: Sequence[int]) -> FloatArray:
    leading = components[()].shape
    total = np.zeros((*leading, *(sizes[one] for one in table)))
    for part in subsets(table):
        spread = math.prod(sizes[one] for one in table if one not in part)
        shape = tuple(sizes[one] if one in part else 1 for one in table)
        total += components[part].reshape((*leading, *shape)) / spread
    return total
