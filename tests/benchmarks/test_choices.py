"""Automatic choices on tables drawn from the law of the benchmark: in small form, what its page says."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks._choice_law import drawn_grid, drawn_line, drawn_points
from benchmarks.choices import errors_of_cells, errors_of_lines, raced


def test_methods_that_are_clearly_not_the_best_stop_early():
    """By either measure: the third is the best by the second one. ``auto`` goes on, however bad it is."""
    drawn = dict.fromkeys(("auto", "best", "worse", "other"), 0)
    means = {"auto": (9, 9), "best": (1, 2), "worse": (3, 4), "other": (5, 1)}

    def errors_of(name, seed):
        drawn[name] += 1
        return np.array(means[name]) * (1 + 0.1 * np.sin(seed))

    raced_means = raced(errors_of, tuple(means), releases=100, first=7)
    assert drawn == {"auto": 100, "best": 100, "worse": 10, "other": 100}
    for name, expected in means.items():
        assert raced_means[name] == pytest.approx(expected, rel=0.05)


def regret(errors):
    """The geometric mean regret of ``auto`` over tables, each of which has the errors of all methods."""
    best = [min(error for name, error in each.items() if name != "auto") for each in errors]
    return float(np.exp(np.mean(np.log([each["auto"] / least for each, least in zip(errors, best, strict=True)]))))


@pytest.mark.verify
@pytest.mark.slow
def test_lines_and_grids_of_cells_are_released_nearly_as_well_as_by_the_best_method():
    lines = [errors_of_cells(drawn_line(np.random.default_rng(seed)), releases=4) for seed in range(1000, 1015)]
    grids = [errors_of_cells(drawn_grid(np.random.default_rng(seed)), releases=4)[1] for seed in range(1000, 1015)]
    # 1.09, 1.09 and 1.11 in the benchmark; of the other methods the best have 1.57, 1.56 and 1.57 here
    assert regret([prefixes for prefixes, _ in lines]) < 1.3
    assert regret([ranges for _, ranges in lines]) < 1.3
    assert regret(grids) < 1.3


@pytest.mark.verify
@pytest.mark.slow
def test_lines_through_points_are_nearly_as_near_to_least_squares_as_by_the_best_method():
    tables = (drawn_points(np.random.default_rng(seed)) for seed in range(1000, 1060))
    kept = [table for table in tables if table.outcome != "close to a line" and table.x.size <= 3000][:12]
    errors = [errors_of_lines(table, "replaced, public sizes", releases=3) for table in kept]
    # 1.17 in the benchmark; 2.5 with medians over pairs
    assert regret(errors) < 1.6
