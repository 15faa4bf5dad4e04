import numpy as np
import pytest

from spark_jobs.mechanisms.histograms.halving_tree import HalvingTree

SHAPES = [(1,), (2,), (7,), (16,), (1, 1), (1, 9), (4, 4), (5, 3), (6, 17)]


@pytest.mark.parametrize("shape", SHAPES)
def test_levels_add_up_to_one_root(shape):
    tree, cells = HalvingTree.over(shape), np.arange(np.prod(shape)).reshape(shape)
    levels = tree.sums(cells)
    assert [level.shape for level in levels] == list(tree.shapes)
    assert [level.size for level in levels] == [tree.size(level) for level in range(tree.root + 1)]
    assert tree.size(tree.root) == 1
    assert {int(level.sum()) for level in levels} == {int(cells.sum())}


@pytest.mark.parametrize("shape", SHAPES)
def test_halves_are_joined_to_what_they_were(shape):
    tree = HalvingTree.over(shape)
    for level, values in enumerate(tree.sums(np.arange(1, np.prod(shape) + 1).reshape(shape))[:-1]):
        np.testing.assert_array_equal(tree.joined(level, *tree.halves(level, values)), values)


def test_axes_take_turns_and_the_last_one_begins():
    assert HalvingTree.over((4, 4)).axes == (1, 0, 1, 0)
    assert HalvingTree.over((2, 8)).axes == (1, 0, 1, 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_node_has_the_value_of_its_ancestor(shape):
    tree = HalvingTree.over(shape)
    root = tree.repeated(np.full(tree.shapes[-1], 7), above=tree.root, below=0)
    np.testing.assert_array_equal(root, np.full(shape, 7))
    if tree.root:
        parents = tree.sums(np.ones(shape))[1]
        named = tree.repeated(np.arange(parents.size).reshape(parents.shape), above=1, below=0)
        np.testing.assert_array_equal(np.bincount(named.reshape(-1)), parents.reshape(-1))
