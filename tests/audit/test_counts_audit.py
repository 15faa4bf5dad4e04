from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.mechanisms.cells import equal_depth, noisy_cells, totals
from spark_jobs.mechanisms.prefix_sums import noisy_tree
from spark_jobs.mechanisms.trees import Tree
from tests.suites.audit import ADDED, REPLACED, Fault, SampledAudit
from tests.support.audit import log_ratio

pytestmark = [pytest.mark.audit, pytest.mark.slow]

EPSILON = Decimal(1)
TREE = Tree(cells=2, branching=2, root="noisy")
START, CUTS = np.array([0, 2, 4]), np.array([0, 1, 2, 4])
BASE = np.array([3, 0, 5, 1])
ROW, OTHER_ROW = np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1])


CELL_PAIRS = {ADDED: (BASE + ROW, BASE), REPLACED: (BASE + ROW, BASE + OTHER_ROW)}
# two labels, two cells each: a row is added, or changes its label (the worst that a replacement can do to two trees)
LABELS, WITH_A_ROW, FLIPPED = np.array([[[4, 1], [0, 6]], [[4, 2], [0, 6]], [[4, 1], [1, 6]]])
TREE_PAIRS = {ADDED: (WITH_A_ROW, LABELS), REPLACED: (WITH_A_ROW, FLIPPED)}
PLACED = "cells placed by noisy counts"


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


class TestTreesOfTwoLabels(SampledAudit):
    mechanisms = ("trees of two labels",)
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 81, 3000, 8000
    faults = {**SampledAudit.faults, "a level forgotten": Fault(noise={"missing_rows": 1}, relations=[ADDED])}

    def mechanism(self, mechanism, relation, noise, *, told=None):
        return trees_of(noise, told or relation, TREE_PAIRS[relation])


class TestCells(SampledAudit):
    mechanisms = {"noisy cells": cells_of, PLACED: placed_cells_of}
    claimed, at_least, seed, quick, thorough = EPSILON, 0.05, 84, 3000, 8000
    faults = {
        **SampledAudit.faults,
        "budget spent twice": Fault(planted={"again": 2 * EPSILON}, mechanisms=[PLACED]),
    }

    def mechanism(self, mechanism, relation, noise, *, told=None, **planted):
        return self.mechanisms[mechanism](noise, told or relation, CELL_PAIRS[relation], **planted)
