import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.mechanisms.trees import Tree, best_tree

TREES = st.builds(
    Tree,
    cells=st.integers(1, 40),
    branching=st.integers(2, 9),
    root=st.sampled_from(["noisy", "absent", "public"]),
)


def measured_rows(tree):
    """The measured nodes as 0/1 rows over the cells: what dense linear algebra works on."""
    columns = [np.concatenate(tree.nodes(column)) for column in np.eye(tree.cells, dtype=np.int64)]
    return np.stack(columns, axis=1)


def dense_map(tree):
    """Matrix of the least-squares estimate: leaves from measured nodes and, last, the public total."""
    rows = measured_rows(tree).astype(float)
    ones = np.ones((1, tree.cells))
    if tree.root != "public":
        return np.hstack([np.linalg.pinv(rows), np.zeros((tree.cells, 1))])
    # minimise |rows x - y| subject to ones x = total: the conditions of Lagrange
    system = np.block([[rows.T @ rows, ones.T], [ones, np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.block([[rows.T, np.zeros((tree.cells, 1))], [np.zeros((1, len(rows))), 1]]))
    return solved[: tree.cells]


@given(tree=TREES, data=st.data())
@settings(deadline=None)
def test_least_squares_is_that_of_dense_linear_algebra(tree, data):
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    nodes = tuple(random.integers(-50, 50, level.size) for level in tree.nodes(np.zeros(tree.cells, dtype=np.int64)))
    total = float(random.integers(-50, 50)) if tree.root == "public" else None
    expected = dense_map(tree) @ np.concatenate([*nodes, [total or 0.0]])
    np.testing.assert_allclose(tree.least_squares(nodes, total=total), expected, atol=1e-8)


@given(tree=TREES, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_variances_are_those_of_dense_linear_algebra(tree, seed):
    noise_map = dense_map(tree)[:, :-1]
    covariance = noise_map @ noise_map.T
    prefixes = np.tril(np.ones((tree.cells + 1, tree.cells)), -1)
    np.testing.assert_allclose(
        tree.prefix_variances, np.einsum("ij,jk,ik->i", prefixes, covariance, prefixes), atol=1e-9
    )
    weights = np.random.default_rng(seed).normal(size=tree.cells)
    assert tree.variance(weights) == pytest.approx(weights @ covariance @ weights, abs=1e-9)


@given(tree=TREES, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_exact_nodes_give_back_the_counts(tree, seed):
    counts = np.random.default_rng(seed).integers(0, 1000, tree.cells)
    total = float(counts.sum()) if tree.root == "public" else None
    np.testing.assert_allclose(tree.least_squares(tree.nodes(counts), total=total), counts, atol=1e-9)


@given(tree=TREES, seed=st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_a_batch_is_each_of_its_members(tree, seed):
    random = np.random.default_rng(seed)
    levels = [level.size for level in tree.nodes(np.zeros(tree.cells, dtype=np.int64))]
    batch = tuple(random.normal(size=(3, size)) for size in levels)
    together = tree.least_squares(batch, total=7.0)
    for i in range(3):
        np.testing.assert_allclose(together[i], tree.least_squares(tuple(level[i] for level in batch), total=7.0))


@given(tree=TREES)
def test_a_row_lies_in_one_node_of_each_measured_level(tree):
    rows = measured_rows(tree)
    assert (rows.sum(axis=0) == tree.measured).all()


@pytest.mark.parametrize(
    ("cells", "branching", "mean_variance"),
    [(1024, 4, 174), (1024, 16, 184), (256, 16, 96)],
)
def test_mean_prefix_variance_at_epsilon_one_is_the_known_figure(cells, branching, mean_variance):
    tree = Tree(cells=cells, branching=branching)
    found = tree.prefix_variances[1:].mean() * 2 * tree.measured**2
    assert found == pytest.approx(mean_variance, abs=0.5)


def test_a_flat_histogram_has_the_variance_of_its_sums():
    flat = Tree(cells=1024, branching=1024, root="absent")
    assert flat.measured == 1
    assert flat.prefix_variances[1:].mean() * 2 == pytest.approx(1025)


def test_least_squares_beats_adding_nodes_up():
    # without inference a prefix is a sum of nodes: one for every 1 among the binary digits of its length
    nodes = np.array([int(i).bit_count() for i in range(1, 1025)])
    binary = Tree(cells=1024, branching=2)
    assert nodes.mean() * 2 * binary.measured**2 == pytest.approx(1210, abs=1)
    assert (binary.prefix_variances[1:] <= nodes + 1e-9).all()


@pytest.mark.parametrize("cells", [1, 2, 5, 16, 24, 100, 1000, 4096])
@pytest.mark.parametrize("public_total", [False, True])
def test_no_common_shape_beats_the_best_tree(cells, public_total):
    def cost(tree):
        return tree.prefix_variances.mean() * tree.measured**2

    roots = ["public"] if public_total else ["noisy", "absent"]
    common = [Tree(cells=cells, branching=b, root=root) for b in (2, 3, 4, 8, 16, max(2, cells)) for root in roots]
    assert cost(best_tree(cells, public_total=public_total)) <= min(map(cost, common))


@pytest.mark.parametrize("fields", [{"cells": 0}, {"branching": 1}, {"root": "maybe"}])
def test_an_impossible_shape_is_refused(fields):
    with pytest.raises(ValueError, match=next(iter(fields))):
        Tree(**{"cells": 4, "branching": 2, "root": "noisy", **fields})
