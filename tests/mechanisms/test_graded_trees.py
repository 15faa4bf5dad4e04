import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.graded_trees import UNITS, GradedTree, best_graded_tree, graded_prefixes
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.trees import best_tree
from tests.support.noises import Still, worst_loss

REPLACED = Neighbours.REPLACE_ONE
SHAPES = [
    GradedTree(cells=cells, branching=branching)
    for cells, branching in [(2, 2), (3, 2), (5, 2), (8, 2), (9, 3), (23, 3), (40, 6), (40, 64)]
]
SHAPED = pytest.mark.parametrize("tree", SHAPES, ids=str)


def released(counts, tree, noise, epsilon="1"):
    return graded_prefixes(counts, tree=tree, epsilon=epsilon, neighbours=REPLACED, noise=noise, public_total=True)


def strategy(tree):
    """A row for each node, leaves first."""
    leaves = np.arange(tree.cells)
    return np.vstack(
        [
            (leaves // tree.branching**level == np.arange(nodes.size)[:, None]).astype(float)
            for level, nodes in enumerate(tree.weights)
        ]
    )


@SHAPED
def test_weights_add_up_on_every_path_and_grow_towards_the_ends(tree):
    path = sum(weights[np.arange(tree.cells) // tree.branching**level] for level, weights in enumerate(tree.weights))
    np.testing.assert_array_equal(path, UNITS)
    assert min(weights.min() for weights in tree.weights) >= 1
    top = tree.weights[-1]
    assert top[0] >= top[len(top) // 2]


@SHAPED
def test_brute_force_finds_a_loss_of_epsilon_and_no_more(tree):
    base, rows = np.arange(tree.cells) + 2, np.eye(tree.cells, dtype=np.int64)

    def mechanism(table, noise):
        released(table, tree, noise, epsilon="0.7")

    pairs = itertools.permutations([*rows[: -1 : max(1, tree.cells // 8)], rows[-1]], 2)
    losses = [worst_loss(mechanism, base + new - old, base) for old, new in pairs]
    assert max(losses) == Fraction("0.7")


@SHAPED
def test_estimates_and_variances_are_those_of_dense_least_squares(tree):
    generator = np.random.default_rng(tree.cells)
    variances = tuple(generator.uniform(0.5, 3, weights.size) for weights in tree.weights)
    readings = tuple(generator.normal(size=weights.size) for weights in tree.weights)
    rows, precision = strategy(tree), 1 / np.concatenate(variances)
    # least squares under the condition that all cells add up to the total
    information = (rows.T * precision) @ rows
    system = np.block([[information, np.ones((tree.cells, 1))], [np.ones((1, tree.cells)), np.zeros((1, 1))]])
    inverse = np.linalg.inv(system)
    wanted = inverse[:-1] @ np.append((rows.T * precision) @ np.concatenate(readings), 17.0)
    np.testing.assert_allclose(tree.least_squares(readings, variances, 17.0), wanted, atol=1e-9)
    covariance = inverse[:-1, :-1]
    sums = np.tril(np.ones((tree.cells, tree.cells)))
    np.testing.assert_allclose(tree.prefix_variances(variances), np.diag(sums @ covariance @ sums.T), atol=1e-8)


@SHAPED
def test_without_noise_the_counts_come_back(tree):
    counts = np.random.default_rng(2).integers(0, 50, tree.cells)
    made = released(counts, tree, Still())
    np.testing.assert_allclose(made.prefix_counts(), np.concatenate([[0], np.cumsum(counts)]), atol=1e-9)


@pytest.mark.slow
def test_estimates_are_unbiased_with_the_computed_variances():
    tree, copies, noise = GradedTree(cells=23, branching=3), 1500, SeededNoise(12)
    counts = np.arange(23)
    drawn = [released(counts, tree, noise) for _ in range(copies)]
    errors = np.stack([one.prefix_counts() for one in drawn])[:, 1:-1] - np.cumsum(counts)[:-1]
    variances = drawn[0].prefix_variances()[1:-1]
    assert (np.abs(errors.mean(axis=0)) < 6 * np.sqrt(variances / copies)).all()
    assert (np.abs((errors**2).mean(axis=0) / variances - 1) < 6 * math.sqrt(5 / copies)).all()
    assert drawn[0].prefix_counts()[-1] == pytest.approx(counts.sum())
    assert drawn[0].prefix_variances()[-1] == pytest.approx(0, abs=1e-9)


def test_on_the_papers_grid_the_mean_variance_is_below_a_thousand():
    # theorem 1 of the ECDF paper: 8,192; the best tree with equal shares: 1,033
    cells = 1 << 15
    made = released(np.zeros(cells, dtype=np.int64), best_graded_tree(cells), SeededNoise(1))
    assert made.prefix_variances()[1:].mean() < 989
    equal = best_tree(cells, public_total=True)
    assert equal.prefix_variances[1:].mean() * 8 * equal.measured**2 > 1032


def test_what_does_not_fit_is_refused():
    tree = GradedTree(cells=4, branching=2)
    counts = np.zeros(4, dtype=np.int64)
    with pytest.raises(ValueError, match="counts"):
        released(np.zeros(5, dtype=np.int64), tree, SeededNoise(1))
    with pytest.raises(ValueError, match="REPLACE_ONE"):
        graded_prefixes(
            counts, tree=tree, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1), public_total=True
        )
    with pytest.raises(ValueError, match="public_total"):
        graded_prefixes(counts, tree=tree, epsilon=1, neighbours=REPLACED, noise=SeededNoise(1), public_total=False)
    with pytest.raises(InvalidRequest):
        released(counts, tree, SeededNoise(1), epsilon=0)
    with pytest.raises(ValueError, match="cells"):
        GradedTree(cells=1, branching=2)
    with pytest.raises(ValueError, match="branching"):
        GradedTree(cells=4, branching=1)
