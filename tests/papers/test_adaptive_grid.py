import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.histograms import adaptive_grid as module
from spark_jobs.papers.histograms.adaptive_grid import cut_blocks, cut_into_blocks, pieces, sums
from tests.support.neighbouring import neighbouring
from tests.support.noises import Recording, worst_loss

SHAPES = st.one_of(st.tuples(st.integers(1, 40)), st.tuples(st.integers(1, 14), st.integers(1, 14)))


@given(SHAPES, st.floats(0, 1e7), st.data())
def test_parts_divide_blocks_and_blocks_divide_the_cells(shape, worth, data):
    blocks = cut_into_blocks(shape, worth)
    count = int(blocks.max()) + 1
    assert np.unique(blocks).size == count
    noisy = np.array(data.draw(st.lists(st.integers(-50, 5000), min_size=count, max_size=count)))
    cut = cut_blocks(blocks, noisy, 0.5)
    assert np.unique(cut.part).tolist() == list(range(cut.per_block.sum()))
    # parts of a block are consecutive, and no part reaches into another block
    block_of_part = np.repeat(np.arange(count), cut.per_block)
    np.testing.assert_array_equal(block_of_part[cut.part], blocks)
    assert (cut.per_block[noisy <= 0] == 1).all()


def test_sides_are_those_of_the_guideline():
    rows, epsilon, share = 10**6, 1.0, 0.5
    published = max(10, math.ceil(math.ceil(math.sqrt(rows * epsilon / 10)) / 4))
    blocks = cut_into_blocks((1000, 1000), rows * epsilon)
    assert int(blocks.max()) + 1 == published**2
    assert int(cut_into_blocks((1000, 1000), -5.0).max()) + 1 == 100
    noisy = np.full(published**2, 400)
    side = math.ceil(math.sqrt(400 * (1 - share) * epsilon / 5))
    assert set(cut_blocks(blocks, noisy, (1 - share) * epsilon).per_block) == {side**2}
    assert pieces(8.0, 1) == 4


def test_estimates_are_the_published_constrained_inference(monkeypatch):
    monkeypatch.setattr(module, "FIRST", 2)
    counts = np.random.default_rng(3).integers(0, 90, (8, 8))
    noise = Recording(source=SeededNoise(4))
    made = release_histogram(counts, epsilon="0.2", expected_rows=10, noise=noise, method="adaptive_grid")
    blocks = cut_into_blocks(counts.shape, 2.0)
    above, below = noise.given
    cut = cut_blocks(blocks, above, 0.1)
    a = 0.5
    ends = np.cumsum(cut.per_block)
    for block, (start, end) in enumerate(zip(ends - cut.per_block, ends, strict=True)):
        parts, m2 = below[start:end], end - start
        weight = a**2 * m2 / ((1 - a) ** 2 + a**2 * m2)
        joined = weight * above[block] + (1 - weight) * parts.sum()
        expected = parts + (joined - parts.sum()) / m2
        got = sums(np.rint(made.cells * 10**9).astype(int), cut.part)[start:end] / 10**9
        # equal noise in both levels; the lattice of two-sided geometric noise is the same at both
        np.testing.assert_allclose(got, expected, atol=1e-6)


@pytest.mark.sampled("shape", "neighbours")
@pytest.mark.slow
@pytest.mark.parametrize("shape", [(24,), (6, 6)])
@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("facts", [{}, {"expected_rows": 400}])
def test_no_neighbour_costs_more_than_epsilon_where_blocks_are_cut(monkeypatch, shape, neighbours, facts):
    monkeypatch.setattr(module, "FIRST", 2)
    counts = np.random.default_rng(5).integers(0, 60, shape)

    def mechanism(table, noise):
        release_histogram(table, epsilon=1, neighbours=neighbours, noise=noise, method="adaptive_grid", **facts)

    losses = [worst_loss(mechanism, counts, other) for other in neighbouring(counts, neighbours)]
    assert 0.9 < max(losses) <= 1


def test_what_is_known_is_not_paid_for():
    counts = np.arange(50)
    private = release_histogram(counts, epsilon=1, noise=SeededNoise(1), method="adaptive_grid")
    assert [event.label for event in private.spendings] == ["noisy total", "blocks", "parts of blocks"]
    assert private.spendings[0].epsilon == Decimal("0.01")
    expected = release_histogram(counts, epsilon=1, noise=SeededNoise(1), method="adaptive_grid", expected_rows=1000)
    assert [event.label for event in expected.spendings] == ["blocks", "parts of blocks"]
    known = release_histogram(
        counts,
        epsilon=1,
        noise=SeededNoise(1),
        method="adaptive_grid",
        public_total=True,
        neighbours=Neighbours.REPLACE_ONE,
    )
    assert known.cells.sum() == pytest.approx(counts.sum())


def test_estimates_are_exact_without_noise():
    for counts in (np.arange(300) ** 2, np.random.default_rng(1).integers(0, 9000, (16, 16))):
        made = release_histogram(counts, epsilon=10**6, noise=SeededNoise(1), method="adaptive_grid")
        np.testing.assert_allclose(made.cells, counts)
