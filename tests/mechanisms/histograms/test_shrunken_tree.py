from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.histograms import shrunken_tree as module
from spark_jobs.mechanisms.histograms.halving_tree import HalvingTree
from spark_jobs.mechanisms.histograms.shrunken_tree import block_level, finest_in_blocks, flat_levels, line_levels
from spark_jobs.mechanisms.noise import SeededNoise
from tests.support.neighbouring import neighbouring
from tests.support.noises import worst_loss


def release(counts, *, seed=1, epsilon="1", **options):
    return release_histogram(counts, epsilon=epsilon, noise=SeededNoise(seed), method="shrunken_tree", **options)


def test_lines_are_measured_from_a_few_nodes_to_the_finest_that_are_worth_it():
    tree = HalvingTree.over((4096,))
    # nodes of 32 cells are worth 8 and more; below them every third level gets a little
    assert line_levels(tree, 1024.0) == {5: 1.0, 7: 1.0, 10: 1.0, 2: pytest.approx(0.125), 0: module.MIN_WEIGHT}
    assert line_levels(tree, 1e6) == {0: 1.0, 3: 1.0, 7: 1.0, 10: 1.0}
    assert line_levels(HalvingTree.over((16,)), 1e6) == {0: 1.0}
    assert line_levels(HalvingTree.over((1,)), 1.0) == {0: 1.0}


def test_grids_have_blocks_unless_their_cells_are_worth_enough_or_few():
    tree = HalvingTree.over((64, 64))
    assert block_level(tree, 64.0 * 4096) == 0
    assert block_level(HalvingTree.over((4, 4)), 10.0) == 0
    assert tree.size(block_level(tree, 1000.0)) == module.MIN_BLOCKS
    assert tree.size(block_level(tree, 60_000.0)) == 512
    assert flat_levels(tree) == {0: 1.0, module.COARSE: module.COARSE_WEIGHT}
    assert flat_levels(HalvingTree.over((4, 4))) == {0: 1.0}


def test_a_block_is_measured_as_finely_as_its_noisy_count_allows():
    noisy = np.array([-5.0, 2.0, 6.0, 47.9, 48.0, 1e9])
    np.testing.assert_array_equal(finest_in_blocks(noisy, 4, 1.0), [4, 4, 3, 1, 0, 0])


@pytest.mark.sampled("shape", "neighbours")
@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("shape", [(12,), (4, 4)])
@pytest.mark.parametrize("facts", [{}, {"expected_rows": 400}])
def test_no_neighbour_costs_more_than_epsilon(monkeypatch, shape, neighbours, facts):
    monkeypatch.setattr(module, "MIN_BLOCKS", 2)
    monkeypatch.setattr(module, "TOP_NODES", 2)
    counts = np.random.default_rng(5).integers(0, 60, shape)

    def mechanism(table, noise):
        release_histogram(table, epsilon=1, neighbours=neighbours, noise=noise, method="shrunken_tree", **facts)

    losses = [worst_loss(mechanism, counts, other) for other in neighbouring(counts, neighbours)]
    assert 0.9 < max(losses) <= 1


def test_what_is_known_is_not_paid_for():
    grid = np.full((32, 32), 2)
    labels = ["blocks and coarser levels", "levels within blocks"]
    paid = release(grid)
    assert [event.label for event in paid.spendings] == ["noisy total", *labels]
    assert paid.spendings[0].epsilon == Decimal("0.01")
    assert paid.epsilon == 1
    known = release(grid, expected_rows=2000)
    assert [event.label for event in known.spendings] == labels
    assert [event.label for event in release(np.arange(50), expected_rows=1000).spendings] == ["levels of the tree"]
    public = release(grid, public_total=True, neighbours=Neighbours.REPLACE_ONE)
    assert public.cells.sum() == pytest.approx(grid.sum())


@pytest.mark.parametrize("counts", [np.zeros((32, 32), int), np.array([10**9]), np.array([0, 10**15, 0])])
def test_extreme_tables_give_finite_counts_of_no_negative_cell(counts):
    cells = release(counts, epsilon="0.01").cells
    assert np.isfinite(cells).all()
    assert (cells >= 0).all()


def test_atoms_and_straight_lines_cost_less_noise_than_a_hierarchy():
    atoms = np.zeros(4096, int)
    atoms[[5, 900, 3000]] = [4000, 90_000, 6000]
    slope = np.arange(4096) // 20
    for counts in (atoms, slope):
        errors = {
            name: np.mean(
                [
                    np.square(np.cumsum(released.cells - counts)).mean()
                    for released in (
                        release_histogram(counts, epsilon="0.1", noise=SeededNoise(seed), method=name)
                        for seed in range(6)
                    )
                ]
            )
            for name in ("shrunken_tree", "hb")
        }
        assert errors["shrunken_tree"] < errors["hb"] / 1.5
