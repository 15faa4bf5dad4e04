import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms import codec
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.prefix_sums import NoisyTree, monotone, noisy_tree, rows_changed
from spark_jobs.mechanisms.trees import Tree, best_tree

BOTH = pytest.mark.parametrize("neighbours", list(Neighbours))
SHAPES = [
    Tree(cells=cells, branching=branching, root=root)
    for cells in (1, 2, 5, 8)
    for branching in (2, 3)
    for root in ("noisy", "absent", "public")
]


def changes(cells, neighbours):
    """Every way in which neighbouring tables' counts of one class may differ."""
    rows = np.eye(cells, dtype=np.int64)
    if neighbours is Neighbours.ADD_REMOVE:
        return list(rows)
    return [new - old for old, new in itertools.product(rows, rows)]


def vector(tree, counts):
    return np.concatenate(tree.nodes(counts))


@BOTH
@pytest.mark.parametrize("tree", SHAPES, ids=str)
def test_brute_force_finds_the_sensitivity_and_no_more(tree, neighbours):
    base = np.arange(tree.cells) * 3 + 5
    distances = [
        np.abs(vector(tree, base + change) - vector(tree, base)).sum() for change in changes(tree.cells, neighbours)
    ]
    claimed = tree.measured * rows_changed(neighbours)
    assert max(distances) <= claimed
    if neighbours is Neighbours.ADD_REMOVE:
        assert max(distances) == claimed


@pytest.mark.parametrize("tree", [shape for shape in SHAPES if shape.root != "public"], ids=str)
def test_two_labels_of_a_replaced_row_change_by_no_more_than_twice_the_levels(tree):
    base = np.arange(tree.cells) * 3 + 5
    places = list(itertools.product((0, 1), range(tree.cells)))
    worst = 0
    for (old_label, old), (new_label, new) in itertools.product(places, places):
        counts = np.stack([base, base])
        counts[old_label, old] -= 1
        counts[new_label, new] += 1
        worst = max(worst, sum(np.abs(vector(tree, row) - vector(tree, base)).sum() for row in counts))
    assert worst == 2 * tree.measured


@BOTH
def test_noise_has_the_scale_of_the_sensitivity(neighbours):
    tree = Tree(cells=8, branching=2)
    noisy = noisy_tree(
        np.zeros(8, dtype=np.int64), tree=tree, epsilon="0.5", neighbours=neighbours, noise=SeededNoise(1)
    )
    assert noisy.scale == pytest.approx(4 * rows_changed(neighbours) / 0.5)


def test_estimates_are_unbiased_with_the_computed_variances():
    tree, copies = Tree(cells=23, branching=3, root="noisy"), 4000
    counts, noise = np.arange(23) ** 2, SeededNoise(11)
    drawn = [
        noisy_tree(counts, tree=tree, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=noise) for _ in range(copies)
    ]
    errors = np.stack([one.prefix_counts() for one in drawn])[:, 1:] - np.cumsum(counts)
    stddev = np.sqrt(drawn[0].prefix_variances()[1:])
    limit = stats.norm.isf(1e-6 / 23)
    assert (np.abs(errors.mean(axis=0)) < limit * stddev / math.sqrt(copies)).all()
    # noise with a kurtosis of 6 at most: the variance of a mean of squares is below 5 / copies
    assert (np.abs((errors**2).mean(axis=0) / stddev**2 - 1) < limit * math.sqrt(5 / copies)).all()
    assert drawn[0].range_variance(0, 10) == pytest.approx(drawn[0].prefix_variances()[10])


def test_a_public_total_is_met_exactly():
    counts = np.arange(40)
    tree = best_tree(40, public_total=True)
    noisy = noisy_tree(counts, tree=tree, epsilon=1, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(5))
    assert noisy.prefix_counts()[-1] == pytest.approx(counts.sum())
    assert noisy.prefix_variances()[-1] == pytest.approx(0, abs=1e-9)


def test_a_total_is_not_public_where_rows_come_and_go():
    with pytest.raises(ValueError, match="REPLACE_ONE"):
        noisy_tree(
            np.zeros(4, dtype=np.int64),
            tree=Tree(cells=4, branching=2, root="public"),
            epsilon=1,
            neighbours=Neighbours.ADD_REMOVE,
            noise=SeededNoise(1),
        )


def test_counts_of_another_grid_are_refused():
    with pytest.raises(ValueError, match="counts"):
        noisy_tree(
            np.zeros(5, dtype=np.int64),
            tree=Tree(cells=4, branching=2),
            epsilon=1,
            neighbours=Neighbours.ADD_REMOVE,
            noise=SeededNoise(1),
        )


@pytest.mark.parametrize("tree", SHAPES, ids=str)
def test_json_keeps_everything(tree):
    noisy = noisy_tree(
        np.arange(tree.cells), tree=tree, epsilon="0.7", neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(2)
    )
    again = codec.decode(NoisyTree, json.loads(json.dumps(codec.encode(noisy))))
    assert again.tree == noisy.tree
    np.testing.assert_array_equal(again.counts(), noisy.counts())
    np.testing.assert_array_equal(again.prefix_variances(), noisy.prefix_variances())


@given(
    truth=st.lists(st.integers(0, 100), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
    scale=st.floats(0.1, 100),
)
@settings(deadline=None)
def test_monotone_is_monotone_in_range_and_never_farther_from_the_truth(truth, seed, scale):
    exact = np.concatenate([[0.0], np.cumsum(truth)])
    noisy = exact + scale * np.random.default_rng(seed).normal(size=exact.size)
    for upper in (None, exact[-1]):
        fitted = monotone(noisy, upper=upper)
        assert (np.diff(fitted) >= 0).all()
        assert fitted[0] == 0
        assert fitted[-1] <= (math.inf if upper is None else upper)
        assert np.linalg.norm(fitted - exact) <= np.linalg.norm(noisy - exact) + 1e-9


@given(truth=st.lists(st.integers(0, 100), min_size=1, max_size=30))
def test_monotone_leaves_counts_alone(truth):
    exact = np.concatenate([[0.0], np.cumsum(truth)])
    np.testing.assert_array_equal(monotone(exact), exact)
