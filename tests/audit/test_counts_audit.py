from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.cells import equal_depth, noisy_cells, totals
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.prefix_sums import noisy_tree
from spark_jobs.mechanisms.trees import Tree
from tests.support.audit import Tampered, audit, convicts, keeps, log_ratio, samples

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
TREE = Tree(cells=2, branching=2, root="noisy")
START, CUTS = np.array([0, 2, 4]), np.array([0, 1, 2, 4])
BASE = np.array([3, 0, 5, 1])
ROW, OTHER_ROW = np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1])


def relations(added, replaced):
    pairs = [(Neighbours.ADD_REMOVE, added), (Neighbours.REPLACE_ONE, replaced)]
    return pytest.mark.parametrize(("neighbours", "pair"), pairs, ids=["added", "replaced"])


CELL_PAIRS = relations((BASE + ROW, BASE), (BASE + ROW, BASE + OTHER_ROW))
# two labels, two cells each: a row is added, or changes its label (the worst that a replacement can do to two trees)
LABELS, WITH_A_ROW, FLIPPED = np.array([[[4, 1], [0, 6]], [[4, 2], [0, 6]], [[4, 1], [1, 6]]])
TREE_PAIRS = relations((WITH_A_ROW, LABELS), (WITH_A_ROW, FLIPPED))


def repeated(once, pair):
    return (lambda table, count: np.array([once(table) for _ in range(count)])), *pair


def trees_of(noise, neighbours, pair):
    """A tree for each of two labels, both at the whole budget."""
    exact = [np.stack([np.concatenate(TREE.nodes(row)) for row in table]) for table in pair]

    def once(table):
        made = [noisy_tree(row, tree=TREE, epsilon=EPSILON, neighbours=neighbours, noise=noise) for row in table]
        nodes = np.stack([np.concatenate(tree.nodes) for tree in made])
        return log_ratio(nodes.ravel(), exact[0].ravel(), exact[1].ravel(), made[0].scale)

    return repeated(once, pair)


def cells_of(noise, neighbours, pair):
    def once(table):
        noisy = noisy_cells(table, CUTS, epsilon=EPSILON, neighbours=neighbours, noise=noise)
        return log_ratio(noisy.counts, *(totals(counts, CUTS) for counts in pair), noisy.scale)

    return repeated(once, pair)


def placed_cells_of(noise, neighbours, pair, *, again=EPSILON / 2):
    """Cells placed by half the budget, then counted by the other half (with the fault: by all of it)."""

    def once(table):
        place = noisy_cells(table, START, epsilon=EPSILON / 2, neighbours=neighbours, noise=noise)
        cuts = equal_depth(place.cuts, place.weights(), grid=4, cells=3)
        noisy = noisy_cells(table, cuts, epsilon=again, neighbours=neighbours, noise=noise)
        placing = log_ratio(place.counts, *(totals(counts, START) for counts in pair), place.scale)
        return placing + log_ratio(noisy.counts, *(totals(counts, cuts) for counts in pair), noisy.scale)

    return repeated(once, pair)


TREES = "trees of two labels"
NAMES = {cells_of: "noisy cells", placed_cells_of: "cells placed by noisy counts"}


@pytest.mark.sampled
@TREE_PAIRS
def test_trees_of_two_labels_keep_epsilon_and_use_it(neighbours, pair):
    found = audit(*trees_of(SecureNoise(), neighbours, pair), samples=samples(3000))
    assert keeps(found, TREES, relation=neighbours, claimed=EPSILON, at_least=0.05)


@pytest.mark.sampled
@CELL_PAIRS
@pytest.mark.parametrize("build", [cells_of, placed_cells_of])
def test_cells_keep_epsilon_and_use_it(build, neighbours, pair):
    found = audit(*build(SecureNoise(), neighbours, pair), samples=samples(3000))
    assert keeps(found, NAMES[build], relation=neighbours, claimed=EPSILON, at_least=0.05)


@pytest.mark.verify
@TREE_PAIRS
def test_trees_with_half_the_noise_are_convicted(neighbours, pair):
    noise = Tampered(source=SeededNoise(81), epsilon_factor=2)
    found = audit(*trees_of(noise, neighbours, pair), samples=samples(8000))
    assert convicts(found, TREES, relation=neighbours, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
def test_a_tree_that_forgets_a_level_is_convicted():
    noise = Tampered(source=SeededNoise(82), missing_rows=1)
    found = audit(*trees_of(noise, Neighbours.ADD_REMOVE, (WITH_A_ROW, LABELS)), samples=samples(8000))
    assert convicts(found, TREES, relation=Neighbours.ADD_REMOVE, claimed=EPSILON, fault="a level forgotten")


@pytest.mark.verify
def test_trees_calibrated_for_added_rows_are_convicted_where_a_label_changes():
    found = audit(*trees_of(SeededNoise(83), Neighbours.ADD_REMOVE, (WITH_A_ROW, FLIPPED)), samples=samples(8000))
    assert convicts(found, TREES, relation=Neighbours.REPLACE_ONE, claimed=EPSILON, fault="noise for an added row")


@pytest.mark.verify
@CELL_PAIRS
@pytest.mark.parametrize("build", [cells_of, placed_cells_of])
def test_cells_with_half_the_noise_are_convicted(build, neighbours, pair):
    noise = Tampered(source=SeededNoise(84), epsilon_factor=2)
    found = audit(*build(noise, neighbours, pair), samples=samples(8000))
    assert convicts(found, NAMES[build], relation=neighbours, claimed=EPSILON, fault="half the noise")


@pytest.mark.verify
@pytest.mark.parametrize("build", [cells_of, placed_cells_of])
def test_cells_calibrated_for_added_rows_are_convicted_where_one_is_replaced(build):
    pair = (BASE + ROW, BASE + OTHER_ROW)
    found = audit(*build(SeededNoise(85), Neighbours.ADD_REMOVE, pair), samples=samples(8000))
    relation, fault = Neighbours.REPLACE_ONE, "noise for an added row"
    assert convicts(found, NAMES[build], relation=relation, claimed=EPSILON, fault=fault)


@pytest.mark.verify
@CELL_PAIRS
def test_a_budget_spent_twice_is_convicted(neighbours, pair):
    mechanism = placed_cells_of(SeededNoise(86), neighbours, pair, again=2 * EPSILON)
    found = audit(*mechanism, samples=samples(8000))
    fault = "budget spent twice"
    assert convicts(found, NAMES[placed_cells_of], relation=neighbours, claimed=EPSILON, fault=fault)
