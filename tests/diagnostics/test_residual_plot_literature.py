"""What PriRP got wrong (Chen et al. 2016, section III; Chen 2018, algorithms 9 and 10), beside what is shipped."""

import math

import numpy as np
import pytest

from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import residual_plot
from spark_jobs.diagnostics.residual_plot.columns import in_whole_rows, on_the_simplex
from spark_jobs.diagnostics.residual_plot.measurement import bounds_share
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ResidualCounts


def published_loss_of_coverage(rows_times_epsilon):
    """Theorem 9 there, at k = 10 and beta = 0.05."""
    return 8 * (math.log(9) + math.log(40)) / rows_times_epsilon


def test_470_is_for_one_bound_and_two_share_it():
    assert published_loss_of_coverage(470) == pytest.approx(0.1, abs=0.001)
    assert published_loss_of_coverage(470 / 2) == pytest.approx(0.2, abs=0.001)
    assert published_loss_of_coverage(940 / 2) == pytest.approx(0.1, abs=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_bounds_lose_less_than_a_tenth_of_the_rows_in_nine_plots_of_ten(neighbours):
    """Of all three bounds, at 1,000 rows times epsilon (2,000 where a row is replaced), and a seventh of epsilon."""
    rows = 1000 if neighbours is Neighbours.ADD_REMOVE else 2000
    assert bounds_share(rows, epsilon=1.0, neighbours=neighbours) < 0.15
    random = np.random.default_rng(3)
    fitted, residual = random.uniform(0, 50, rows), random.normal(size=rows)
    statistic, lost = ResidualCounts.from_arrays(fitted, residual), []
    for seed in range(200):
        box = residual_plot.measure(statistic, epsilon=1, neighbours=neighbours, noise=SeededNoise(seed)).box
        inside = (np.abs(residual) <= box.residual[-1], (fitted >= box.fitted[0]) & (fitted <= box.fitted[-1]))
        lost.append(0.95 - min(part.mean() for part in inside))
    assert (np.array(lost) <= 0.1).mean() >= 0.88


def test_searches_end_where_a_doubling_loop_would_not():
    class Lifted(SeededNoise):
        """Noise that puts every threshold out of reach, as equal scales do now and then."""

        def laplace(self, values, *, epsilon, l1_sensitivity):
            drawn = super().laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)
            return drawn + 10**9 if np.size(values) == 1 else drawn

    statistic = ResidualCounts.from_arrays([1.0] * 50, [0.5] * 50)
    found = residual_plot.measure(statistic, epsilon=1, noise=Lifted(1)).box
    assert found.residual[-1] == found.fitted[-1] == -found.fitted[0] == 2.0**60


def test_clipping_and_rounding_a_sparse_grid_adds_rows_and_the_nearest_counts_do_not():
    exact = np.zeros((64, 64), dtype=np.int64)
    exact[30:34, 30:34] = 10
    clipped, kept = [], []
    for seed in range(20):
        noisy = SeededNoise(seed).laplace(exact, epsilon=1, l1_sensitivity=1).astype(float)
        clipped.append(np.round(np.maximum(noisy, 0)).sum())
        kept.append(in_whole_rows(on_the_simplex(noisy, float(exact.sum())), int(exact.sum())).sum())
    added = (np.mean(clipped) - exact.sum()) / (exact == 0).sum()
    assert added == pytest.approx(math.exp(-1) / (1 - math.exp(-2)), abs=0.02)  # the mean of the noise's positive part
    assert set(kept) == {exact.sum()}


def test_the_middle_of_the_plot_has_points_where_the_rows_are():
    """Not a number of points in every cell that ignores its count, as printed: half of them would lie in the middle."""
    random = np.random.default_rng(2)
    statistic = ResidualCounts.from_arrays(random.uniform(0, 50, 3000), random.normal(size=3000))
    plot = residual_plot.release(statistic, epsilon=2, noise=SeededNoise(1))
    assert plot.points_fitted.size == plot.counts.sum() + plot.overflow == pytest.approx(3000, rel=0.06)
    inner = np.abs(plot.points_residual) < plot.residual_bound / 2
    exact = statistic.grid(6, 0, 2, 2)[0].sum() / 3000  # one standard deviation; the box has two, or a little more
    assert exact == pytest.approx(0.68, abs=0.03)
    assert 0.65 < inner.mean() < 0.9
