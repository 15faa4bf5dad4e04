"""Points of a distribution function: shares at thresholds and quantiles by search, from a number of evaluations."""

from __future__ import annotations

import io
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import check_release
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure as measure_request
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import CdfPointsOptions
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import cdf_points
from spark_jobs.diagnostics.cdf_points.summary import _not_refuted
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.mechanisms.paid_counts import PaidCounts
from spark_jobs.statistics import ScoreCounts, ValueCounts
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.valued_rows import counted, ten_data_sets

AMOUNTS = np.random.default_rng(3).lognormal(5, 1, 4000)
COUNTED = ValueCounts.from_arrays(AMOUNTS, lower=0, upper=4096, cells=4096)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_without_noise_it_is_the_function_of_the_grid(neighbours):
    levels, thresholds = (0.1, 0.5, 0.987654), (0.0, 100.5, 400.0, 4096.0)
    result = cdf_points.release(
        COUNTED, thresholds=thresholds, quantiles=levels, epsilon=1e9, neighbours=neighbours, noise=SeededNoise(1)
    )
    assert result.thresholds.tolist() == [1, 101, 401, 4096]
    assert result.cdf.value == pytest.approx([(edge > AMOUNTS).mean() for edge in (1, 101, 401)] + [1], abs=1e-6)
    exact = np.floor(np.quantile(AMOUNTS, levels, method="inverted_cdf"))
    assert [quantile.value for quantile in result.quantiles] == exact.tolist()
    assert (result.rows, result.evaluations) == (4000, 1 + 4 + 3 * 12)


class TestForm(DiagnosticSuite):
    package = cdf_points
    tables = {name: partial(counted, values, cells=256) for name, values in ten_data_sets().items()}
    empty = staticmethod(lambda: counted(np.array([]), cells=256))
    nasty = staticmethod(lambda: counted(np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, 5e-324]), cells=256))
    settings = [{"epsilon": "0.5", "neighbours": neighbours, "quantiles": (0.0, 0.5, 1.0)} for neighbours in Neighbours]

    def check_form(self, result, options):
        assert CdfPointsOptions.result.violations(result.to_dict()) == []
        assert result.epsilon == Decimal("0.5")
        assert 0 <= result.left <= result.evaluations == 1 + 3 * 8


def test_intervals_hold_the_exact_figures_at_their_level():
    """Over 400 releases, at least 86% of the time."""
    share, median = (AMOUNTS < 102).mean(), np.quantile(AMOUNTS, 0.5, method="inverted_cdf")
    held = np.zeros(2)
    for seed in range(400):
        result = cdf_points.release(COUNTED, epsilon=1, thresholds=(101.0,), noise=SeededNoise(seed))
        [quantile] = result.quantiles
        held += [
            result.cdf.lower[0] <= share <= result.cdf.upper[0],
            quantile.figure.lower <= median <= quantile.figure.upper,
        ]
    assert (held / 400 > 0.86).all()


def test_a_search_that_the_noise_ends_looks_for_the_ends_of_an_interval():
    """Bisected to its end it took 1,090 cells on average: an edge that the noise does not hide may be far away."""
    even = ValueCounts.from_arrays(np.arange(20_000) % 4_001, lower=0, upper=4096, cells=4096)
    widths, held = [], 0
    for seed in range(60):
        result = cdf_points.release(even, epsilon=0.05, thresholds=(), quantiles=(0.45,), noise=SeededNoise(seed))
        [found] = result.quantiles
        widths.append(found.figure.upper - found.figure.lower + 1)
        held += found.figure.lower <= 1_800 <= found.figure.upper
        assert result.left >= 0
    assert np.mean(widths) < 500
    assert held >= 50


def of_gap(level, releases=200):
    """The share of the intervals of a quantile that hold, where no row has a value in most of the range."""
    values = np.concatenate([np.arange(4000), np.arange(28_000, 32_000)])
    apart = ValueCounts.from_arrays(values, lower=0, upper=2**15, cells=2**15)
    exact, held = np.sort(values)[int(np.ceil(level * values.size)) - 1], 0
    for seed in range(releases):
        released = cdf_points.release(apart, epsilon=0.1, quantiles=(level,), thresholds=(), noise=SeededNoise(seed))
        [found] = released.quantiles
        held += found.figure.lower <= exact <= found.figure.upper
    return held / releases


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize(("level", "at_least"), [(0.5, 0.82), (0.52, 0.86), (0.45, 0.86)])
def test_intervals_hold_beside_a_wide_gap_too(level, at_least):
    """At 0.5 the quantile is the last value before the gap, and every edge that is asked for there has D = 0."""
    assert of_gap(level) >= at_least


def test_what_noise_cannot_explain_is_refuted():
    off = np.random.default_rng(2).laplace(size=(2000, 5))
    assert _not_refuted(np.array([-9.0, -8.0, 0.0, 8.0, 9.0]), off, 0.1) == (2, 3)
    assert _not_refuted(np.array([]), np.zeros((2000, 0)), 0.1) == (0, 0)
    assert _not_refuted(np.zeros(5), off, 0.1) == (0, 5)


def test_points_are_answered_as_long_as_they_are_paid_for():
    asked = []

    def evaluate(edges):
        asked.append(edges.tolist())
        return edges * 10

    paid = PaidCounts(evaluate, cells=8, evaluations=4)
    paid.ask([8, 3, 8])
    assert [paid.below(3), paid.below(8), paid.left] == [30, 80, 2]
    with pytest.raises(
        InvalidRequest,
        match="evaluations: got 2; must be at least 3, the number of evaluations that this call needs; pay for more",
    ):
        paid.first_cell(40)
    assert [paid.below(1), paid.below(2)] == [10, 20]
    with pytest.raises(InvalidRequest, match="evaluations: got 0; must be at least 1"):
        paid.below(5)
    assert asked == [[8, 3], [1], [2]]


def test_a_search_that_was_made_before_costs_nothing():
    paid = PaidCounts(lambda edges: edges * 10, cells=8, evaluations=3)
    assert paid.first_cell(35) == 3
    assert (paid.left, paid.first_cell(35)) == (0, 3)


def test_a_search_that_the_noise_ended_costs_nothing_the_second_time_even_after_others():
    noise = np.random.default_rng(1).laplace(scale=50, size=4097)
    paid = PaidCounts(lambda edges: (10 * edges + noise[edges]).astype(np.int64), cells=4096, evaluations=40)
    found = paid.first_cell(20_000, scale=50)
    assert abs(found - 2_000) < 50
    used = 40 - paid.left
    assert used <= 12
    paid.first_cell(20_500, scale=50)
    left = paid.left
    assert paid.first_cell(20_000, scale=50) == found
    assert paid.left == left


def test_a_search_that_cannot_be_paid_to_its_end_asks_for_nothing():
    paid = PaidCounts(lambda edges: edges * 10, cells=4096, evaluations=5)
    paid.ask([2048])
    with pytest.raises(InvalidRequest, match="evaluations: got 4; must be at least 11"):
        paid.first_cell(20_480, scale=50)
    assert paid.left == 4


@pytest.mark.parametrize("cells", [1, 2, 5, 8, 1000])
def test_a_search_ends_in_every_cell(cells):
    for cell in {0, cells // 2, cells - 1}:
        paid = PaidCounts(lambda edges, cell=cell: (edges > cell).astype(np.int64), cells=cells, evaluations=20)
        assert paid.first_cell(0.5) == cell
        assert 20 - paid.left <= (cells - 1).bit_length()


def request(**options):
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/payments", "snapshot": {"path_version": "v1"}},
            "label": "paid",
            "model": {"kind": "columns", "score": "score", "basis": "public"},
            "diagnostics": [{"kind": "cdf_points", **options}],
            "budget": {"epsilon": "1"},
        }
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "amount"}, "bounds: is required with a column"),
        (
            {"column": "amount", "bounds": [0, 9], "thresholds": [10]},
            r"thresholds: got 10.*within the bounds, \[0, 9\]",
        ),
        ({"thresholds": [1.5]}, r"thresholds: got 1.5.*within the bounds, \[0, 1\]"),
        ({"thresholds": [0.5, 0.5]}, "thresholds: .*must be in ascending order"),
        ({"quantiles": []}, "thresholds: must not be empty, unless there are quantiles"),
        ({"quantiles": [1.5]}, "quantiles"),
        ({"more_evaluations": -1}, "more_evaluations"),
        ({"silo_rows": 2**19}, "silo_rows"),
    ],
)
def test_points_that_cannot_be_asked_for_are_refused(options, message):
    with pytest.raises(InvalidRequest, match=message):
        request(**options)


@pytest.mark.parametrize("rows", [0, 1000])
@pytest.mark.parametrize(
    "options", [{"thresholds": [0.25, 0.5]}, {"column": "amount", "bounds": [0, 100], "quantiles": [0.25, 0.5, 0.75]}]
)
def test_it_has_a_page_and_a_file_of_public_shape(options, rows):
    asked = request(**options)
    [statistic] = asked.statistics
    values = np.linspace(0, 1, rows)
    exact = (
        ValueCounts.from_arrays(100 * values, lower=0, upper=100)
        if "column" in options
        else ScoreCounts.from_arrays(values > 0.5, values)
    )
    drawn = measure_request(asked, {statistic: exact}, charge_id="c", noise=SecureNoise())
    manifest, files = draft(asked, drawn, key="k", rules=())
    check_release(manifest, files.get)
    table = pq.read_table(io.BytesIO(files["cdf_points.parquet"]))
    assert table.column_names == ["searched", "value", "share", "lower", "upper"]
    assert table.num_rows == 3
    status = manifest.results["cdf_points"]["status"]
    assert rows == 0 or status == "ok"
    page = files["report.html"].decode()
    assert "Points of the distribution of" in page
    assert ("Undefined: there are too few rows" in page) == (status == "undefined")
