import json
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.diagnostics import ecdf
from spark_jobs.diagnostics.ecdf import noise_model
from spark_jobs.diagnostics.ecdf.plots import quantile_text, value_text
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import ScoreCounts, ValueCounts
from spark_jobs.statistics.value_grid import ValueGrid
from tests.suites.diagnostic import DiagnosticSuite
from tests.support.noises import worst_loss
from tests.support.undefined import is_undefined
from tests.support.valued_rows import counted, fractions, ten_data_sets

DATA_SETS = ten_data_sets()
EVERY_DATA_SET = pytest.mark.parametrize("name", DATA_SETS)
LEVELS = np.array([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0])
WIDE = {"lower": -(2.0**44), "upper": 2.0**44, "scale": "log", "unit": 2.0**-20}


def texts(released, quantile):
    """A quantile and its interval as the report has them."""
    return value_text(released, quantile), quantile_text(released, quantile)


def check_form(released):
    """What holds for every release, whatever the rows were."""
    assert type(released).violations(json.loads(json.dumps(released.to_dict(), allow_nan=False))) == []
    assert (np.diff(released.values) > 0).all()
    assert released.bounds[0] == released.values[0]
    assert released.values[-1] < released.bounds[1]
    assert released.rows >= 0
    assert np.unique(released.summary).size == released.points
    if is_undefined("ecdf", released):
        assert np.isnan(released.quantile([0.1, 0.9])).all()
        assert released.median.value is None
        return
    assert released.status == "ok"
    function = released.function
    for upper in (function.value, function.upper, function.ends("everywhere").upper):
        assert upper[-1] == 1
    for lower in (function.lower, function.ends("everywhere").lower):
        assert lower[-1] == 1 or released.in_cells


class TestForm(DiagnosticSuite):
    package = ecdf
    tables = {name: partial(counted, values) for name, values in DATA_SETS.items()}
    empty = staticmethod(lambda: counted(np.array([])))
    nasty = staticmethod(lambda: counted(np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324])))
    settings = [
        {"epsilon": epsilon, "smoothing": smoothing, "points": 64}
        for smoothing in ("2-norm", "1-norm")
        for epsilon in ("0.01", "1")
    ]

    def check_form(self, result, options):
        check_form(result)


@pytest.mark.slow
@EVERY_DATA_SET
@pytest.mark.parametrize("smoothing", ["2-norm", "1-norm"])
def test_without_noise_it_is_scipys_function_of_the_rounded_values(name, smoothing):
    values = DATA_SETS[name]
    statistic = counted(values)
    released = ecdf.release(statistic, epsilon=1e9, noise=SeededNoise(1), smoothing=smoothing)
    check_form(released)
    known = values[~np.isnan(values)]
    assert released.rows == known.size
    if not known.size:
        assert released.status == "undefined"
        return
    rounded = statistic.grid.edges[statistic.grid.cell(known)]
    theirs = stats.ecdf(rounded).cdf
    inside = known[(known >= 0) & (known < 1)]
    at = np.concatenate(
        [inside[:500], rounded[:500], np.linspace(0, 1, 300, endpoint=False), statistic.grid.edges[::7]]
    )
    # read where its cell starts: numbers inside a cell are rounded like the rows
    at_cells = statistic.grid.edges[statistic.grid.cell(at)]
    np.testing.assert_allclose(released.evaluate(at), theirs.evaluate(at_cells), atol=1e-8)
    np.testing.assert_allclose(
        released.quantile(LEVELS), np.quantile(rounded, LEVELS, method="inverted_cdf"), atol=1e-12
    )
    clamped = np.clip(known, 0, 1)
    widest = np.quantile(clamped, LEVELS, method="inverted_cdf") - released.quantile(LEVELS)
    assert ((widest >= 0) & (widest <= 1 / 4096)).all()


def test_scores_of_both_classes_make_one_function():
    random = np.random.default_rng(8)
    labels, scores = random.integers(0, 2, 3000), random.random(3000)
    statistic = ScoreCounts.from_arrays(labels, scores, cells=1024)
    released = ecdf.release(statistic, epsilon=1e9, noise=SeededNoise(1))
    check_form(released)
    exact = np.cumsum(statistic.negatives + statistic.positives) / 3000
    np.testing.assert_allclose(released.evaluate(released.values), exact, atol=1e-8)
    assert released.named is None


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        (np.random.default_rng(1).lognormal(5, 1.5, 20_000), 0.0, 2.0**17),
        (np.random.default_rng(2).normal(-300, 20, 20_000), -512.0, 0.0),
        (np.random.default_rng(3).normal(0, 1, 20_000), -8.0, 8.0),
        (np.full(20_000, 42.0), 32.0, 64.0),
        (np.zeros(20_000), -1e-3, 1e-2),
    ],
    ids=["amounts", "negative", "both signs", "constant", "zero"],
)
def test_bounds_are_found_around_the_values(scale, values, least, most):
    statistic = ValueCounts.from_arrays(values, cells=2**18, **WIDE)
    released = ecdf.release(statistic, epsilon=2, noise=SeededNoise(3), find_bounds=scale)
    check_form(released)
    low, high = released.bounds
    assert least <= low < high <= most
    assert released.bounds_found
    left_out = np.mean((values < low) | (values >= high))
    assert left_out < 0.03
    middle = np.quantile(values, [0.25, 0.5, 0.75])
    assert np.abs(released.evaluate(middle + 1e-9) - [np.mean(values <= x) for x in middle]).max() < 0.05


def test_a_doubling_is_refined_to_where_its_values_lie():
    """Seconds since 1970 of half a year, in a doubling of 34 years, whose cells were of six days."""
    values = np.round(1.7e9 + 86_400 * 180 * np.random.default_rng(7).beta(2, 3, 40_000))
    statistic = ValueCounts.from_arrays(
        values, cells=2**20, lower=-(2.0**44), upper=2.0**44, scale="log", unit=2.0**-20
    )
    measurement = ecdf.measure(statistic, epsilon=1, noise=SeededNoise(3), find_bounds="linear", quantiles=(0.0, 0.5))
    labels = [spending.label for spending in measurement.spendings]
    assert labels[3:5] == ["upper bound, closer", "lower bound, closer"]
    released = ecdf.summarise(measurement, seed=1)
    lowest, median = released.quantiles
    exact = np.quantile(values, 0.5, method="inverted_cdf")
    assert median.figure.lower <= exact <= median.figure.upper
    assert median.figure.upper - median.figure.lower < 86_400
    # the cells at the ends hold whatever is beyond, so an interval that reaches one is open
    assert lowest.figure.lower == -(2.0**44)
    assert np.diff(released.values)[1:-1].max() < 8 * 3600
    again = read_back(released)
    assert again.to_dict() == released.to_dict()
    np.testing.assert_array_equal(again.cuts, released.cuts)
    assert again.quantile_interval(0.0)[0] == -(2.0**44)


def test_few_rows_are_searched_no_closer():
    values = np.random.default_rng(1).normal(1000, 1, 5_000)
    statistic = ValueCounts.from_arrays(values, cells=2**18, **WIDE)
    measurement = ecdf.measure(statistic, epsilon=1, noise=SeededNoise(3), find_bounds="linear")
    assert len(measurement.spendings) == 4
    assert measurement.cuts.tolist() == list(range(0, 2**20 + 1, 256))


def test_an_interval_that_reaches_a_found_bound_is_open():
    values = np.random.default_rng(1).lognormal(5, 1, 500)
    statistic = ValueCounts.from_arrays(values, cells=2**18, **WIDE)
    released = ecdf.release(
        statistic, epsilon=1, noise=SeededNoise(3), find_bounds="log", quantiles=(0.0, 0.1, 0.5, 0.99)
    )
    low, high = released.bounds
    assert values.min() < low < high < values.max()
    lowest, tenth, median, highest = released.quantiles
    assert lowest.figure.lower == WIDE["lower"]
    assert highest.figure.upper == WIDE["upper"]
    assert low < tenth.figure.lower < tenth.figure.upper < median.figure.lower < median.figure.upper < high
    assert texts(released, lowest) == ("32 or less", "32.06 or less")
    assert texts(released, median) == ("157.9", "145.6 to 164.4")
    assert texts(released, highest) == ("511.5 or more", "511.5 or more")
    # what is known of the rows beyond: those below the last cell do not exceed any value from there on
    for at in (high, 10 * high):
        fractions_at = [float(end) for end in released.band(at)]
        assert fractions_at == [released.function.lower[-1], 1.0]
    assert [float(end) for end in released.band(low / 2)] == [0.0, released.function.upper[0]]


@EVERY_DATA_SET
@pytest.mark.parametrize("epsilon", ["0.001", "1", "1000000000"])
def test_a_search_for_bounds_ends_with_the_form_of_every_other(name, epsilon):
    statistic = ValueCounts.from_arrays(DATA_SETS[name], cells=2**14, **WIDE)
    released = ecdf.release(statistic, epsilon=epsilon, noise=SeededNoise(3), find_bounds="linear", points=16)
    check_form(released)
    assert released.cdf.shape == (4096,)
    assert [spending.label for spending in ecdf.measure(
        statistic, epsilon=epsilon, noise=SeededNoise(3), find_bounds="log"
    ).spendings][:3] == ["number of rows", "upper bound", "lower bound"]  # fmt: skip


@given(
    cells=st.integers(1, 8).map(lambda power: 2**power),
    rows=st.lists(st.floats(0, 1), max_size=40),
    epsilon=st.sampled_from(["0.001", "0.5", "7", "1000000"]),
    smoothing=st.sampled_from(["2-norm", "1-norm"]),
    neighbours=st.sampled_from(list(Neighbours)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=60)
def test_no_small_table_breaks_a_release(cells, rows, epsilon, smoothing, neighbours, seed):
    measurement = ecdf.measure(
        counted(np.array(rows), cells=cells),
        epsilon=epsilon,
        smoothing=smoothing,
        neighbours=neighbours,
        noise=SeededNoise(seed),
        size_public=neighbours is Neighbours.REPLACE_ONE,
        points=2,
    )
    assert measurement.epsilon == Decimal(epsilon)
    check_form(ecdf.summarise(measurement, seed=seed))


@pytest.mark.slow
def test_a_measurement_goes_through_json_and_makes_the_same_release():
    for options in ({}, {"find_bounds": "linear"}):
        statistic = ValueCounts.from_arrays([1.0, 2.0, 3.0] * 99, cells=2**14, **WIDE)
        measurement = ecdf.measure(statistic, epsilon=1, noise=SecureNoise(), named="amount", **options)
        again = ecdf.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(measurement.to_dict())))
        assert ecdf.summarise(again, seed=3).to_dict() == ecdf.summarise(measurement, seed=3).to_dict()
        assert measurement.guarantee == "differentially private"


def read_back(released):
    columns = {"value": released.values, **released.specs()["function"].write(released.function)}
    return ecdf.Ecdf.from_release(json.loads(json.dumps(released.to_dict())), columns)


def test_a_release_is_read_back_from_its_fields_and_columns():
    released = ecdf.release(counted(DATA_SETS["ordinary"]), epsilon=1, noise=SeededNoise(2))
    again = read_back(released)
    assert again.to_dict() == released.to_dict()
    at = np.linspace(-1, 2, 999)
    np.testing.assert_array_equal(again.evaluate(at), released.evaluate(at))
    assert ecdf.distance_between(again, released).value == 0


def test_a_found_range_is_read_back_too():
    statistic = ValueCounts.from_arrays(np.arange(5000.0), cells=2**16, **WIDE)
    released = ecdf.release(statistic, epsilon=1, noise=SeededNoise(2), find_bounds="linear")
    again = read_back(released)
    np.testing.assert_array_equal(again.cuts, released.cuts)


def test_values_are_read_as_rows_are_counted():
    released = ecdf.release(counted(np.linspace(0, 1, 1001)), epsilon=1e9, noise=SeededNoise(1))
    assert released.evaluate(-0.1) == 0
    assert released.evaluate(1.5) == released.evaluate(np.inf) == 1
    assert np.isnan(released.evaluate(np.nan))
    assert released.evaluate([[0.25, 0.5], [0.75, 1.0]]).shape == (2, 2)
    low, high = released.band(0.5, everywhere=True)
    assert low <= released.evaluate(0.5) <= high
    for level in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="levels in"):
            released.quantile(level)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"points": 1}, "points:"),
        ({"smoothing": "3-norm"}, "smoothing:"),
        ({"confidence": 0.2}, "confidence:"),
        ({"quantiles": (1.5,)}, "quantiles.0:"),
        ({"quantiles": ()}, "quantiles:"),
        ({"epsilon": 0}, "epsilon: got '0'; must be above 0"),
        (
            {"find_bounds": "linear"},
            "find_bounds: got 'linear'; must be linear or log, for counts that were made on a logarithmic grid",
        ),
        ({"size_public": True}, "size_public: got True; needs neighbours replace_one"),
    ],
)
def test_options_out_of_their_bounds_are_refused_in_a_line(options, line):
    with pytest.raises(InvalidRequest) as refused:
        ecdf.release(counted(np.array([0.5])), **{"epsilon": 1, "noise": SeededNoise(1), **options})
    assert str(refused.value).startswith(line)
    assert "\n" not in str(refused.value)


@pytest.mark.verify
def test_counts_reach_the_target_at_32768_cells_where_a_row_is_replaced():
    """Mean squared error of the counts times epsilon squared; the ECDF paper's theorem 1 gives 8,192."""
    random = np.random.default_rng(6)
    for values in (random.normal(0.5, 0.15, 20_000), random.random(100_000), np.exp(random.normal(-5, 1.2, 20_000))):
        statistic = counted(values, cells=32768)
        exact = fractions(statistic)
        errors = [
            (ecdf.release(statistic, epsilon=1, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(seed)).cdf - exact)
            * statistic.total
            for seed in range(6)
        ]
        assert np.mean(np.square(errors)) <= 1000


TABLE = np.array([5, 0, 9, 1, 0, 0, 40, 2])


def neighbours_of(table, relation):
    """Every table that is one row away."""
    cells = np.eye(table.size, dtype=np.int64)
    if relation is Neighbours.ADD_REMOVE:
        return [table + row for row in cells] + [table - row for row in cells if (table - row >= 0).all()]
    moved = [table - old + new for old in cells for new in cells if (table - old >= 0).all()]
    return [other for other in moved if (other != table).any()]


@pytest.mark.parametrize(
    ("relation", "size_public"),
    [(Neighbours.ADD_REMOVE, False), (Neighbours.REPLACE_ONE, False), (Neighbours.REPLACE_ONE, True)],
)
def test_brute_force_finds_no_loss_above_epsilon(relation, size_public):
    grid = ValueGrid(lower=0, upper=1, cells=8)

    def mechanism(counts, noise):
        options = {"epsilon": "0.7", "neighbours": relation, "size_public": size_public}
        ecdf.measure(ValueCounts(counts=counts, grid=grid), noise=noise, **options)

    losses = [worst_loss(mechanism, TABLE, other) for other in neighbours_of(TABLE, relation)]
    assert max(losses) == Fraction("0.7")  # what is paid for is used


def test_a_size_that_is_called_public_leaks_where_rows_can_be_left_out():
    """Why ``size_public`` is off unless it is asked for: a row replaced by a null changes the exact total."""
    tables = counted(np.array([0.2, 0.4])), counted(np.array([0.2, np.nan]))
    totals = [
        ecdf.measure(table, epsilon=1, neighbours=Neighbours.REPLACE_ONE, size_public=True, noise=SeededNoise(1)).tree
        for table in tables
    ]
    assert [tree.total for tree in totals] == [2, 1]
    private = ecdf.measure(tables[0], epsilon=1, neighbours=Neighbours.REPLACE_ONE, noise=SeededNoise(1))
    assert private.tree.total is None


def test_a_release_differs_between_draws_and_not_between_readings():
    statistic = counted(DATA_SETS["ordinary"])
    measurements = [ecdf.measure(statistic, epsilon=1) for _ in range(2)]
    assert not np.array_equal(*(measurement.tree.counts() for measurement in measurements))
    one, two = (ecdf.summarise(measurements[0], seed=9) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    assert replace(one, named="x").to_dict() != two.to_dict()


def test_bands_keep_no_more_of_simulated_errors_than_they_use(monkeypatch):
    """All errors of 200 copies would take 25 MiB; each of the chunks here has one copy."""
    monkeypatch.setattr(noise_model, "CHUNK_VALUES", 1)
    counts = np.full(2**14, 5)
    draw = ecdf.measure(ValueCounts(counts=counts, grid=ValueGrid(lower=0, upper=1, cells=counts.size)), epsilon=1)
    tracemalloc.start()
    ecdf.summarise(draw, seed=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * 2**20


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ({"upper": 120, "cells": 1024}, ["One cell holds about 40"]),
        ({"upper": 120, "step": 1}, []),
        ({"upper": 53, "step": 1}, ["at the upper bound, or beyond it"]),
    ],
    ids=["without a step", "with a step", "clamped"],
)
def test_a_report_says_that_many_rows_are_in_one_cell_or_at_a_bound(grid, said):
    from spark_jobs.diagnostics.ecdf.page import _heaped

    ages = np.concatenate([np.full(4000, 53.0), np.random.default_rng(1).integers(10, 100, 6000)])
    result = ecdf.release(ValueCounts.from_arrays(ages, lower=0, **grid), epsilon=5, noise=SeededNoise(1))
    found = _heaped(result)
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))
