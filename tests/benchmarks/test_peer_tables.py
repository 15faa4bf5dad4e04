"""The benchmark of other libraries' tables measures errors right, and keeps what its bounds allow."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.peer_tables import GROUPS, bounded, error_of, means_of, ours_of, rows_by_group, zipf_rows


def test_errors_are_root_mean_squares_over_releases_and_groups():
    exact = np.array([0.0, 1.0])
    assert error_of([[0.0, 1.0], [3.0, 5.0]], exact) == pytest.approx(np.sqrt((9 + 16) / 4))


def test_means_are_sums_over_counts_within_the_range():
    [means] = means_of([[[10, -2], [5, 7], [20, 0]]])
    assert means.tolist() == [[0.5, 1.0], [1.0, 0.0]]


def test_a_unit_keeps_as_many_rows_as_its_bound_allows_and_no_fewer():
    random = np.random.default_rng(1)
    unit, group = zipf_rows(random, 300)
    assert 0 <= group.min() <= group.max() < GROUPS
    sizes = np.bincount(unit)
    for limit in (1, 3, 50):
        kept = bounded(unit, limit, random)
        assert np.array_equal(np.bincount(unit[kept], minlength=300), np.minimum(sizes, limit))
        assert np.unique(kept).size == kept.size


def test_our_release_is_of_the_rows_that_others_get():
    random = np.random.default_rng(2)
    group, values = rows_by_group(random, 500)
    count, *means = ours_of(group, values, random)
    exact = [[one[group == place].mean() for place in range(GROUPS)] for one in values]
    assert np.abs(count - 500).max() < 40
    assert np.abs(np.array(means) - exact).max() < 0.08
