"""The benchmark of other libraries' tables measures errors right, and keeps what its bounds allow."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import peer_tables
from benchmarks.peer_tables import (
    GROUPS,
    OURS,
    bounded,
    error_of,
    means_of,
    ours_of,
    ratio_of,
    rows_by_group,
    zipf_rows,
)


def test_errors_are_root_mean_squares_over_releases_and_groups():
    exact = np.array([0.0, 1.0])
    assert error_of([[0.0, 1.0], [3.0, 5.0]], exact) == pytest.approx(np.sqrt((9 + 16) / 4))


def test_a_ratio_of_errors_has_the_standard_error_of_repeated_samples():
    random = np.random.default_rng(3)
    samples = [ratio_of(random.laplace(0, 1, 500), random.laplace(0, 1.4, (10, 50))) for _ in range(400)]
    ratios, errors = np.array(samples).T
    assert ratios.mean() == pytest.approx(1.4, abs=4 * ratios.std() / 20)
    assert np.median(errors) == pytest.approx(ratios.std(), rel=0.2)


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


def test_reports_judge_the_errors_of_other_libraries_by_ours(monkeypatch, tmp_path):
    def figures_of(library, tables, folder, *, script):
        assert script == peer_tables.SCRIPT
        if "unit" in tables[0]:
            return [{"units": [[0.0] * GROUPS]} for _ in tables]
        if tables[0]["figures"] == ["mean"]:
            return [{"mean": [[0.0] * tables[0]["groups"]] * tables[0]["releases"]}]
        means = [[0.0] * GROUPS] * 3
        shared = {"shared": [[[1.0] * GROUPS, *means]]} if library == "tumult" else {}
        return [{"apart": [[[1.0] * GROUPS, *means]], **shared}]

    monkeypatch.setattr(peer_tables, "figures_of", figures_of)
    means, counts = peer_tables.reports(200, 100, 1, tmp_path, of_mean=(7, 2), with_targets=True)
    assert [row[0] for row in means.rows] == [OURS, "tumult", "pipeline_dp"]
    assert [one.target for one in means.targets] == ["at least 1.4x", "at least 2.5x", "at least 1.7x"]
    assert all(one.met for one in means.targets)
    assert [one.target for one in counts.targets] == ["at most 0.7x"]
    assert len(counts.rows) == 2
