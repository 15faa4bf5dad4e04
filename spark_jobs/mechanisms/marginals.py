"""Least squares over noisy tables that count the same rows by different sets of dimensions.

Each table, by the dimensions in S, is measured on its own, with independent noise of one scale in all entries. The
table is a sum of components, one for each subset T of S: the part that depends on all dimensions of T together, beyond
what fewer of these dimensions explain. Components of different subsets are orthogonal, so that least squares over all
tables estimates each component by itself: in every table that contains T, the other dimensions are summed out and lower
components are removed by subtracting means along each dimension of T; the results are averaged with weights inverse to
their variances. With ``e`` the cost of a table and ``k_i`` the sizes of its dimensions, that variance is proportional
to ``prod k_i / e^2``, over the dimensions not in T. The estimate of a table is the sum of its components; an entry of a
component is spread evenly over the cells of the table that were summed in it.

Estimates are unbiased, and an estimated table summed over a dimension equals the estimate of the smaller table. All of
this is post-processing of measurements that are already paid for.
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
        tables: unbiased tables, by their dimensions, which are the last axes.
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
    """All subsets of the dimensions of a table, from the empty one to all dimensions."""
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
