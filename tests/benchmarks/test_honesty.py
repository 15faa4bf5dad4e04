"""The benchmark of intervals runs, and tells intervals that hold from those that do not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks._cells import Run, released
from benchmarks._honest_choices import step_error
from benchmarks._honest_curves import Population
from benchmarks._shown import in_cells, shown_of
from benchmarks.honesty import CHOICES, KINDS, Shown, coverage, coverage_report, one_release, regret_report
from benchmarks.logistic_law import drawn_linear
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.statistics import ScoreCounts


def shown(scale, count=400):
    """Normal errors with intervals of 90%, scaled."""
    errors = np.random.default_rng(1).normal(size=count)
    return [Shown(value=error, low=error - 1.645 * scale, high=error + 1.645 * scale, exact=0.0) for error in errors]


@pytest.mark.parametrize(("scale", "met"), [(0.6, False), (1.0, True), (1.6, False)])
def test_intervals_too_narrow_or_too_wide_miss_the_target(scale, met):
    row, target = coverage("kind", "cell", shown(scale))
    assert target.met is met
    assert float(row[-1]) == pytest.approx(scale, rel=0.1)


def test_what_is_undefined_is_stated_and_not_counted():
    row, target = coverage("kind", "cell", [*shown(1.0, 300), *[None] * 100])
    assert row[5] == "25%"
    assert target.met
    assert coverage("kind", "cell", [None] * 9)[0][2:] == ["", "0.000-1.000", "yes", "100%", "", "", "any"]


def test_an_interval_of_width_0_holds_its_own_value_alone():
    assert Shown(value=1.0, low=1.0, high=1.0, exact=1.0).holds
    assert not Shown(value=1.0, low=1.0, high=1.0, exact=2.0).holds
    assert Shown(value=1.0, low=1.0, high=1.0, exact=2.0).factor > 1e6


def test_widths_on_a_grid_are_numbers_of_cells_and_no_oracle_has_less_than_one():
    exact = in_cells(np.arange(9.0), 3.0, (2.5, 5.0), 3.5)
    assert (exact.value, exact.low, exact.high, exact.exact, exact.factor) == (3, 2, 5, 3, 0)
    assert (exact.width(), exact.width(0.5), exact.width(0.0)) == (4, 2, 1)
    assert float(coverage("kind", "cell", [exact] * 10)[0][-1]) == 4  # every figure is exact: one cell would do
    assert in_cells(np.arange(9.0), 0.0, (-7.0, 0.0), -2.0).exact == -1


def test_an_interval_of_one_cell_that_holds_is_counted_by_itself():
    def at(value, low, high):
        return in_cells(np.arange(20.0), value, (low, high), 5.0)

    one, wider, missed = at(5, 5, 5), at(6, 4, 8), at(7, 7, 7)
    row, _ = coverage("kind", "cell", [*[one] * 60, *[wider] * 38, *[missed] * 2])
    assert row[2] == "0.950"
    assert row[6] == "60%"
    # half as wide would do for nine tenths of the others
    assert float(row[-1]) == pytest.approx((38 * 5 + 2) / (38 * 3 + 2), abs=0.005)


def test_an_interval_of_all_that_a_figure_may_be_is_counted_by_itself():
    nothing = Shown(value=0.5, low=0.0, high=1.0, exact=0.9, whole=1.0)
    row, target = coverage("kind", "cell", [*[nothing] * 400, *shown(0.6)])
    assert (row[7], target.met) == ("50%", False)
    assert row[2] == coverage("kind", "cell", shown(0.6))[0][2]


def made_up(part, size, random):
    """A release of no table, for the tests of cells."""
    return {"one": [float(random.random()), size], "part": part}


def run_of(file, releases):
    return Run(work=made_up, releases=releases, seed=1, processes=1, file=file)


def test_a_run_that_was_interrupted_goes_on_and_ends_as_if_it_had_not_been(tmp_path):
    cells = [("first", 100.0), ("second", 100.0)]
    whole = released(run_of(tmp_path / "whole", 23), cells, resume=False)
    released(run_of(tmp_path / "part", 4), cells, resume=False)
    file = tmp_path / "part"
    file.write_text(file.read_text() + '{"part": "first", "ce')  # the last line was cut short
    assert released(run_of(file, 23), cells, resume=True) == whole
    assert len(whole["first", 100.0]) == 23
    assert len({str(one) for drawn in whole.values() for one in drawn}) == 46  # each has a seed of its own


def test_one_part_is_run_anew_without_losing_the_others(tmp_path):
    file, cells = tmp_path / "lines", [("first", 1.0), ("second", 1.0)]
    released(run_of(file, 2), cells, resume=False)
    released(run_of(file, 3), cells[:1], resume=False)
    assert len(file.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("values", 4),
        ("matrices", 5),
        ("linear-fits", 4),
        ("small-groups", 3),
        ("distances", 3),
        ("ranked-populations", 7),
        ("recalibrations", 10),
        ("streams", 3),
    ],
)
def test_a_release_shows_intervals_that_can_be_kept(part, names):
    shown = one_release(part, float(KINDS[part][1][-1]), np.random.default_rng(1))
    assert len(shown) == names
    assert json.loads(json.dumps(shown)) == {name: one if one is None else list(one) for name, one in shown.items()}


def test_the_counts_of_a_population_have_its_figures():
    one = Population(rate=0.05, separation=1.5, shift=0.3)
    counts, cut = one.cells(1 << 16), 6000
    figures, positives, negatives = one.figures(cut / (1 << 16)), counts.positives.sum(), counts.negatives.sum()
    assert positives / (positives + negatives) == pytest.approx(0.05, rel=1e-6)
    assert counts.positives[cut:].sum() / positives == pytest.approx(figures["recall"], rel=1e-6)
    assert counts.negatives[cut:].sum() / negatives == pytest.approx(figures["false_positive_rate"], rel=1e-6)
    assert float(auc_fraction(counts.negatives, counts.positives)) == pytest.approx(figures["auc"], abs=1e-6)


def test_the_explained_variance_of_a_population_is_near_that_of_its_rows():
    table = drawn_linear(np.random.default_rng(1), others=200_000)
    fitted = table.matrix @ table.likeliest
    assert len(table.labels) <= 30_000
    assert table.explained == pytest.approx(fitted.var() / table.labels.var(), abs=0.02)


def test_steps_over_the_scores_are_judged_in_exact_groups_of_equal_size():
    counts = ScoreCounts.from_arrays([0, 0, 1, 1] * 50, [0.1, 0.1, 0.6, 0.6] * 50, cells=16)
    lower = np.array([0.0, 0.5])
    assert step_error(counts, lower, np.array([0.0, 1.0]), 2, share=True) == 0
    assert step_error(counts, lower, np.array([0.5, 0.5]), 2, share=True) == 0.5
    assert step_error(counts, lower[:1], np.array([0.5]), 1, share=True) == 0  # one group hides all that one step does
    assert step_error(counts, lower, np.array([-0.09375, 0.40625]), 2, share=False) == pytest.approx(0.0)


@pytest.mark.verify
@pytest.mark.slow
def test_every_kind_of_table_is_released_and_reported():
    found = {
        (part, cells[1]): [one_release(part, float(cells[1]), np.random.default_rng([1, number])) for number in (0, 1)]
        for part, (_, cells, _) in KINDS.items()
    }
    report = coverage_report(found)
    assert len({row[0] for row in report.rows}) == len(report.rows) == 228
    assert not report.targets  # so few releases judge nothing


@pytest.mark.verify
@pytest.mark.slow
def test_every_automatic_choice_is_compared_with_the_best(monkeypatch):
    monkeypatch.setattr("benchmarks.honesty.CHOICE_RELEASES", 4)
    found = {(choice, 0.0): [one_release(choice, 0.0, np.random.default_rng(1))] for choice in CHOICES}
    rows = regret_report(found).rows
    assert len(rows) == 14
    # one table, four releases: a choice that is not among the methods may do better than the best of them
    assert all(0.5 <= float(row[1]) <= 20 for row in rows)


def test_a_coarse_figure_counts_only_where_it_does_not_hold() -> None:
    interval = (0.2, 0.8)
    assert not shown_of(0.5, interval, 0.7, coarse=True).can_miss
    assert shown_of(0.5, interval, 0.9, coarse=True).can_miss
    assert shown_of(0.5, interval, 0.7).can_miss
    assert shown_of(None, None, 0.7, coarse=True) is None
