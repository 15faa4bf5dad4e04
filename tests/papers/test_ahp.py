import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.mechanisms.histograms import release_histogram
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.papers.histograms.ahp import best_cuts, cluster_cells

LINE = np.array([3, 0, 0, 40, 41, 0, 2, 7, 90, 4, 0, 0])
VALUES = st.lists(st.integers(-40, 400), min_size=1, max_size=12, unique=True).map(sorted).map(np.array)


def clusters_cost(starts, values, held, variance):
    """What the clusters that begin at ``starts`` cost, cell by cell."""
    cost = 0.0
    for start, end in zip(starts, [*starts[1:], values.size], strict=True):
        cells = np.repeat(values[start:end], held[start:end]).astype(float)
        cost += ((cells - cells.mean()) ** 2).sum() + variance / cells.size
    return cost


def least_cost(values, held, variance):
    """The least cost of any clusters, by trying every beginning of the last one."""
    best = [0.0]
    for end in range(1, values.size + 1):
        best.append(
            min(best[start] + clusters_cost([0], values[start:end], held[start:end], variance) for start in range(end))
        )
    return best[-1]


@given(VALUES, st.data())
def test_no_clusters_cost_less(values, data):
    held = np.array(data.draw(st.lists(st.integers(1, 5), min_size=values.size, max_size=values.size)))
    variance = data.draw(st.sampled_from([1e-3, 2.0, 800.0, 1e6]))
    starts = best_cuts(values.astype(float), held, variance)
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    found = clusters_cost(starts, values, held, variance)
    assert found == pytest.approx(least_cost(values, held, variance), rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_many_values_are_clustered_as_by_the_slow_way():
    values = np.unique(np.random.default_rng(1).integers(0, 10**6, 300))
    held = np.ones(values.size, dtype=int)
    for variance in (1e4, 1e8):
        starts = best_cuts(values.astype(float), held, variance)
        assert 1 < len(starts) < values.size
        found = clusters_cost(starts, values, held, variance)
        assert found == pytest.approx(least_cost(values, held, variance), rel=1e-9)


def test_cells_of_one_noisy_count_share_a_cluster_and_small_ones_are_zero():
    clusters = cluster_cells(np.array([5, -3, 0, 5, 1000, 2, 1001]), threshold=4.0, variance=2.0)
    assert clusters[0] == clusters[3]
    assert clusters[1] == clusters[2] == clusters[5] == 0
    assert clusters[4] >= clusters[0] > 0


def test_estimates_are_exact_without_noise_and_add_up_to_a_public_total():
    options = {"neighbours": Neighbours.REPLACE_ONE, "noise": SeededNoise(2), "method": "ahp"}
    made = release_histogram(LINE, epsilon=10**6, **options)
    np.testing.assert_allclose(made.cells, LINE)
    made = release_histogram(LINE, epsilon="0.1", public_total=True, **options)
    assert made.cells.sum() == pytest.approx(LINE.sum())


def test_few_levels_among_many_cells_cost_less_noise_than_noise_in_every_cell():
    counts = np.repeat([0, 100, 700], [400, 60, 52])
    errors = {
        name: np.mean([((release(name, counts, seed) - counts) ** 2).mean() for seed in range(5)])
        for name in ("ahp", "geometric")
    }
    assert errors["ahp"] < errors["geometric"] / 3


def release(name, counts, seed):
    return release_histogram(counts, epsilon="0.1", noise=SeededNoise(seed), method=name).cells
