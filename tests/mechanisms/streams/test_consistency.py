from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy
from spark_jobs.mechanisms.streams.consistency import consistent_counts
from spark_jobs.mechanisms.trees import Tree

LINES = st.builds(Hierarchy.line, st.integers(1, 11), branching=st.integers(2, 4))


@st.composite
def of_any_groups(draw):
    """Groups of different sizes, in groups of different sizes, under one root."""
    children = [np.array(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))]
    while children[-1].size > 1:
        size = draw(st.integers(2, children[-1].size))
        whole, rest = divmod(children[-1].size, size)
        children.append(np.array([size] * whole + [rest] * (rest > 0)))
    return Hierarchy(order=np.arange(children[0].sum()), children=tuple(children))


HIERARCHIES = st.one_of(LINES, of_any_groups())


def sizes_of(hierarchy):
    return [*(len(each) for each in reversed(hierarchy.children)), hierarchy.order.size]


def drawn_for(hierarchy, seed, tables=3):
    """Readings, variances, and nodes below which nothing is measured; a node below such a one is one, too."""
    random, sizes = np.random.default_rng(seed), sizes_of(hierarchy)
    readings = [random.normal(3, 10, (tables, size)) for size in sizes]
    variances = [random.uniform(0.1, 50, (tables, size)) for size in sizes]
    ends, above = [], np.zeros((tables, 1), dtype=bool)
    for size, children in zip(sizes[:-1], reversed(hierarchy.children), strict=True):
        ends.append(above | (random.random((tables, size)) < 0.3))
        above = np.repeat(ends[-1], children, axis=1)
    return readings, variances, ends


def consistent(readings, variances, hierarchy, ends):
    """The consistent counts of each level."""
    leaves = np.zeros(readings[-1].shape, dtype=bool)
    every = (np.concatenate(levels, axis=1) for levels in (readings, variances, [*ends, leaves]))
    measured, spread, last = every
    found = consistent_counts(measured, spread, hierarchy=hierarchy, ends=last)
    return np.split(found, np.cumsum(sizes_of(hierarchy))[:-1], axis=1)


def design(hierarchy, ends):
    """For one table: the deepest measured nodes, as columns, and every measured node's row of sums over them."""
    below = [[(depth, node)] for depth, node in [(len(ends), leaf) for leaf in range(hierarchy.order.size)]]
    levels = [below]
    for depth in range(len(ends) - 1, -1, -1):
        stops = np.cumsum(hierarchy.children[len(ends) - 1 - depth])
        starts = np.append(0, stops[:-1])
        sums = [[*chain(*levels[0][a:b])] for a, b in zip(starts, stops, strict=True)]
        levels.insert(0, [[(depth, node)] if ends[depth][node] else each for node, each in enumerate(sums)])
    leaves = levels[0][0]
    rows, unmeasured = [], set()
    for depth, level in enumerate(levels):
        for node, held in enumerate(level):
            if all(leaf in leaves for leaf in held):
                rows.append(((depth, node), [float(leaf in held) for leaf in leaves]))
            else:
                unmeasured.add((depth, node))
    return rows, unmeasured


@given(HIERARCHIES, st.integers(0, 10**6))
def test_counts_are_the_nearest_that_add_up_and_are_not_negative(hierarchy, seed):
    readings, variances, ends = drawn_for(hierarchy, seed)
    found = consistent(readings, variances, hierarchy, ends)
    for table in range(3):
        rows, unmeasured = design(hierarchy, [each[table] for each in ends])
        places = [place for place, _ in rows]
        weights = np.array([variances[depth][table, node] for depth, node in places]) ** -0.5
        wanted = np.array([readings[depth][table, node] for depth, node in places])
        matrix = np.array([row for _, row in rows])
        leaves, _ = nnls(matrix * weights[:, None], wanted * weights)
        expected = matrix @ leaves
        assert [found[depth][table, node] for depth, node in places] == pytest.approx(expected, abs=1e-7)
        assert all(found[depth][table, node] == 0 for depth, node in unmeasured)


@pytest.mark.parametrize(("cells", "branching"), [(8, 2), (27, 3), (10, 4)])
def test_where_nothing_is_negative_it_is_least_squares(cells, branching):
    # counts far from 0, one variance: what trees of counts do
    random, tree = np.random.default_rng(1), Tree(cells=cells, branching=branching)
    exact = tree.nodes(random.integers(900, 1100, cells))
    nodes = [level[None] + random.normal(0, 5, level.size) for level in exact]
    hierarchy = Hierarchy.line(cells, branching=branching)
    readings = np.concatenate(nodes[::-1], axis=1)
    found = consistent_counts(readings, np.ones_like(readings), hierarchy=hierarchy)
    assert found[:, -cells:] == pytest.approx(tree.least_squares(tuple(nodes)))


@given(HIERARCHIES, st.integers(0, 10**6))
def test_sums_hold_to_the_last_digit_and_scales_do_not_matter(hierarchy, seed):
    readings, variances, ends = drawn_for(hierarchy, seed)
    ends = [np.zeros_like(each) for each in ends]
    found = consistent(readings, variances, hierarchy, ends)
    for depth in range(len(ends)):
        assert np.array_equal(found[depth], hierarchy.sums(len(ends) - 1 - depth, found[depth + 1]))
    scaled = consistent(readings, [1e6 * each for each in variances], hierarchy, ends)
    assert found[-1] == pytest.approx(scaled[-1], abs=1e-6)
    assert min(each.min() for each in found) >= 0


def test_tables_do_not_touch_each_other():
    hierarchy = Hierarchy(order=np.arange(7), children=(np.array([1, 3, 1, 2]), np.array([2, 2]), np.array([2])))
    readings, variances, ends = drawn_for(hierarchy, 5, tables=4)
    whole = consistent(readings, variances, hierarchy, ends)
    for table in range(4):
        one = [[each[table : table + 1] for each in levels] for levels in (readings, variances, ends)]
        alone = consistent(one[0], one[1], hierarchy, one[2])
        assert [each[0].tolist() for each in alone] == [each[table].tolist() for each in whole]
