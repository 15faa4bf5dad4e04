"""What is known from a request alone, and refused before anything is charged."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import RESIDUAL_KEYS, SCORE_CELLS
from spark_jobs.contract.options.base import MAX_KEYS, MIN_DELTA, MIN_EPSILON
from spark_jobs.contract.options.score_figures import MIN_EPSILON_OF_SMOOTH
from spark_jobs.contract.preflight import preflight
from spark_jobs.mechanisms import pure_release
from spark_jobs.statistics import residual_grid, score_counts
from tests.application.test_draw import request

LINE = {"kind": "linear_regression", "x": "a", "y": "b", "x_bounds": [0, 1], "y_bounds": [0, 1]}
PLOT = {"kind": "residual_plot", "outcome": "wage"}


def keys(count: int) -> dict[str, Any]:
    return {"group_by": "tract", "groups": [f"{key:06d}" for key in range(count)]}


def refusal(**changes: Any) -> str:
    with pytest.raises(InvalidRequest) as refused:
        preflight(request(**changes))
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_a_part_that_is_too_small_is_refused_wherever_it_stands() -> None:
    faint = {"kind": "auc", "method": "cauchy", "weight": "0.00001"}
    lines = {
        refusal(diagnostics=list(order), budget={"epsilon": "1"})
        for order in permutations([faint, "roc_curve", "confusion_matrix"])
    }
    assert lines == {
        "budget.epsilon: got '0.00000500 per row for auc'; must be at least 0.0001 for each row of a unit; "
        "give more epsilon, a larger weight, fewer diagnostics, or lower unit.max_rows"
    }


@pytest.mark.parametrize("kind", ["roc_curve", {"kind": "ecdf", "column": "amount"}, LINE, PLOT], ids=str)
def test_the_least_epsilon_is_that_of_a_row(kind: Any) -> None:
    unit = {"column": "person", "max_rows": 1000}
    preflight(request(diagnostics=[kind], unit=unit, budget={"epsilon": str(1000 * MIN_EPSILON)}))
    assert "must be at least 0.000001" in refusal(diagnostics=[kind], unit=unit, budget={"epsilon": "0.00099"})


def test_a_delta_that_the_rows_of_a_unit_leave_nothing_of_is_refused() -> None:
    gaussian = {**LINE, "method": "noisy_moments_zcdp"}
    budget = {"epsilon": "90", "delta": "1e-9"}
    preflight(request(diagnostics=[gaussian], budget=budget))
    line = refusal(diagnostics=[gaussian], budget=budget, unit={"column": "person", "max_rows": 3})
    assert line.startswith("budget.delta: got ")
    assert "per row for linear_regression'; must be at least 1E-20" in line
    # whoever takes delta where there is some does without
    fit = {"kind": "linear_fit", "features": {"x": [0, 1]}, "outcome": "y", "outcome_bounds": [0, 1]}
    preflight(request(diagnostics=[fit], budget=budget, unit={"column": "person", "max_rows": 3}))
    preflight(request(diagnostics=[gaussian], budget={"epsilon": "1", "delta": str(MIN_DELTA)}))


@pytest.mark.parametrize("method", ["dp_grad_descent", "dp_wide_theil_sen"])
def test_more_points_than_a_driver_holds_are_refused(method: str) -> None:
    wanted = {**LINE, "method": method, "public_sizes": True}
    preflight(request(diagnostics=[{**wanted, **keys(63)}], neighbours="replace_one"))
    assert refusal(diagnostics=[{**wanted, **keys(64)}], neighbours="replace_one") == (
        "diagnostics: got '67,108,928 counts'; must need at most 67,108,864 counts; ask for fewer cells, for "
        "fewer groups, or for a method that needs only sums, such as noisy_moments"
    )
    preflight(request(diagnostics=[{**wanted, **keys(64), "cells": 512}], neighbours="replace_one"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "noisy_moments", "noisy_stats", "noisy_intercept"])
def test_lines_from_sums_have_no_bound_but_that_of_their_groups(method: str) -> None:
    preflight(request(diagnostics=[{**LINE, "method": method, "cells": 8192, **keys(100_000)}]))


def test_all_statistics_of_a_request_count() -> None:
    points = {**LINE, "method": "dp_grad_descent", **keys(6)}
    preflight(request(diagnostics=[points]))
    preflight(request(diagnostics=[PLOT]))
    assert "ask for fewer diagnostics in one release" in refusal(diagnostics=[points, PLOT])


def test_bounds_are_those_of_what_they_bound() -> None:
    assert residual_grid.AXIS**2 == RESIDUAL_KEYS <= MAX_KEYS
    assert score_counts.DEFAULT_CELLS == SCORE_CELLS
    assert MIN_EPSILON_OF_SMOOTH >= 2 * pure_release.MIN_EPSILON
