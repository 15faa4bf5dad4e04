"""The profile of a table: its cells, its figures beside pandas, its intervals and its bad requests."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options.profile import ProfileColumn, ProfileOptions
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import profile
from spark_jobs.diagnostics.profile.page import render
from spark_jobs.diagnostics.profile.plots import merged
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import ProfileCounts
from tests.suites.diagnostic import DiagnosticSuite

AGE = {"column": "age", "bounds": [0, 120], "step": 1}
SPEND = {"column": "spend", "bounds": [0, 1000], "scale": "log"}
PLAN = {"column": "plan", "values": ["a", "b", "c"]}
DAY = {"column": "day", "start": "2024-01-01", "end": "2025-01-01"}
COLUMNS = [AGE, SPEND, PLAN, DAY]
PAIRS = [("age", "plan")]
SITE = {"column": "site", "values": ["a", "b"]}
FLAG = {"column": "flag", "values": ["true", "false"]}
EXAMPLES = [
    {"columns": [AGE, SPEND, SITE, FLAG], "pairs": [("age", "site")]},
    {"columns": [{"column": "person", "bounds": [0, 900], "step": 1}], "bins": 32, "quantiles": ()},
]


def rows(count, seed=7):
    rng = np.random.default_rng(seed)
    days = np.datetime64("2024-01-01") + rng.integers(0, 400, count).astype("timedelta64[D]")
    return {
        "age": np.where(rng.random(count) < 0.1, np.nan, rng.integers(18, 140, count).astype(float)),
        "spend": rng.lognormal(3, 1.5, count),
        "plan": rng.choice(np.array(["a", "b", "c", "x", None], dtype=object), count),
        "day": days,
    }


def counted(count, **others):
    return ProfileCounts.from_arrays(rows(count), **{"of": COLUMNS, "pairs": PAIRS, **others})


def nasty():
    return ProfileCounts.from_arrays(
        {
            "age": [np.nan, np.inf, -np.inf, 1e300],
            "spend": [-1.0, 0.0, np.nan, 1e400],
            "plan": [None, float("nan"), "", True],
            "day": np.array(["NaT", "1600-01-01", "9999-12-31", "2024-05-05"], dtype="datetime64[us]"),
        },
        of=COLUMNS,
        pairs=PAIRS,
    )


class TestProfile(DiagnosticSuite):
    package = profile
    tables = {"many": partial(counted, 20_000), "one": partial(counted, 1)}
    empty = staticmethod(partial(counted, 0))
    nasty = staticmethod(nasty)
    settings = [{"epsilon": "1"}, {"epsilon": "1e-3", "quantiles": (0.1,), "confidence": 0.5}]


def test_without_noise_it_is_pandas_of_the_clipped_rows():
    table = pd.DataFrame(rows(5000))
    age, spend, plan, day = profile.release(counted(5000), epsilon=1e9, noise=SeededNoise(1)).columns
    clipped = table.age.clip(0, 120)
    assert age.mean.value == pytest.approx(clipped.mean(), abs=1e-9)
    assert age.quantiles.value.tolist() == np.quantile(clipped.dropna(), age.levels, method="inverted_cdf").tolist()
    assert age.missing.value == pytest.approx(table.age.isna().mean(), abs=1e-9)
    assert age.outside.value == pytest.approx((table.age > 120).mean(), abs=1e-9)
    shares = table.plan.value_counts(normalize=False).reindex(["a", "b", "c"]) / len(table)
    assert plan.shares.value == pytest.approx(shares.to_numpy(), abs=1e-9)
    assert (plan.missing.value, plan.outside.value) == pytest.approx(
        (table.plan.isna().mean(), (table.plan == "x").mean()), abs=1e-9
    )
    edges = ProfileColumn.parse(SPEND).edges(128)
    assert spend.count.value.tolist() == np.histogram(table.spend, edges)[0].tolist()
    assert spend.mean.lower <= table.spend.clip(0, 1000).mean() <= spend.mean.upper
    assert all(spend.quantiles.lower <= np.quantile(table.spend.clip(0, 1000), spend.levels, method="inverted_cdf"))
    weeks = table.day[table.day < "2025-01-01"].dt.to_period("W-SUN").value_counts().sort_index()
    assert day.count.value.tolist() == weeks.tolist()


def test_a_pair_is_the_cross_table_without_noise():
    table = pd.DataFrame(rows(3000))
    (pair,) = profile.release(counted(3000), epsilon=1e9, noise=SeededNoise(1)).pairs
    ends = ProfileColumn.parse(AGE).ends(12)
    ages = pd.cut(table.age, [ends[0][0] - 0.5, *(high + 0.5 for _, high in ends)], labels=False).fillna(len(ends))
    plans = table.plan.map({"a": 0, "b": 1, "c": 2}).fillna(3)
    expected = pd.crosstab(ages, plans).reindex(range(len(ends) + 1), fill_value=0)
    assert pair.count.value.reshape(len(ends) + 1, 4).tolist() == expected.to_numpy().tolist()
    assert pair.count.value.sum() == 3000


def test_every_row_is_in_one_cell_of_each_column_whatever_its_value():
    assert [int(one.counts.sum()) for one in nasty()] == [4] * 5
    age, *_ = nasty()
    assert age.counts[-4:].tolist() == [1, 2, 1, 0], "below, above, missing, unparsed"


@pytest.mark.parametrize(
    ("given", "bins", "ends"),
    [
        ({"bounds": [0, 3], "step": 1}, 8, ((0, 0), (1, 1), (2, 2), (3, 3))),
        ({"bounds": [0, 10], "step": 1}, 4, ((0, 2), (3, 5), (6, 8), (9, 10))),
        ({"bounds": [0, 1]}, 2, ((0, 0.5), (0.5, 1))),
        ({"bounds": [1, 100], "scale": "log"}, 2, ((1, 10), (10, 100))),
    ],
)
def test_bins_end_at_values_that_can_occur(given, bins, ends):
    assert ProfileColumn.parse({"column": "n", **given}).ends(bins) == tuple(map(pytest.approx, ends))


def test_values_of_a_step_lie_within_their_bins():
    column = ProfileColumn.parse({"column": "price", "bounds": [0, 12.7], "step": 0.1})
    edges, values = column.edges(128), np.arange(128) / 10
    assert len(edges) == 129
    assert np.array_equal(np.searchsorted(edges, values, side="right") - 1, np.arange(128))


def test_a_column_within_the_noise_is_weak_and_has_no_figures():
    result = profile.release(counted(30), epsilon="0.05", noise=SeededNoise(3))
    assert set(result.status) == {"weak"}
    age = result.columns[0]
    assert (age.mean.value, age.missing.value) == (None, None)
    assert np.isnan(age.quantiles.value).all()
    assert age.mean.lower < age.mean.upper
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_columns_share_epsilon_and_the_last_gets_what_is_left():
    draw = profile.measure(counted(10), epsilon="1.0000000000000000000000001", noise=SeededNoise(1))
    assert len(draw.spendings) == 5
    assert draw.epsilon == Decimal("1.0000000000000000000000001")
    assert max(one.epsilon for one in draw.tables) < 0.2001


def test_noise_is_twice_as_wide_where_rows_are_replaced():
    added, replaced = (
        profile.measure(counted(10), epsilon="1", neighbours=neighbours, noise=SeededNoise(1)).tables[0].scale
        for neighbours in ("add_remove", "replace_one")
    )
    assert replaced == pytest.approx(2 * added)


def test_intervals_hold_as_often_as_they_say():
    held = {}
    for seed in range(120):
        table = pd.DataFrame(rows((10, 100, 1000)[seed % 3], seed))
        counts = ProfileCounts.from_arrays({name: table[name].to_numpy() for name in table}, of=[AGE, PLAN])
        age, plan = profile.release(counts, epsilon=1, noise=SeededNoise(seed)).columns
        clipped = table.age.clip(0, 120)
        exact = [
            ("missing", age.missing, table.age.isna().mean()),
            ("mean", age.mean, clipped.mean()),
            *(("share", plan.shares.at(place), (table.plan == name).mean()) for place, name in enumerate("abc")),
            *(("count", plan.count.at(place), (table.plan == name).sum()) for place, name in enumerate("abc")),
            *(
                ("quantile", age.quantiles.at(place), np.quantile(clipped.dropna(), level, method="inverted_cdf"))
                for place, level in enumerate(age.levels)
            ),
        ]
        for name, figure, value in exact:
            held.setdefault(name, []).append(figure.lower - 1e-9 <= value <= figure.upper + 1e-9)
    for name, of_name in held.items():
        assert np.mean(of_name) > 0.9 - 4 * np.sqrt(0.09 / 120), name


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"columns": []}, "must list at least one column in a request without an account"),
        ({"columns": [AGE, AGE]}, "columns: got 'age'; must be listed only once"),
        ({"columns": ["age"]}, "columns.age: must have values, bounds, or start and end"),
        ({"columns": [{"column": "age", "bounds": [5, 1]}]}, "must be two numbers in ascending order"),
        (
            {"pairs": [("age", "plan"), ("plan", "age")]},
            "must be a pair of two different columns, and must be listed only once",
        ),
        ({"pairs": [("age", "agee")]}, "pairs: got 'agee'; must be one of the profile's columns"),
        ({"columns": [{"column": "v", "values": [*range(500)]}, PLAN, AGE], "pairs": [("v", "age")]}, "2,500 cells"),
        (
            {"columns": [{"column": f"v{place}", "values": [*range(4990)]} for place in range(30)], "pairs": ()},
            "100,000 values",
        ),
        ({"quantiles": (0,)}, "quantiles"),
    ],
)
def test_what_does_not_fit_is_refused(changes, line):
    with pytest.raises(InvalidRequest) as refused:
        ProfileOptions.parse({"kind": "profile", "columns": COLUMNS, "pairs": PAIRS, **changes})
    assert line in str(refused.value)


def test_the_page_draws_a_picture_for_each_column_and_pair():
    request = ReleaseRequest.parse(
        {
            "table": {"path": "/lake/customers", "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "profile", "columns": COLUMNS, "pairs": PAIRS}],
            "budget": {"epsilon": "1"},
        }
    )
    for epsilon in ("2", "1e-3"):
        rendering = render(profile.release(counted(4000), epsilon=epsilon, noise=SeededNoise(1)), request)
        drawn = [plot for of in rendering.multiples for _, _, plot in of.plots]
        assert len(drawn) == len(COLUMNS) + len(PAIRS)
        assert all(plot.draw(False).axes for plot in (*rendering.plots, *drawn))
        assert {column.values.size for column in rendering.columns.values()} == {121 + 128 + 3 + 53}
        assert rendering.tables["profile_pair_0"]["count"].values.size == (11 + 1) * (3 + 1)


def test_bars_are_sums_of_neighbouring_bins():
    values, each = merged(np.arange(100.0))
    assert (values.sum(), each, values[0]) == (4950.0, 4, 0 + 1 + 2 + 3)
