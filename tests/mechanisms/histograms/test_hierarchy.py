import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms.hierarchy import Hierarchy, measured_cells, split_by, split_evenly
from spark_jobs.mechanisms.noise import SeededNoise, laplace_variance
from spark_jobs.mechanisms.trees import Tree, best_tree
from spark_jobs.papers.histograms.greedy import greedy_plan, mean_variance
from spark_jobs.papers.histograms.hierarchical import best_squares
from tests.support.noises import worst_loss

SHAPES = st.one_of(
    st.builds(Hierarchy.line, st.integers(1, 30), branching=st.integers(2, 6)),
    st.builds(Hierarchy.grid, st.tuples(st.integers(1, 7), st.integers(1, 7)), branching=st.integers(2, 4)),
)


def rows_of(hierarchy):
    """Each level as 0/1 rows over the cells."""
    columns = [hierarchy.nodes(column) for column in np.eye(hierarchy.order.size, dtype=np.int64)]
    return [np.stack(level, axis=1) for level in zip(*columns, strict=True)]


@st.composite
def measurements(draw):
    """A shape, a variance for each level (infinite: not measured; 0: an exact root), and readings."""
    hierarchy = draw(SHAPES)
    variances = [1.0, *(draw(st.sampled_from([0.3, 1.0, 5.0, math.inf])) for _ in range(hierarchy.levels - 1))]
    if hierarchy.levels > 1 and draw(st.booleans()):
        variances[-1] = 0.0
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes = [random.integers(-50, 50, len(level)).astype(float) for level in rows_of(hierarchy)]
    return hierarchy, variances, nodes


def dense(hierarchy, variances):
    """Maps readings of all levels to estimates: generalised least squares, an exact level by Lagrange's conditions."""
    rows = rows_of(hierarchy)
    noisy = [i for i, variance in enumerate(variances) if 0 < variance < math.inf]
    exact = [i for i, variance in enumerate(variances) if variance == 0]
    weighted = sum(rows[i].T @ rows[i] / variances[i] for i in noisy)
    held = np.concatenate([rows[i] for i in exact]) if exact else np.zeros((0, hierarchy.order.size))
    system = np.block([[weighted, held.T], [held, np.zeros((len(held), len(held)))]])
    inverse = np.linalg.inv(system)[: hierarchy.order.size]
    maps = [np.zeros((hierarchy.order.size, len(level))) for level in rows]
    for i in noisy:
        maps[i] = inverse[:, : hierarchy.order.size] @ rows[i].T / variances[i]
    for i in exact:
        maps[i] = inverse[:, hierarchy.order.size :]
    return maps


@given(measurements())
@settings(deadline=None)
def test_least_squares_is_that_of_dense_linear_algebra(measured):
    hierarchy, variances, nodes = measured
    readings = [None if math.isinf(variance) else node for variance, node in zip(variances, nodes, strict=True)]
    expected = sum(matrix @ node for matrix, node in zip(dense(hierarchy, variances), nodes, strict=True))
    np.testing.assert_allclose(hierarchy.least_squares(readings, variances), expected, atol=1e-8)


@given(measurements(), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_variances_are_those_of_dense_linear_algebra(measured, seed):
    hierarchy, variances, _ = measured
    weights = np.random.default_rng(seed).normal(size=hierarchy.order.size)
    maps = dense(hierarchy, variances)
    noisy = [i for i, variance in enumerate(variances) if 0 < variance < math.inf]
    expected = sum(variances[i] * np.sum((weights @ maps[i]) ** 2) for i in noisy)
    assert hierarchy.variance(weights, variances) == pytest.approx(expected, abs=1e-8)


@given(SHAPES)
@settings(deadline=None)
def test_a_row_lies_in_one_node_of_each_level(hierarchy):
    for level in rows_of(hierarchy):
        assert (level.sum(axis=0) == 1).all()
    assert len(rows_of(hierarchy)[-1]) == 1


def test_a_line_is_the_tree_of_prefix_sums():
    hierarchy, tree = Hierarchy.line(37, branching=4), Tree(cells=37, branching=4)
    counts = np.arange(37)
    for ours, theirs in zip(hierarchy.nodes(counts), tree.nodes(counts), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(
    st.decimals("0.000001", "1000000", places=6).map(Decimal),
    st.lists(st.integers(0, 100), min_size=1, max_size=8).filter(any),
)
def test_a_split_budget_is_the_whole_budget(epsilon, weights):
    shares = [Decimal(weight) / sum(weights) for weight in weights]
    parts = split_by(epsilon, [share.quantize(Decimal("1e-6"), rounding="ROUND_FLOOR") for share in shares])
    assert sum(parts) == epsilon
    assert min(parts) >= 0
    assert sum(split_evenly(epsilon, len(weights))) == epsilon


@pytest.mark.parametrize(("neighbours", "row"), [(Neighbours.ADD_REMOVE, 0), (Neighbours.REPLACE_ONE, 1)])
def test_levels_cost_what_they_say(neighbours, row):
    hierarchy = Hierarchy.grid((4, 4), branching=2)
    counts = np.full((4, 4), 5)
    neighbour = counts.copy()
    neighbour[3, 3] += 1
    neighbour[0, 0] -= row

    def mechanism(table, noise):
        epsilons = (Decimal("0.5"), Decimal("0.25"), Decimal("0.25"))
        measured_cells(hierarchy, table, epsilons=epsilons, neighbours=neighbours, noise=noise)

    # under replacement the root does not move
    assert worst_loss(mechanism, counts, neighbour) == (Decimal("0.75") if row else 1)


def test_a_public_total_is_kept_and_costs_nothing():
    counts = np.arange(16).reshape(4, 4)
    cells = measured_cells(
        Hierarchy.grid((4, 4), branching=2),
        counts,
        epsilons=(Decimal("0.5"), Decimal("0.5"), Decimal(0)),
        neighbours=Neighbours.REPLACE_ONE,
        noise=SeededNoise(1),
        public_total=True,
    )
    assert cells.sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize("cells", [4, 16, 64, 256])
@pytest.mark.parametrize("public_total", [False, True])
def test_the_objective_of_the_greedy_plan_is_the_mean_variance_of_prefixes(cells, public_total):
    branching = 4
    hierarchy = Hierarchy.line(cells, branching=branching)
    fanouts = [branching] * (hierarchy.levels - 1)
    shares = [0.4, 0.0, 0.35, 0.15, 0.1][: hierarchy.levels]
    variances = [2 / share**2 if share else math.inf for share in shares]
    variances[-1] = 0.0 if public_total else variances[-1]
    prefixes = np.tril(np.ones((cells, cells)))
    expected = np.mean([hierarchy.variance(prefix, variances) for prefix in prefixes])
    assert mean_variance(shares, fanouts, public_total) == pytest.approx(expected)


@pytest.mark.parametrize("cells", [1, 2, 3, 16, 100, 1000, 4096, 100_000])
@pytest.mark.parametrize("public_total", [False, True])
def test_a_greedy_plan_shares_one_budget(cells, public_total):
    plan = greedy_plan(cells, public_total=public_total)
    hierarchy = Hierarchy.line(cells, branching=plan.branching)
    assert len(plan.shares) == hierarchy.levels
    assert 0 < sum(plan.shares) <= 1
    assert plan.shares[0] > 0
    assert not (public_total and cells > 1 and plan.shares[-1] > 0)


@pytest.mark.parametrize("cells", [16, 256, 1024, 4096])
def test_unequal_shares_come_near_the_best_tree_of_equal_ones(cells):
    tree = best_tree(cells)
    equal = tree.prefix_variances[1:].mean() * 2 * tree.measured**2
    assert greedy_plan(cells).mean_variance <= 1.05 * equal


def test_a_large_grid_is_worth_a_hierarchy_and_a_small_one_is_not():
    assert best_squares(8, 8)[1] == 1
    assert best_squares(256, 256)[1] > 1


@pytest.mark.slow
def test_estimates_have_the_variance_that_is_computed():
    hierarchy = Hierarchy.line(9, branching=3)
    epsilons = (Decimal("0.4"), Decimal("0.3"), Decimal("0.3"))
    variances = [laplace_variance(1 / float(epsilon)) for epsilon in epsilons]
    noise, counts, weights = SeededNoise(5), np.arange(9), np.array([1, 1, 1, 1, 1, 0, 0, 0, 0.0])
    options = {"epsilons": epsilons, "neighbours": Neighbours.ADD_REMOVE, "noise": noise}
    errors = [weights @ (measured_cells(hierarchy, counts, **options) - counts) for _ in range(4000)]
    # five standard errors of a variance whose kurtosis is below that of one Laplace variable
    assert np.var(errors) == pytest.approx(hierarchy.variance(weights, variances), rel=5 * (5 / 4000) ** 0.5)
