from __future__ import annotations

import itertools
from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.continuous_noise import RESIDUAL_DELTA
from spark_jobs.mechanisms.meter import BudgetMeter
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.prefix_sums import noisy_tree
from spark_jobs.mechanisms.quantiles import (
    node_budgets,
    private_quantile,
    quantile_scores,
    quantile_sensitivity,
    quantile_target,
    recursive_medians,
    tree_quantiles,
)
from spark_jobs.mechanisms.trees import Tree
from tests.support.selection_loss import flip_probabilities, log_ratio

EPSILON = 0.6


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("levels", [1, 3, 7])
def test_node_budgets_of_a_path_sum_to_at_most_epsilon(neighbours, levels) -> None:
    budgets = node_budgets(Decimal("0.7"), levels, neighbours)
    nodes_seen = [1] + [1 if neighbours is Neighbours.ADD_REMOVE else 2] * (levels - 1)
    spent = sum(n * b for n, b in zip(nodes_seen, budgets, strict=True))
    assert Decimal("0.7") * (1 - Decimal("1e-20")) <= spent <= Decimal("0.7")


@pytest.mark.parametrize("cells", [[0] * 16, [5] * 16, [0, 900] + [0] * 14, [3]])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_recursive_medians_have_one_shape_whatever_the_data(cells, neighbours) -> None:
    found = recursive_medians(cells, levels=3, epsilon=1, neighbours=neighbours, noise=SecureNoise())
    assert found.thresholds.shape == (7,)
    assert np.all(np.diff(found.thresholds) >= 0)
    assert 0 <= found.thresholds[0] <= found.thresholds[-1] <= len(cells)
    assert 0 <= found.fallbacks <= 7


def test_recursive_medians_of_many_rows_are_their_quantiles() -> None:
    cells = np.full(256, 1000)
    found = recursive_medians(cells, levels=3, epsilon=3, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(3))
    assert np.abs(found.thresholds - 32 * np.arange(1, 8)).max() <= 4
    assert found.fallbacks == 0


def test_few_rows_fall_back_to_midpoints() -> None:
    found = recursive_medians(
        np.eye(1024, dtype=int).sum(axis=0),
        levels=8,
        epsilon="0.1",
        neighbours=Neighbours.REPLACE_ONE,
        noise=SeededNoise(3),
    )
    assert found.fallbacks > 0.7 * 255


def test_recursive_medians_spend_their_budget_and_residual_delta_once() -> None:
    meter = BudgetMeter(1, "1e-20")
    recursive_medians([1, 2], levels=2, epsilon=1, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(1), meter=meter)
    assert meter.remaining == 0
    assert meter.spent.delta == 4 * RESIDUAL_DELTA


def quantile_pairs(neighbours):
    unit = np.eye(3, dtype=int)
    for held in range(5):
        for chosen in itertools.combinations_with_replacement(range(3), held):
            table = np.bincount(np.array(chosen, dtype=int), minlength=3)
            if neighbours is Neighbours.ADD_REMOVE:
                yield from ((table, table + row) for row in unit)
            else:
                yield from ((table, table - unit[i] + row) for i in np.flatnonzero(table) for row in unit)


def quantile_loss(neighbours, level, *, less=0):
    target = quantile_target(level)
    options = {"epsilon": EPSILON, "sensitivity": quantile_sensitivity(target, neighbours) - less, "monotone": False}
    return max(
        log_ratio(*(flip_probabilities(quantile_scores(table, target), **options) for table in pair))
        for pair in quantile_pairs(neighbours)
    )


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("level", ["0", "0.25", "0.5", "0.9", "1"])
def test_scores_move_as_little_as_said_and_the_quantile_stays_within_epsilon(neighbours, level) -> None:
    target = quantile_target(level)
    moves = [
        np.abs(quantile_scores(a, target) - quantile_scores(b, target)).max() for a, b in quantile_pairs(neighbours)
    ]
    assert max(moves) <= quantile_sensitivity(target, neighbours)
    assert quantile_loss(neighbours, level) <= EPSILON * (1 + 1e-12)


def test_the_exact_loss_tells_the_sensitivity_of_the_wrong_relation() -> None:
    # an added row's sensitivity, 1 at the median, used for replaced ones, 2
    assert quantile_loss(Neighbours.REPLACE_ONE, "0.5", less=1) > EPSILON


def test_quantile_is_near_the_truth() -> None:
    cells = np.full(1000, 100)
    got = private_quantile(cells, level="0.9", epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SecureNoise())
    assert abs(got - 900) <= 3


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="levels"):
        recursive_medians([1], levels=0, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))
    for level in ("1.1", "-0.5", "0.1234567"):
        with pytest.raises(InvalidRequest, match="level"):
            private_quantile([1], level=level, epsilon=1, neighbours=Neighbours.ADD_REMOVE, noise=SeededNoise(1))


LEVELS = ["0", "0.01", "0.25", "0.5", "0.9", "1"]


def measured(counts, *, epsilon, neighbours=Neighbours.ADD_REMOVE, root="noisy", seed=1):
    tree = Tree(cells=len(counts), branching=4, root=root)
    return noisy_tree(np.array(counts), tree=tree, epsilon=epsilon, neighbours=neighbours, noise=SeededNoise(seed))


@pytest.mark.parametrize(("neighbours", "root"), [(Neighbours.ADD_REMOVE, "noisy"), (Neighbours.REPLACE_ONE, "public")])
def test_quantiles_of_a_tree_without_noise_are_those_of_the_rows(neighbours, root) -> None:
    counts = np.random.default_rng(5).integers(0, 40, 50)
    counts[0] = counts[-1] = 3
    rows = np.repeat(np.arange(50), counts)
    found = tree_quantiles(measured(counts, epsilon=10**7, neighbours=neighbours, root=root), LEVELS)
    wanted = np.quantile(rows, [float(level) for level in LEVELS], method="inverted_cdf")
    assert found.tolist() == wanted.astype(int).tolist()


@pytest.mark.parametrize("counts", [[0] * 33, [10**15] * 33, [0] * 32 + [5]])
@pytest.mark.parametrize("epsilon", ["0.001", "1"])
def test_quantiles_of_a_tree_rise_and_stay_in_range_whatever_the_counts(counts, epsilon) -> None:
    for seed in range(20):
        found = tree_quantiles(measured(counts, epsilon=epsilon, seed=seed), LEVELS)
        assert found.shape == (6,)
        assert (np.diff(found) >= 0).all()
        assert 0 <= found[0] <= found[-1] < 33


def test_quantiles_of_a_tree_are_near_where_rows_are_many() -> None:
    found = [tree_quantiles(measured([100] * 64, epsilon=1, seed=seed), ["0.5"])[0] for seed in range(50)]
    assert np.abs(np.array(found) - 31).max() <= 2


def test_a_level_of_a_tree_outside_its_bounds_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="level"):
        tree_quantiles(measured([1, 2], epsilon=1), ["1.5"])
