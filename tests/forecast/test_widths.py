"""Forecasts of widths: they come true within a factor of 1.5, depend on the statement alone, and need what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from benchmarks.forecasts import OF_NUMBERS, OF_SCORES, of_numbers, of_scores, request_of
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.forecast import expected_widths, typical_statistic
from spark_jobs.forecast.typical_rows import _Rows
from spark_jobs.forecast.widths import widths_of
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.smooth_sensitivity import auc_fraction
from spark_jobs.score_grid import cells_of
from tests.support.rehearsal import KINDS

STATED = ExpectedTable(rows=45_000, positive_rate=0.06)
SHARP = {  # what rows and rates decide, and the shape of the scores hardly does
    "roc_curve": {"auc_interval", "auc_population_interval"},
    "auc": {"population_interval"},
    "confusion_matrix": {f"{rate}_lower to {rate}_upper" for rate in ("accuracy", "recall", "precision", "f1")},
    "calibration": {"ece_interval"},
    "binned_residuals": {"residual_lower to residual_upper"},
    "linear_regression": {"slope_lower to slope_upper", "predictions_lower to predictions_upper"},
    "linear_fit": {"lower to upper", "lower_population to upper_population"},
    "logistic_fit": {"lower to upper", "lower_population to upper_population"},
}


def misses(options: dict[str, Any], seed: int) -> list[float]:
    """The factors by which forecasts of the intervals in ``SHARP`` miss, for one normal table of the benchmark."""
    of = of_scores if options in OF_SCORES else of_numbers
    _, ratios = of(np.random.default_rng(seed), options, "normal")  # the forecast of which more is stated
    return [max(ratio, 1 / ratio) for name, (ratio, _) in ratios.items() if name in SHARP[options["kind"]]]


@pytest.mark.parametrize("kind", ["auc", "confusion_matrix", "linear_fit"])
def test_a_forecast_is_within_a_factor_of_what_comes(kind: str) -> None:
    (options,) = (options for options in (*OF_SCORES, *OF_NUMBERS) if options["kind"] == kind)
    found = misses(options, seed=3)
    assert len(found) >= 1
    assert max(found) < 1.5


@pytest.mark.verify
@pytest.mark.parametrize("tables", [3, pytest.param(6, marks=pytest.mark.soak)])
@pytest.mark.parametrize("options", [one for one in (*OF_SCORES, *OF_NUMBERS) if one["kind"] in SHARP])
def test_forecasts_of_many_tables_are_within_a_factor(options: dict[str, Any], tables: int) -> None:
    found = [miss for seed in range(tables) for miss in misses(options, seed)]
    assert len(found) >= tables
    assert np.mean(np.array(found) < 1.5) >= 0.8


def test_more_budget_and_more_rows_buy_narrower_intervals() -> None:
    (one,), (more_budget,), (more_rows,) = (
        expected_widths(request_of({"kind": "auc"}, epsilon), STATED.model_copy(update={"rows": rows}), rehearsals=2)
        for epsilon, rows in (("1", 45_000), ("4", 45_000), ("1", 4_000_000_000))
    )
    assert more_budget.widths["interval"] < one.widths["interval"] / 2
    assert more_rows.widths["population_interval"] < one.widths["population_interval"] / 100


def test_a_forecast_says_what_the_noise_would_hide() -> None:
    (found,) = expected_widths(request_of({"kind": "roc_curve"}, "0.01"), ExpectedTable(rows=40, positive_rate=0.1))
    assert found.undefined == 1
    assert found.widths == {}


def test_it_depends_on_the_statement_alone() -> None:
    first, second = (expected_widths(request_of({"kind": "auc"}), STATED, rehearsals=1) for _ in range(2))
    assert first == second


def test_every_kind_has_intervals_that_can_be_forecast() -> None:
    without = {kind for kind, options in DIAGNOSTICS.items() if not options.result.intervals()}
    assert without == {"rows_per_unit"}  # which chooses one of a few bounds
    assert set(KINDS) == set(DIAGNOSTICS)


def test_a_figure_that_is_undefined_in_one_group_has_no_width() -> None:
    compared = [
        {"lower": [0.1, None], "upper": [0.3, None], "overall_interval": [0.1, 0.2], "difference_interval": None},
        {"lower": [0.1, 0.1], "upper": [0.4, 0.4], "overall_interval": None, "difference_interval": [-0.2, 0.3]},
    ]
    widths = widths_of("by_group", {"comparisons": compared})
    assert widths == pytest.approx(
        {
            "comparisons.lower to comparisons.upper": 0.3,
            "comparisons.overall_interval": 0.1,
            "comparisons.difference_interval": 0.5,
        }
    )
    compared[1]["difference_interval"] = None
    assert "comparisons.difference_interval" not in widths_of("by_group", {"comparisons": compared})


@pytest.mark.parametrize(
    ("options", "stated", "line"),
    [
        ({"kind": "auc"}, {}, "positive_rate: is required"),
        ({"kind": "residual_plot", "outcome": "wage"}, {}, "values: must state where most values of wage lie"),
        ({"kind": "ecdf", "column": "amount"}, {}, "values: must state where most values of amount lie"),
        (
            {"kind": "quantile", "column": "amount", "bounds": [0, 9]},
            {"values": {"amuont": [0, 1]}},
            "did you mean 'amount'",
        ),
        ({"kind": "auc"}, {"positive_rate": 1.5}, "positive_rate: got 1.5"),
        ({"kind": "auc"}, {"rows": 0}, "rows: got 0"),
        ({"kind": "auc"}, {"values": {"x": [2, 1]}}, "values.x: got [2.0, 1.0]"),
        ({"kind": "auc"}, {"flagged": {"0.2": 0.1, "0.5": 0.3}}, "must decrease from each threshold to the next"),
        ({"kind": "auc"}, {"flagged": {"0.2": 1.5}}, "flagged.0.2: got 1.5"),
        (
            {"kind": "auc"},
            {"recalls": {"0.2": 0.5}},
            "recalls: got [0.2]; must be stated for the same thresholds as flagged",
        ),
        (
            {"kind": "auc"},
            {"flagged": {"0.2": 0.5, "0.5": 0.3}, "recalls": {"0.2": 0.6, "0.5": 0.7}},
            "recalls: got {0.2: 0.6, 0.5: 0.7}; must not increase from each threshold to the next",
        ),
        (
            {"kind": "auc"},
            {"positive_rate": 0.2, "flagged": {"0.5": 0.1}, "recalls": {"0.5": 0.7}},
            "recalls.0.5: got 0.7; must be at most 0.5",
        ),
    ],
)
def test_a_statement_that_does_not_suffice_is_rejected(
    options: dict[str, Any], stated: dict[str, Any], line: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        expected_widths(request_of(options), ExpectedTable.parse({"rows": 1000, **stated}))
    assert line in str(refused.value)


def test_a_larger_table_consists_of_made_up_rows_several_times() -> None:
    table = ExpectedTable(rows=1_000_000, positive_rate=0.25)
    (statistic,) = request_of({"kind": "auc"}).statistics
    counts = typical_statistic(statistic, table, SeededNoise(1))
    assert (counts.negatives.sum(), counts.positives.sum()) == (750_000, 250_000)


def test_as_many_made_up_scores_as_stated_exceed_a_threshold() -> None:
    table = ExpectedTable(rows=100_000, positive_rate=0.1, auc=0.8, flagged={0.5: 0.05, 0.2: 0.3})
    (statistic,) = request_of({"kind": "auc"}).statistics
    scores = typical_statistic(statistic, table, SeededNoise(1))
    rows = (scores.negatives + scores.positives)[::-1].cumsum()[::-1] / table.rows
    assert rows[cells_of(np.array([0.2, 0.5]), scores.cells)] == pytest.approx([0.3, 0.05], abs=0.002)
    assert float(auc_fraction(scores.negatives, scores.positives)) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("positive_rate", [0.01, 0.99])
def test_a_few_rows_of_one_class_can_be_forecast(positive_rate: float) -> None:
    shares = {"flagged": {0.2: 0.995}, "recalls": {0.2: 0.999}}
    (found,) = expected_widths(
        request_of({"kind": "auc"}), ExpectedTable(rows=8, positive_rate=positive_rate, **shares)
    )
    assert found.undefined > 0


@pytest.mark.parametrize(
    ("recalls", "false_alarms"),
    [
        ({0.2: 0.9, 0.5: 0.3}, (0.3 - 0.09, 0.05 - 0.03)),
        ({0.2: 0.9, 0.5: 0.55}, (0.3 - 0.09, 0.0)),
        ({0.2: 1.0, 0.5: 0.4}, (0.3 - 0.1, 0.05 - 0.04)),
    ],
    ids=["agree", "are rounded", "all positives"],
)
def test_as_many_made_up_positives_as_stated_exceed_a_threshold(
    recalls: dict[float, float], false_alarms: tuple[float, float]
) -> None:
    shares = {0.2: 0.3, 0.5: 0.05}
    table = ExpectedTable(rows=100_000, positive_rate=0.1, auc=0.8, flagged=shares, recalls=recalls)
    (statistic,) = request_of({"kind": "auc"}).statistics
    scores = typical_statistic(statistic, table, SeededNoise(1))
    for counts, reached in ((scores.positives, recalls.values()), (scores.negatives, np.array(false_alarms) / 0.9)):
        above = counts[::-1].cumsum()[::-1] / counts.sum()
        assert above[cells_of(np.array([0.2, 0.5]), scores.cells)] == pytest.approx(list(reached), abs=0.002)


def test_two_shares_say_how_far_scores_are_spread_beyond_them_too() -> None:
    """Log-odds twice as wide: a model whose scores are too bold, with a calibration slope of about a half."""
    plain = ExpectedTable(rows=100_000, positive_rate=0.1, auc=0.8)
    calibrated = np.sort(_scores(plain))
    wide = expit(2 * logit(calibrated))
    shares = {threshold: float(np.mean(wide >= threshold)) for threshold in (0.005, 0.05)}
    found = np.sort(_scores(plain.model_copy(update={"flagged": shares})))
    for share in (0.05, 0.5, 0.95, 0.99):
        place = int(share * wide.size)
        assert logit(found[place]) == pytest.approx(logit(wide[place]), abs=0.05)


def _scores(table: ExpectedTable) -> Any:
    rows = _Rows(table, table.rows, SeededNoise(1))
    return rows.scores(rows.noise())


def test_units_with_several_rows_have_wider_intervals_for_their_population() -> None:
    other = {"kind": "columns", "score": "other", "basis": "public"}
    kinds = ["roc_curve", "confusion_matrix", {"kind": "roc_comparison", "other": other}]
    table = ExpectedTable(rows=30_000, positive_rate=0.3)
    fields = {**request_of({"kind": "roc_curve"}, "50").to_dict(), "diagnostics": kinds}
    alone, several = (
        {one.kind: one.widths for one in expected_widths(ReleaseRequest.parse({**fields, **unit}), table)}
        for unit in ({}, {"unit": {"column": "person", "max_rows": 5}})
    )
    for kind, name in (
        ("roc_curve", "auc_population_interval"),
        ("confusion_matrix", "recall_population_lower to recall_population_upper"),
        ("roc_comparison", "auc_interval_population"),
    ):
        assert 1.4 < several[kind][name] / alone[kind][name] < 2.3, "rows that are half alike vary 3 times as much"
