"""Exact figures are those of raw rows, and an interval that misses a raw value by a cell is said to miss it."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import _exact as exact
from benchmarks._honest_raw import in_raw_cells
from benchmarks._raw_law import FORMS, SCORE_FORMS, drawn_groups, drawn_residuals, drawn_scores, drawn_values
from spark_jobs.statistics.value_grid import ValueGrid

LABELS, SCORES = np.array([0.0, 0, 1, 0, 1, 1]), np.array([0.1, 0.3, 0.3, 0.5, 0.7, 0.9])


def test_a_quantile_is_a_value_of_the_rows():
    ages = np.array([18.0, 20, 20, 53, 89])
    assert [exact.quantile(ages, level) for level in (0.0, 0.2, 0.21, 0.6, 0.61, 1.0)] == [18, 18, 20, 20, 53, 89]


def test_rows_at_a_place_are_up_to_it_and_not_below_it():
    ages = np.array([18.0, 20, 20, 53])
    assert exact.share_up_to(ages, [17, 20, 52, 53]).tolist() == [0, 0.75, 0.75, 1]
    assert exact.share_below(ages, [18, 20, 53, 54]).tolist() == [0, 0.25, 0.75, 1]


def test_rows_at_a_threshold_are_predicted_positive():
    rates = exact.rates(LABELS, SCORES, 0.7)
    assert (rates["recall"], rates["precision"], rates["specificity"]) == (2 / 3, 1, 1)
    assert exact.rates(LABELS, SCORES, np.nextafter(0.7, 1))["recall"] == 1 / 3
    assert exact.cost(LABELS, SCORES, 0.7, false=1, missed=6) == 1
    assert exact.cost(LABELS, SCORES, None, false=1, missed=6) == 3


def test_the_order_of_scores_alone_makes_an_area():
    assert exact.area(LABELS, SCORES) == exact.area(LABELS, SCORES * 1e-9) == pytest.approx(7.5 / 9)


def test_equal_scores_share_a_gain():
    assert exact.gain(LABELS, SCORES, 1 / 3) == pytest.approx(2 / 3)
    assert exact.gain(LABELS, SCORES, 4 / 6) == pytest.approx((2 + 0.5) / 3)


def test_groups_of_scores_have_the_rows_from_each_start_on():
    rows, positives, sums, variances = exact.of_groups(LABELS, SCORES, np.array([-np.inf, 0.3, 0.7]))
    assert (rows.tolist(), positives.tolist()) == ([1, 3, 2], [0, 1, 2])
    assert sums == pytest.approx([0.1, 1.1, 1.6])
    assert variances == pytest.approx(sums * (1 - sums / rows))


def test_a_line_of_one_place_has_no_slope():
    assert exact.line(np.array([0.0, 1, 2]), np.array([1.0, 3, 5])) == (2, 1)
    assert np.isnan(exact.line(np.ones(3), np.arange(3.0))).all()


def test_a_column_is_open_towards_zero():
    fitted, residuals = np.array([-2.0, -1, 1, 2, 3]), np.arange(5.0)
    assert exact.column(fitted, residuals, (1, 3), 3.5).tolist() == [3, 3.5]
    assert exact.column(fitted, residuals, (-2, -1), 9).tolist() == [0]
    assert exact.column(fitted, residuals, (-1, 1), 9).tolist() == [1, 2]


def test_an_interval_that_ends_at_the_lower_edge_misses_the_values_of_its_cell():
    grid = ValueGrid(lower=0, upper=120, cells=32768)
    start = float(grid.edges[grid.cell(53.0)])
    assert start < 53
    missed, held = (in_raw_cells(grid, start, (start, end), 53.0) for end in (start, start + 120 / 32768))
    assert missed is not None
    assert held is not None
    assert (missed.holds, held.holds, held.width()) == (False, True, 1)


@pytest.mark.parametrize("form", FORMS)
def test_values_of_the_law_lie_on_their_step_and_mostly_in_their_bounds(form):
    columns = [drawn_values(np.random.default_rng(seed), rows=500, forms=(form,)) for seed in range(8)]
    assert {column.step for column in columns} == {FORMS[form][2], None}
    for column in columns:
        low, high = column.bounds
        assert ((column.values >= low) & (column.values <= high)).mean() > 0.95
        if column.step is not None:
            assert (np.abs((column.values - low) / column.step % 1 - 0.5) > 0.49).all()


@pytest.mark.parametrize("form", SCORE_FORMS)
def test_scores_of_the_law_have_their_positives(form):
    table = drawn_scores(np.random.default_rng(3), positives=200, forms=(form,))
    assert table.labels.sum() == 200
    assert ((table.scores >= 0) & (table.scores <= 1)).all()
    if form == "tiny":
        assert table.scores.max() <= 1e-4


def test_points_and_residuals_of_the_law_lie_in_their_box():
    for seed in range(20):
        random = np.random.default_rng(seed)
        points = drawn_groups(random, groups=5, rows=60)
        for values, (low, high) in ((points.x, points.x_bounds), (points.y, points.y_bounds)):
            assert ((values >= low) & (values <= high)).all()
        fitted, residuals = drawn_residuals(random, rows=100)
        assert np.isfinite([fitted, residuals]).all()
