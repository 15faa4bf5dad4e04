"""Tables whose keys are discovered: pandas' groups without noise, intervals given that a key is released, the page."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from dp_operators.budget.mechanism_events import drawn_events
from dp_operators.release_check import check_release
from spark_jobs.application.draft import draft, results_of
from spark_jobs.application.run import measure as measure_request
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expected_table import ExpectedTable
from spark_jobs.contract.figures import OK, WEAK
from spark_jobs.contract.headlines import headlines
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.diagnostics import aggregates
from spark_jobs.forecast import expected_widths
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.statistics import AggregateSums, SumsByKey
from tests.suites.diagnostic import DiagnosticSuite

BY = [{"column": "page", "keys": "discover", "min_units": 3}]
SPEND, STAY = {"of": "spend", "bounds": [0, 100], "step": 1}, {"of": "stay", "bounds": [-3, 12]}


def rows(number=3000, seed=1):
    random = np.random.default_rng(seed)
    page = np.char.add("/", (random.zipf(1.6, number) % 500).astype(str)).astype(object)
    page[random.random(number) < 0.02] = None
    return pd.DataFrame(
        {
            "person": random.integers(0, max(number // 3, 1), number),
            "page": page,
            "spend": np.where(random.random(number) < 0.03, np.nan, np.round(random.lognormal(3, 1.2, number))),
            "stay": random.normal(4, 5, number),
        }
    )


def summed(table, measures=(SPEND, STAY), unit=None, by=BY):
    columns = {name: table[name].to_numpy() for name in table}
    return SumsByKey.from_arrays(columns, by=by, measures=measures, unit=None if unit is None else columns[unit])


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("measures", [(), (SPEND,), (SPEND, STAY)], ids=["rows", "one", "two"])
def test_without_noise_it_is_pandas_groupby_of_the_keys_of_enough_units(measures, neighbours):
    table = rows()
    released = aggregates.release(
        summed(table, measures, "person"), epsilon=1e8, delta="1e-9", neighbours=neighbours, noise=SeededNoise(1)
    )
    names = [one["of"] for one in measures]
    complete = table.dropna(subset=["page", *names]).drop_duplicates(["person", "page"])
    for one in measures:
        complete[one["of"]] = complete[one["of"]].clip(*one["bounds"])
    exact = complete.groupby("page").agg({"person": "size", **dict.fromkeys(names, "sum")})
    exact = exact[exact["person"] > 3]  # one of exactly min_units is released with a chance of delta
    assert len(exact) > 40
    assert released.keys == (tuple(sorted(exact.index)),)
    exact = exact.loc[list(released.keys[0])]
    assert released.count.value == pytest.approx(exact["person"].to_numpy(), abs=1e-4)
    for name in names:
        assert released.of("sum", name).values.value == pytest.approx(exact[name].to_numpy(), abs=1e-3)
    assert set(np.array(released.status)[released.count.value > 4.5]) == {OK}


class TestForm(DiagnosticSuite):
    package = aggregates
    tables = {name: partial(summed, rows(number)) for name, number in (("many", 5000), ("few", 40))}
    empty = staticmethod(partial(summed, rows(0)))
    nasty = staticmethod(
        lambda: SumsByKey.from_arrays(
            {"page": ["a", None, 3, "\ud800", "x" * 300, 2.5] * 9, "spend": [np.nan, np.inf, -np.inf, 1e308, 0, 1] * 9},
            by=BY,
            measures=[SPEND],
        )
    )
    settings = [
        {"epsilon": "0.5", "delta": "1e-6", "neighbours": neighbours, "method": method}
        for neighbours in Neighbours
        for method in ("auto", "gaussian")
    ]
    sizes_follow_noise = True

    def check_form(self, result, options):
        super().check_form(result, options)
        assert result.epsilon == Decimal("0.5")
        assert result.released_above > 25
        assert (result.count.value > result.released_above).all()


def test_the_draw_spends_epsilon_and_delta_once():
    drawn = aggregates.measure(summed(rows()), epsilon="0.5", delta="1e-7", noise=SecureNoise())
    assert (drawn.epsilon, drawn.delta, len(drawn.spendings)) == (Decimal("0.5"), Decimal("1e-7"), 1)


def test_one_row_of_a_unit_counts_in_each_key_and_one_with_all_values():
    table = pd.DataFrame({"person": [1] * 40, "page": ["a"] * 40, "spend": [np.nan, 7.0] * 20})
    [batch] = summed(table, (SPEND,), "person").batches()
    assert (batch.rows.tolist(), batch.incomplete.tolist(), batch.sums.tolist()) == ([1], [0], [[7]])
    assert repr(batch) == "KeyBatch()"
    for seed in range(30):
        released = aggregates.release(
            summed(table, (), "person"), epsilon="0.01", delta="0.004", noise=SeededNoise(seed)
        )
        assert released.keys == ((),), "a key that one unit alone has"


SIZES = np.array([3, 8, 12, 15, 18, 20, 22, 25, 30, 60])
"""Keys are released above 10.8 noisy rows with one measure and 12.3 with two, of 3 units at least."""
LARGER = np.array([5, 14, 18, 22, 26, 30, 34, 40, 50, 90])
"""Likewise with Gaussian noise, above 18.5 and 21.9."""
COPIES = 6_000


@pytest.mark.verify
@pytest.mark.parametrize("method", ["k_norm", "gaussian"])
@pytest.mark.parametrize("measures", [1, 2])
@pytest.mark.parametrize("shape", [(2, 5), (0.4, 0.4)], ids=["skewed", "at both ends"])
def test_intervals_hold_given_that_a_key_is_released(measures, shape, method):
    """At 90%, of the released keys of each size of which there are 150 or more: at least 0.88, less three errors."""
    random = np.random.default_rng(3)
    sizes = LARGER if method == "gaussian" else SIZES
    size = np.tile(sizes, COPIES)
    group = np.repeat(np.arange(size.size), size)
    values = {f"v{number}": 100 * random.beta(*shape, group.size) for number in range(measures)}
    sums = SumsByKey.from_arrays(
        {"page": group, **values}, by=BY, measures=[{"of": name, "bounds": [0, 100]} for name in values]
    )
    released = aggregates.release(sums, epsilon=1, delta="1e-3", method=method, noise=SeededNoise(4))
    assert len(released.keys[0]) < size.size
    place = np.array(released.keys[0]).astype(int)
    total = np.bincount(group, values["v0"], minlength=size.size)[place]
    exact = {"count": size[place], "sum": total, "mean": total / size[place]}
    figures = {"count": released.count, **{name: released.of(name, "v0").values for name in ("sum", "mean")}}
    weak, seen = np.array(released.status) == WEAK, 0
    assert not np.isnan(released.of("mean", "v0").values.value[~weak]).any()
    for rows_of_key in sizes:
        own = size[place] == rows_of_key
        if own.sum() < 150:
            continue
        seen += 1
        for name, figure in figures.items():
            held = ((figure.lower <= exact[name]) & (exact[name] <= figure.upper))[own].mean()
            assert held >= 0.88 - 3 * np.sqrt(0.1 / own.sum()), (rows_of_key, name, held, own.sum())
    assert seen >= 6


def request(measures=(SPEND,), entry=None, unit=None, **budget):
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/visits", "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "aggregates", "by": BY, "measures": list(measures), **(entry or {})}],
            "unit": unit or {},
            "budget": {"epsilon": "1", "delta": "1e-6", **budget},
        }
    )


PERSONS = {"column": "person", "max_rows": 30}


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize(
    ("entry", "kinds"),
    [
        ({}, {"laplace"}),
        ({"max_groups": 2}, {"laplace"}),
        ({"max_groups": 20}, {"gaussian"}),
        ({"max_groups": 20, "method": "k_norm"}, {"laplace"}),
        ({"max_groups": 2, "method": "gaussian"}, {"gaussian"}),
        ({"method": "gaussian"}, {"gaussian"}),
    ],
)
def test_a_unit_costs_what_was_asked_for_with_the_noise_of_the_rule(entry, kinds, neighbours):
    """Its whole delta, and of epsilon all but a twentieth, which rows that do not count have."""
    asked = request(entry=entry, unit=PERSONS)
    [statistic] = asked.statistics
    drawn = measure_request(asked, {statistic: summed(rows(), (SPEND,))}, charge_id="c", noise=SecureNoise())
    [part] = drawn.parts
    [spending] = part.spendings
    epsilon = Decimal("0.95") if "max_groups" in entry else Decimal(1)
    assert (
        epsilon - Decimal("1e-15")
        < spending.epsilon
        <= part.cost.epsilon + Decimal("1e-20")
        <= epsilon + Decimal("1e-20")
    )
    assert part.cost.delta == Decimal("1e-6")
    assert spending.delta == pytest.approx(Decimal("1e-6"), rel=Decimal("1e-12"))
    assert drawn.noise[0].keys() == kinds
    [event] = drawn_events({"events": drawn.events}, max_rows=30)
    assert Decimal(event["epsilon"]) <= epsilon
    assert Decimal(event["delta"]) <= Decimal("1e-6")
    manifest, files = draft(asked, drawn, key="k", rules=())
    check_release(manifest, files.get)


def test_a_bound_on_a_persons_keys_has_more_of_them_released():
    """At 20 keys of a person, by the thresholds: 127 noisy rows with the bound, and 324 by its rows alone."""
    limits = []
    for entry in ({}, {"max_groups": 20}):
        asked = request((), entry, {"column": "person", "max_rows": 20})
        [statistic] = asked.statistics
        drawn = measure_request(asked, {statistic: summed(rows(), ())}, charge_id="c", noise=SecureNoise())
        limits.append(results_of(asked, drawn)[0]["aggregates"].released_above)
    assert limits[1] < limits[0] / 2.5


@pytest.mark.parametrize("number", [0, 3000])
@pytest.mark.parametrize("measures", [(), (SPEND,), (SPEND, STAY)], ids=["rows", "one", "two"])
def test_it_is_a_release_like_any_other_with_and_without_keys(number, measures):
    asked = request(measures)
    [statistic] = asked.statistics
    exact = summed(rows(number), measures)
    drawn = measure_request(asked, {statistic: exact}, charge_id="c", noise=SecureNoise())
    assert (drawn.cost.epsilon, drawn.cost.delta) == (1, Decimal("1e-6"))
    assert b"page" in drawn.to_json()
    assert drawn.noise[0].keys() == ({"laplace", "k_norm"} if len(measures) > 1 else {"laplace"})
    manifest, files = draft(asked, drawn, key="k", rules=())
    check_release(manifest, files.get)
    result = json.loads(manifest.to_bytes())["results"]["aggregates"]
    table = pq.read_table(io.BytesIO(files["aggregates.parquet"]))
    assert table.num_rows == len(result["keys"][0]) == len(result["status"])
    assert (number == 0) == (table.num_rows == 0)
    page = files["report.html"].decode()
    assert "a key that was found in the rows: of at least 3 units" in page
    assert ("No key was released" in page) == (number == 0)
    [first, *_] = headlines({"aggregates": result})
    assert first.name == "aggregates.rows"
    hidden = {key for batch in exact.batches() for key in batch.keys} - set(result["keys"][0])
    texts = b" ".join([drawn.to_json(), *files.values()])
    assert not any(f'"{key}"'.encode() in texts for key in hidden)


def test_the_same_draw_makes_the_same_table():
    """What a second attempt finds in the store is decoded, and no noise drawn anew."""
    drawn = aggregates.measure(summed(rows()), epsilon=1, delta="1e-6", noise=SecureNoise())
    again = aggregates.DIAGNOSTIC.measurement.decode(json.loads(json.dumps(drawn.to_dict())))
    assert aggregates.summarise(drawn, seed=1).to_dict() == aggregates.summarise(again, seed=2).to_dict()


def test_a_draw_of_public_groups_is_written_as_before():
    public = AggregateSums.from_arrays({"page": ["a"]}, by=[{"column": "page", "values": ["a"]}])
    drawn = aggregates.measure(public, epsilon=1, noise=SecureNoise()).to_dict()
    assert "discovered" not in drawn
    assert drawn["design"]["by"][0].keys() == {"column", "values", "edges", "every", "start", "end", "other"}
    result = aggregates.release(public, epsilon=1, noise=SecureNoise()).to_dict()
    assert {"released_above", "min_units"}.isdisjoint(result)


def test_a_forecast_is_of_keys_of_a_thousand_rows():
    (widths,) = expected_widths(request((SPEND,)), ExpectedTable(rows=50_000))
    assert widths.widths["mean of spend"] == pytest.approx(2 * 1.65 * 50 * 2 / 1000, rel=0.3)


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: request(delta="0"), "budget.delta: got '0'; must be above 0 for aggregates with these options"),
        (
            lambda: request(entry={"max_groups": 3, "max_rows_per_group": 1}, unit=PERSONS),
            "max_rows_per_group: got 1; must be left out if keys are discovered: a unit has one row in each",
        ),
        (
            lambda: request(entry={"max_groups": 3, "unit_totals": True}, unit=PERSONS),
            "unit_totals: got True; must be left out if keys are discovered: a unit has one row in each",
        ),
        (
            lambda: request(entry={"max_groups": 31}, unit=PERSONS),
            "max_groups: got '31 groups of 1'; must allow a unit at most 30 rows in all its groups together",
        ),
        (
            lambda: aggregates.release(summed(rows()), epsilon=1, method="gaussian"),
            "delta: got 0; must be above 0, and small beside",
        ),
        (lambda: AggregateSums.from_arrays({"page": ["a"]}, by=BY), "by: got 'page'; must have public groups"),
        (lambda: summed(rows(), by=[{"column": "page", "values": ["/1"]}]), "by: must be one dimension with keys: dis"),
        (lambda: SumsByKey.from_arrays({}, by=BY), "columns: got 'page'; must be among the columns"),
        (lambda: SumsByKey.from_arrays({"page": [1.5]}, by=BY), "must be one column of texts or whole numbers"),
        (
            lambda: SumsByKey.from_arrays({"page": ["a"], "spend": [1, 2]}, by=BY, measures=[SPEND]),
            "columns: must have the same length",
        ),
        (
            lambda: aggregates.release(summed(rows()), epsilon=1, delta="1e-6", marginals=[[]]),
            "marginals: got [()]; must be left out with keys: discover",
        ),
        (lambda: aggregates.release(summed(rows()), epsilon=1), "delta: got 0; must be above 0, and small beside"),
    ],
)
def test_what_cannot_be_discovered_is_refused_in_a_line(make, line):
    with pytest.raises(InvalidRequest) as refused:
        make()
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
