"""Pruning of hierarchies: what it answers, and its exact privacy loss along a path."""

from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.meter import BudgetMeter, BudgetOverspent
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.streams.pruning import levels_above, node_noise, refined_levels, refined_nodes
from tests.support.flawed.pruning import fresh_threshold_tests
from tests.support.noises import Still
from tests.support.pruning_loss import THRESHOLD, worst_path_loss
from tests.support.sparse_vector_loss import RecordingNoise, geometric_mass, tail

BOTH = pytest.mark.parametrize("neighbours", Neighbours)


def prune(counts, *, epsilon="1", noise=None, neighbours=Neighbours.ADD_REMOVE, **more):
    return refined_nodes(
        counts, threshold=THRESHOLD, epsilon=epsilon, neighbours=neighbours, noise=noise or SeededNoise(1), **more
    )


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "levels"), [("0.1", 11), ("1", 11), ("3", 11), ("8", 11), ("3", 2), ("8", 4), ("1", 1)]
)
@BOTH
def test_loss_along_a_path_is_within_epsilon(epsilon, levels, neighbours):
    of_node, step = node_noise(Decimal(epsilon), neighbours, levels=levels)
    paths = 1 if neighbours is Neighbours.ADD_REMOVE else 2
    loss = paths * worst_path_loss(1 / float(of_node), step, most=levels)
    assert 0.3 * float(epsilon) < loss <= float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", ["2.4", "4", "9"])
def test_the_loss_of_steps_of_one_is_that_of_the_proof(epsilon):
    """It is attained, so that a larger epsilon of a node would lose too much."""
    of_node, step = node_noise(Decimal(epsilon), Neighbours.ADD_REMOVE, levels=100)
    assert step == 1
    assert worst_path_loss(1 / float(of_node), step, most=40) == pytest.approx(
        2 * float(of_node) + np.log1p(np.exp(-float(of_node))), abs=1e-6
    )


@BOTH
def test_what_is_refined_is_exact_at_a_large_epsilon(neighbours):
    counts = np.random.default_rng(2).poisson(0.7, 64)
    answers = refined_nodes(counts, threshold=0, epsilon="1e6", neighbours=neighbours, noise=SeededNoise(3))
    assert [each.tolist() for each in answers] == [(level > 0).tolist() for level in levels_above(counts, 2)]


@pytest.mark.parametrize("fault", ["halved noise", "no decay"])
def test_faults_are_convicted(fault):
    of_node, step = node_noise(Decimal(1), Neighbours.ADD_REMOVE, levels=11)
    scale = 1 / float(of_node)
    broken = (scale / 2, step) if fault == "halved noise" else (scale, 0)
    assert worst_path_loss(*broken) > 1.2


@BOTH
def test_noise_asked_for_is_that_of_the_proof(neighbours):
    noise = RecordingNoise()
    prune(np.ones(16, np.int64), noise=noise, neighbours=neighbours)
    of_node, _ = node_noise(Decimal(1), neighbours, levels=4)
    assert noise.scales == pytest.approx([1 / float(of_node)] * 4)
    assert noise.scales[0] >= (2 * np.e - 1) / (np.e - 1) * (1 if neighbours is Neighbours.ADD_REMOVE else 2)


def test_published_pruning_loses_more_with_every_level():
    noise = RecordingNoise()
    fresh_threshold_tests([0], threshold=80, epsilon=1, noise=noise)
    scale = noise.scales[0]
    support, mass = geometric_mass(scale, 400)
    passes = [float((mass * tail(scale, support + gap)).sum()) for gap in (80, 79)]
    per_level = np.log(passes[1] / passes[0])
    assert per_level == pytest.approx(0.488, abs=0.01)
    assert 7 * per_level > 3.3  # eight levels, of which the leaves are not asked; it claims 1


def test_full_branches_are_refined_and_empty_ones_are_not():
    counts = np.zeros(64, np.int64)
    counts[5] = 100_000
    drawn = [prune(counts, noise=SeededNoise(seed)) for seed in range(100)]
    for answers in drawn:
        assert [bool(each[5 >> (6 - depth)]) for depth, each in enumerate(answers)] == [True] * 6
    refined = np.mean([sum(int(each.sum()) for each in answers) for answers in drawn])
    assert 6 <= refined < 10  # of 63


def test_nothing_below_a_node_that_is_not_refined_is_refined():
    random = np.random.default_rng(0)
    for seed in range(50):
        answers = prune(random.integers(0, 30, 37), noise=SeededNoise(seed), branching=3, epsilon="0.2")
        for above, below in itertools.pairwise(answers):
            assert not (below & ~np.repeat(above, 3)[: below.size]).any()


@BOTH
def test_tables_of_disjoint_rows_are_pruned_each_by_itself_and_trees_need_not_be_regular(neighbours):
    random = np.random.default_rng(1)
    leaves = random.integers(0, 60, (30, 6))
    # groups of one, three and two
    totals = [leaves.sum(axis=1, keepdims=True), np.add.reduceat(leaves, [0, 1, 4], axis=1)]
    options = {"threshold": 100, "epsilon": Decimal("0.2"), "neighbours": neighbours}
    parents = [np.zeros(3, dtype=int)]
    whole = refined_levels(totals, parents, noise=Still(), **options)
    _, step = node_noise(Decimal("0.2"), neighbours, levels=2)
    assert np.array_equal(whole[0], totals[0] > 100)
    assert np.array_equal(whole[1], (totals[1] - step > 100) & whole[0])
    assert 0 < whole[1].sum() < whole[1].size
    for table in range(30):
        one = refined_levels([each[table] for each in totals], parents, noise=Still(), **options)
        assert [each.tolist() for each in one] == [each[table].tolist() for each in whole]


def test_levels_hold_the_totals_of_their_cells():
    levels = levels_above(np.arange(7), 2)
    assert [level.tolist() for level in levels] == [[21], [6, 15], [1, 5, 9, 6]]
    assert levels_above(np.array([4]), 2) == []


@BOTH
def test_shapes_do_not_depend_on_the_counts(neighbours):
    shapes = [
        [each.shape for each in prune(counts, neighbours=neighbours)]
        for counts in (np.zeros(33, np.int64), np.full(33, 10**12), np.full(33, -5))
    ]
    assert shapes[0] == shapes[1] == shapes[2]


def test_meter_pays_once():
    meter = BudgetMeter("1")
    prune(np.ones(8, np.int64), epsilon="0.75", meter=meter)
    assert meter.remaining == Decimal("0.25")
    with pytest.raises(BudgetOverspent):
        prune(np.ones(8, np.int64), epsilon="0.75", meter=meter)


@pytest.mark.parametrize(
    ("counts", "branching", "error"),
    [([], 2, ValueError), ([[1, 2]], 2, ValueError), ([0.5, 1.0], 2, TypeError), ([1, 2], 1, ValueError)],
)
def test_bad_parameters_are_refused(counts, branching, error):
    with pytest.raises(error):
        prune(np.array(counts, dtype=float if error is TypeError else np.int64), branching=branching)
