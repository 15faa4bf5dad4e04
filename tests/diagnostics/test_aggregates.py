"""Tables of aggregates: equal to pandas without noise, intervals that hold for groups of any size, and their page."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_operators.release_check import check_release
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure as measure_request
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.figure_names import figure_named
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.options import AggregatesSettings
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.results.aggregates import AggregateTable
from spark_jobs.diagnostics import aggregates
from spark_jobs.diagnostics.aggregates.estimates import estimates
from spark_jobs.diagnostics.aggregates.measurement import measure_cells
from spark_jobs.diagnostics.aggregates.summary import summarise
from spark_jobs.diagnostics.diagnostic import Terms
from spark_jobs.forecast import expected_widths
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import AggregateSums
from tests.suites.diagnostic import DiagnosticSuite

REGIONS = ["north", "south", "east"]
BY = [
    {"column": "region", "values": REGIONS},
    {"column": "age", "edges": [0, 18, 65, 120]},
    {"column": "at", "every": "quarter", "start": "2025-01-01", "end": "2026-01-01"},
]
PERSONS = {"of": "person", "figures": ["units"]}
SPEND, STAY = {"of": "spend", "bounds": [0, 200], "step": 0.01}, {"of": "stay", "bounds": [-3, 12]}


def rows(number=3000, seed=1):
    random = np.random.default_rng(seed)
    days = np.datetime64("2024-12-01") + random.integers(0, 430, number).astype("timedelta64[D]")
    missing = random.random(number) < 0.03
    return pd.DataFrame(
        {
            "region": random.choice([*REGIONS, "west", None], number),
            "age": random.integers(-2, 130, number).astype(float),
            "at": days.astype("datetime64[us]"),
            "spend": np.where(missing, np.nan, np.round(random.lognormal(3, 1.2, number), 2)),
            "stay": random.normal(4, 5, number),
            "person": random.integers(0, 1000, number),
        }
    )


def summed(table, by=BY, measures=(SPEND, STAY)):
    return AggregateSums.from_arrays({name: table[name].to_numpy() for name in table}, by=by, measures=measures)


def by_pandas(table, measures):
    """pandas' groupby of clipped values, of rows that have all of them; one row for each cell, in the table's order."""
    ages = pd.cut(table["age"].where(table["age"] != 120, 119.5), [0, 18, 65, 120], right=False, labels=False)
    quarter = table["at"].dt.quarter.where(table["at"].dt.year == 2025)
    keys = [
        table["region"].map({name: place for place, name in enumerate(REGIONS)}).fillna(3),
        ages.fillna(3),
        quarter.fillna(5) - 1,
    ]
    values = table[[one["of"] for one in measures]].dropna()
    values = values.clip(*np.transpose([one["bounds"] for one in measures]), axis=1)
    cell = (keys[0] * 4 + keys[1]) * 5 + keys[2]
    groups = values.groupby(cell[values.index].astype(int))
    every = pd.RangeIndex(4 * 4 * 5)
    return {
        "count": groups.size().reindex(every, fill_value=0),
        "sum": groups.sum().reindex(every, fill_value=0.0),
        "mean": groups.mean().reindex(every),
    }


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("measures", [(SPEND,), (STAY,), (SPEND, STAY)], ids=["a step", "no step", "two"])
def test_without_noise_it_is_pandas_groupby_of_clipped_values(measures, neighbours):
    table = rows()
    released = aggregates.release(
        summed(table, measures=measures), epsilon=1e8, neighbours=neighbours, noise=SeededNoise(1)
    )
    exact = by_pandas(table, measures)
    some = exact["count"] > 0
    assert some.sum() >= 75
    alone = len(measures) == 1
    assert released.count.value == pytest.approx(exact["count"].to_numpy(), abs=0 if alone else 1e-5)
    for one in measures:
        off = 0 if "step" in one else 15 / 2**22
        close = 1e-10 if "step" in one and alone else 1e-5 + off
        found = released.of("mean", one["of"]).values
        assert found.value[some] == pytest.approx(exact["mean"][one["of"]][some].to_numpy(), abs=close)
        sums = released.of("sum", one["of"]).values
        assert sums.value == pytest.approx(exact["sum"][one["of"]].to_numpy(), abs=100 * close, rel=1e-8)
        # at 90% not all hold; without noise they are as wide as what rounding may have moved
        assert (sums.lower - 1e-3 <= exact["sum"][one["of"]]).all()
        assert (exact["sum"][one["of"]] <= sums.upper + 1e-3).all()


class TestForm(DiagnosticSuite):
    package = aggregates
    tables = {name: partial(summed, rows(number)) for name, number in (("many", 5000), ("few", 40))}
    empty = staticmethod(partial(summed, rows(0)))
    nasty = staticmethod(
        lambda: AggregateSums.from_arrays(
            {"g": ["a", None, 3, "\ud800"], "v": [np.nan, np.inf, -np.inf, 1e308], "w": [None, True, 5e-324, "x"]},
            by=[{"column": "g", "values": ["a", 3]}],
            measures=[{"of": "v", "bounds": [0, 1]}, {"of": "w", "bounds": [0, 1]}],
        )
    )
    settings = [{"epsilon": "0.5", "neighbours": neighbours} for neighbours in Neighbours]
    settings += [{"epsilon": "0.5", "marginals": [[]]}]

    def check_form(self, result, options):
        super().check_form(result, options)
        assert result.epsilon == Decimal("0.5")


SIZES = (0, 1, 3, 10, 100, 1000)
COPIES = 300


@pytest.mark.parametrize("measures", [1, 2])
@pytest.mark.parametrize("shape", [(2, 5), (0.4, 0.4)], ids=["skewed", "at both ends"])
def test_intervals_hold_for_groups_of_every_size(measures, shape):
    """At 90%, over 300 groups of each size: at least 0.85 and at most 0.97, four standard errors around it."""
    random = np.random.default_rng(3)
    keys = np.arange(COPIES * len(SIZES))
    group = np.repeat(keys, np.tile(SIZES, COPIES))
    values = {f"v{number}": 100 * random.beta(*shape, group.size) for number in range(measures)}
    sums = AggregateSums.from_arrays(
        {"g": group, **values},
        by=[{"column": "g", "values": keys.tolist(), "other": False}],
        measures=[{"of": name, "bounds": [0, 100]} for name in values],
    )
    released = aggregates.release(sums, epsilon=1, noise=SeededNoise(4))
    size = np.bincount(group, minlength=keys.size)
    total = np.bincount(group, values["v0"], minlength=keys.size)
    exact = {"mean": np.where(size, total / np.maximum(size, 1), 50.0), "sum": total}
    figures = {name: (released.of(name, "v0").values, exact[name]) for name in exact}
    for figure, true in (*figures.values(), (released.count, size)):
        held = ((figure.lower <= true) & (true <= figure.upper)).reshape(COPIES, -1).mean(axis=0)
        assert (held >= 0.83).all(), held
        assert (held <= 0.97).all(), held
    status = np.array(released.status).reshape(COPIES, -1)
    assert (status[:, 0] == WEAK).all()
    assert (status[:, -2:] == OK).all()


def test_the_noise_is_that_of_the_law():
    """Two numbers of a cell have 2 / epsilon each, where two queries at half of epsilon each have 2.83 / epsilon."""
    empty = AggregateSums.from_arrays(
        {"g": np.array([], dtype=object)}, by=[{"column": "g", "values": list(range(20_000))}], measures=[]
    )
    for measures, stddev in ((0, 1.357), (1, 2.0), (2, 2.582), (3, 3.162), (4, 3.742)):
        names = [f"v{number}" for number in range(measures)]
        sums = AggregateSums.from_arrays(
            {"g": np.array([], dtype=object), **{name: [] for name in names}},
            by=empty.design.by,
            measures=[{"of": name, "bounds": [-1, 1], "figures": ["sum"]} for name in names],
        )
        released = aggregates.release(sums, epsilon=1, noise=SeededNoise(7))
        assert released.count.value.std() == pytest.approx(stddev, rel=0.03)
        for name in names:
            assert released.of("sum", name).values.value.std() == pytest.approx(stddev, rel=0.03)


def test_no_empty_cell_of_a_thousand_is_taken_for_one_with_rows():
    by = [{"column": "g", "values": list(range(1000))}]
    empty = AggregateSums.from_arrays(
        {"g": np.array([], dtype=object), "v": []}, by=by, measures=[{"of": "v", "bounds": [0, 1]}]
    )
    shown = sum(OK in aggregates.release(empty, epsilon=1, noise=SeededNoise(seed)).status for seed in range(200))
    assert shown <= 20


def test_a_mean_of_less_than_a_noisy_row_is_within_its_interval():
    """At a large epsilon an empty cell may be taken for one of a fraction of a row; a release is refused otherwise."""
    by = [{"column": "g", "values": list(range(20))}]
    empty = AggregateSums.from_arrays(
        {"g": np.array([], dtype=object), "v": []}, by=by, measures=[{"of": "v", "bounds": [0, 1]}]
    )
    shown = 0
    for seed in range(300):
        released = aggregates.release(empty, epsilon=90, noise=SeededNoise(seed))
        shown += OK in released.status
        assert AggregateTable.violations(json.loads(json.dumps(released.to_dict()))) == []
    assert shown >= 2


def test_a_row_without_a_value_is_counted_apart_and_of_no_mean():
    columns = {"g": ["a"] * 300 + ["b"] * 300, "v": [1.0] * 200 + [None] * 100 + [3.0] * 300}
    by, measures = [{"column": "g", "values": ["a", "b"], "other": False}], [{"of": "v", "bounds": [0, 4], "step": 1}]
    released = aggregates.release(
        AggregateSums.from_arrays(columns, by=by, measures=measures), epsilon=1e8, noise=SeededNoise(1)
    )
    assert released.count.value.tolist() == [200, 300]
    assert released.incomplete.tolist() == [100, 0]
    assert released.rows == 600
    assert released.of("mean", "v").values.value.tolist() == [1, 3]


MARGINALS = [["region", "at"], ["age"], []]


def test_weights_share_the_budget_and_the_total_is_as_near_as_its_share_says():
    sums, weights = summed(rows(400), by=BY[:1], measures=()), (1.0, 3.0)
    settings = AggregatesSettings(marginals=((),), weights=weights)
    terms = [Terms(epsilon=2, noise=SeededNoise(seed)) for seed in range(400)]
    draws = [measure_cells(sums, settings, one) for one in terms]
    assert [one.epsilon for one in draws[0].spendings] == [Decimal("0.5"), Decimal("1.5")]
    totals = [summarise(one, seed=1).marginals[0].rows for one in draws[:100]]
    totals += [estimates(one, 1)[1].rows[0] for one in draws[100:]]
    cells = len(REGIONS) + 1
    apart = [cells * 2 / 0.5**2, 2 / 1.5**2]  # of the sum of the cells, and of the total itself
    expected = np.sqrt(1 / sum(1 / one for one in apart))
    assert np.std(totals) == pytest.approx(expected, rel=0.15)
    equal = measure_cells(sums, AggregatesSettings(marginals=((),)), Terms(epsilon=2, noise=SeededNoise(1)))
    assert {one.epsilon for one in equal.spendings} == {Decimal(1)}


def test_marginals_agree_with_the_cells_and_with_pandas():
    table = rows()
    released = aggregates.release(summed(table), epsilon=1, marginals=MARGINALS, noise=SeededNoise(3))
    cells = {name: figure.value.reshape(4, 4, 5) for name, figure in figures_of(released)}
    for one, axes in zip(released.marginals, ((1,), (0, 2), (0, 1, 2)), strict=True):
        for name, figure in figures_of(one):
            assert figure.value == pytest.approx(cells[name].sum(axis=axes).ravel(), rel=1e-6, abs=1e-6)
    assert [one.by for one in released.marginals] == [("region", "at"), ("age",), ()]
    assert released.marginals[2].rows == pytest.approx(released.rows, rel=1e-9)
    exact = aggregates.release(summed(table), epsilon=1e8, marginals=MARGINALS, noise=SeededNoise(3))
    groups = by_pandas(table, (SPEND, STAY))
    sizes = groups["count"].to_numpy().reshape(4, 4, 5)
    assert exact.marginals[0].count.value == pytest.approx(sizes.sum(axis=1).ravel(), abs=1e-4)
    total = groups["sum"]["spend"].sum() / groups["count"].sum()
    assert exact.marginals[2].of("mean", "spend").values.value[0] == pytest.approx(total, abs=1e-4)


def test_a_release_ends_with_its_rows_and_can_be_gated_by_them():
    released = aggregates.release(summed(rows()), epsilon=1e6, noise=SeededNoise(3))
    fields = {"aggregates": json.loads(json.dumps(released.to_dict(), allow_nan=False))}
    (line,) = headlines(fields)
    assert (line.name, line.status) == ("aggregates.rows", OK)
    assert str(line).startswith("rows 3,000")
    assert figure_named(fields, "aggregates.rows") == pytest.approx(3000, abs=1)


def test_a_forecast_says_the_width_of_each_figure():
    """Of 1,000 rows a cell and values up to 200, a mean is known to 1.65 * 100 * 2 / 1,000 on either side."""
    asked = request(by=[{"column": "region", "values": list(range(9))}], measures=[SPEND, {**STAY, "figures": ["sum"]}])
    (alone,) = expected_widths(request(by=BY[:1], measures=[SPEND]), ExpectedTable(rows=4000))
    (widths,) = expected_widths(asked, ExpectedTable(rows=10_000))
    assert set(widths.widths) == {"count_lower to count_upper", "mean of spend", "sum of spend", "sum of stay"}
    assert 0.6 < alone.widths["mean of spend"] < 1.0
    assert alone.widths["count_lower to count_upper"] == pytest.approx(2 * 3.27, rel=0.02)


def figures_of(table):
    return [("count", table.count), *((one.of, one.values) for one in table.measures if one.name == "sum")]


@pytest.mark.verify
@pytest.mark.parametrize("measures", [0, 1, 2])
def test_marginals_are_as_near_as_the_formula_says_and_their_intervals_hold(measures):
    """Of 12 by 5 cells with both margins and the total, all at a quarter: 5.0, 5.1 and 5.0 at epsilon 1, for rows."""
    random = np.random.default_rng(1)
    names = ["v", "w"][:measures]
    columns = {"a": random.choice(12, 4000, p=np.arange(1, 13) / 78), "b": random.choice(5, 4000)}
    columns |= {name: 100 * random.beta(2, 5, 4000) for name in names}
    by = [{"column": name, "values": list(range(size)), "other": False} for name, size in (("a", 12), ("b", 5))]
    sums = AggregateSums.from_arrays(columns, by=by, measures=[{"of": name, "bounds": [0, 100]} for name in names])
    marginals = [["a"], ["b"], []]
    exact = aggregates.release(sums, epsilon=1e9, marginals=marginals, noise=SeededNoise(1))
    errors, held = [[] for _ in range(4)], []
    for seed in range(60):
        released = aggregates.release(sums, epsilon=1, marginals=marginals, noise=SeededNoise(seed))
        pairs = zip((released, *released.marginals), (exact, *exact.marginals), strict=True)
        for place, (one, true) in enumerate(pairs):
            errors[place].append(one.count.value - true.count.value)
            held.append((one.count.lower <= true.count.value) & (true.count.value <= one.count.upper))
            for name in names:
                mean = true.of("sum", name).values.value / np.maximum(true.count.value, 1)
                interval = one.of("mean", name).values
                held.append((interval.lower <= mean) & (mean <= interval.upper))
    single = {0: 1.414, 1: 2.0, 2: 2.582}[measures] / 1.414
    # of the total there are 60 errors, whose spread is known to a tenth
    for one, stddev, near in zip(errors, (5.0, 5.05, 5.05, 5.0), (0.1, 0.15, 0.25, 0.4), strict=True):
        assert np.concatenate(one).std() == pytest.approx(stddev * single, rel=near)
    assert np.concatenate(held).mean() == pytest.approx(0.9, abs=0.025)


def request(**options):
    return ReleaseRequest.parse(
        {
            "unit": {"column": "person", "max_rows": 3} if PERSONS in options.get("measures", ()) else {},
            "table": {"path": "/lake/payments", "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "aggregates", **options}],
            "budget": {"epsilon": "1"},
        }
    )


@pytest.mark.parametrize("number", [0, 3000])
@pytest.mark.parametrize(
    "options",
    [
        {"by": BY, "measures": [SPEND, STAY]},
        {"by": BY, "measures": [SPEND], "marginals": [["region", "at"], []]},
        {"by": BY[:1]},
        {"measures": [SPEND]},
        {"by": BY, "measures": [SPEND, PERSONS]},
    ],
    ids=["3", "with marginals", "1", "0", "units"],
)
def test_it_has_a_page_and_a_file_of_public_shape(options, number):
    asked = request(**options)
    [statistic] = asked.statistics
    exact = summed(rows(number), by=options.get("by", ()), measures=options.get("measures", ()))
    drawn = measure_request(asked, {statistic: exact}, charge_id="c", noise=SecureNoise())
    manifest, files = draft(asked, drawn, key="k", rules=())
    check_release(manifest, files.get)
    table = pq.read_table(io.BytesIO(files["aggregates.parquet"]))
    assert table.num_rows == statistic.cells
    assert [name for name in table.column_names if name.startswith("by_")] == [
        f"by_{one['column']}" for one in options.get("by", ())
    ]
    figures = {f"{'units' if one is PERSONS else 'mean'}_{one['of']}" for one in options.get("measures", ())}
    assert figures | {"status", "count", "count_lower", "count_upper"} <= set(table.column_names)
    assert len(table.column_names) == len(set(table.column_names))
    marginals = [
        pq.read_table(io.BytesIO(files[f"aggregates_marginal_{place}.parquet"])).num_rows
        for place in range(len(options.get("marginals", ())))
    ]
    assert marginals == [20, 1][: len(marginals)]
    page = files["report.html"].decode()
    assert "Each row of the table is a cell" in page
    assert json.loads(manifest.to_bytes())["results"]["aggregates"]["by"] == [
        one["column"] for one in options.get("by", ())
    ]
