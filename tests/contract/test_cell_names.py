"""Names of single cells of tables of aggregates: quoting, what is refused, and the bound on what is repeated."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.cell_names import CellName, parts_of, recorded_label, written
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.figure_names import LIMIT, figure_columns, figure_named, groups_of, parse_name
from spark_jobs.contract.gates import Gate, gate_of
from spark_jobs.contract.headlines import figures_text, headlines, recorded_text
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums

REGIONS = ["north", "St. John's", 'the "far" east', "*", "count"]
EDGES = [0, 0.5, 1]
BY = [{"column": "region", "values": REGIONS, "other": False}, {"column": "share", "edges": EDGES, "other": False}]
SPEND = {"of": "spend", "bounds": [0, 100], "step": 0.01}
SQUARE = {"of": "a.b", "bounds": [0, 1], "figures": ["mean"]}
MARGINALS = [["region"], []]


def table(
    by: list[dict[str, Any]] | None = None,
    marginals: Any = MARGINALS,
    epsilon: str = "1000",
    measures: Any = (SPEND, SQUARE),
    rows: int = 4000,
) -> dict[str, Any]:
    random = np.random.default_rng(1)
    columns = {
        "region": random.choice(REGIONS[:-1], rows),
        "share": random.random(rows),
        "spend": random.gamma(2, 10, rows),
        "a.b": random.random(rows),
    }
    sums = AggregateSums.from_arrays(columns, by=BY if by is None else by, measures=list(measures))
    result = aggregates.release(sums, epsilon=epsilon, marginals=marginals, noise=SeededNoise(1))
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


RESULTS = {"aggregates": table()}
REQUESTED = [
    AggregatesOptions.parse({"kind": "aggregates", "by": BY, "measures": [SPEND, SQUARE], "marginals": MARGINALS})
]


@given(text=st.text(max_size=8), other=st.text(max_size=8))
def test_what_is_written_is_read_back(text: str, other: str) -> None:
    parts = parts_of(f"{written(text)}.{written(other)}")
    assert [part.text for part in parts] == [text, other]
    assert parts_of(written(text, quoted=True))[0].text == text


@pytest.mark.parametrize(
    ("name", "cell", "field"),
    [
        ("north.0 to 1.count", None, None),
        ('north."0 to 0.5".count', 0, "count"),
        ('north."0.5 to 1".count.upper', 1, "count_upper"),
        ('"north"."0 to 0.5".incomplete', 0, "incomplete"),
        ('"St. John\'s"."0 to 0.5".count.lower', 2, "count_lower"),
        ('"the ""far"" east"."0.5 to 1".count', 5, "count"),
        ('"*"."0.5 to 1".count', 7, "count"),
        ('count."0.5 to 1".count', 9, "count"),
    ],
)
def test_a_cell_is_named_by_its_groups(name: str, cell: int | None, field: str | None) -> None:
    if cell is None:
        with pytest.raises(InvalidRequest, match='0 to 1 is none of "0 to 0.5", "0.5 to 1", the groups of share'):
            figure_named(RESULTS, f"aggregates.{name}")
    else:
        assert figure_named(RESULTS, f"aggregates.{name}") == RESULTS["aggregates"][str(field)][cell]


def test_measures_have_names_and_ends() -> None:
    measures = {(one["name"], one["of"]): one for one in RESULTS["aggregates"]["measures"]}
    name = 'aggregates.north."0.5 to 1"'
    for figure, written_as in ((("mean", "spend"), "mean.spend"), (("mean", "a.b"), 'mean."a.b"')):
        for end, field in (("", "values"), (".lower", "lower"), (".upper", "upper")):
            assert figure_named(RESULTS, f"{name}.{written_as}{end}") == measures[figure][field][1]


def test_a_level_in_the_name_of_a_figure_stands_in_quotes() -> None:
    errors = [{"of": "a.b", "bounds": [-1, 1], "figures": ["pinball_0.9", "mae"]}]
    result = {"aggregates": table(by=[], marginals=[], measures=errors)}
    name = 'aggregates."pinball_0.9"."a.b"'
    assert figure_named(result, f"{name}.upper") == result["aggregates"]["measures"][0]["upper"][0]
    assert name in figure_columns(result)
    options = AggregatesOptions.parse({"kind": "aggregates", "measures": errors})
    gate = gate_of(f"{name}.lower < 0.5", [options])
    assert gate is not None
    assert gate.name == f"{name}.lower"
    assert recorded_label('"pinball_0.9"."a.b"') == "pinball_0.9 of a.b"


def test_quantiles_have_names_of_cells() -> None:
    spend = {"of": "spend", "bounds": [0, 40], "figures": ["p50", "p99.9", "mean"]}
    result = {"aggregates": table(measures=[spend])}
    for place, written_as in enumerate(("p50.spend", '"p99.9".spend')):
        name, values = f'aggregates.north."0.5 to 1".{written_as}', result["aggregates"]["measures"][place]
        assert figure_named(result, f"{name}.upper") == values["upper"][1]
        assert name in figure_columns(result)
    assert recorded_label('north.*."p99.9".spend') == "p99.9 of spend in north"


def test_a_star_is_the_table_by_the_other_dimensions() -> None:
    by_region, total = RESULTS["aggregates"]["marginals"]
    assert figure_named(RESULTS, "aggregates.north.*.count") == by_region["count"][0]
    assert figure_named(RESULTS, "aggregates.*.*.sum.spend.upper") == total["measures"][1]["upper"][0]
    with pytest.raises(InvalidRequest, match=r"\[share\] is not.*list that table in marginals"):
        figure_named(RESULTS, 'aggregates.*."0.5 to 1".count')


@pytest.mark.parametrize(
    "wrong",
    ["west", 'west."0 to 0.5".count', "north", "north.count", 'north."0 to 0.5"', 'north."0 to 0.5".median.spend',
     'north."0 to 0.5".mean', 'north."0 to 0.5".mean.age', 'north."0 to 0.5".mean.spend.population.lower',
     'north."0 to 0.5".incomplete.lower', 'north."0 to 0.5".mean.a.b', '*."0 to 0.5".count', "", "rows.lower"],
)  # fmt: skip
def test_a_gate_on_a_cell_that_is_not_there_is_refused_in_one_line(wrong: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        gate_of(f"aggregates.{wrong} > 0", REQUESTED)
    assert str(refused.value).startswith("gate: ")
    assert "\n" not in str(refused.value)
    with pytest.raises(InvalidRequest):
        figure_named(RESULTS, f"aggregates.{wrong}")


def test_a_request_and_its_result_have_the_same_names() -> None:
    names = groups_of(RESULTS)
    for column in figure_columns(RESULTS):
        if not column.endswith(".status"):
            assert str(parse_name(column, names)) == column
            gate_of(f"{column} >= 1.5", REQUESTED)


def test_a_gate_on_a_cell_holds_only_where_the_cell_is_sure() -> None:
    assert Gate.parse('aggregates.north."0 to 0.5".mean.spend.lower >= 10').holds(RESULTS)
    assert not Gate.parse('aggregates.north."0 to 0.5".mean.spend.upper < 10').holds(RESULTS)
    empty = 'aggregates.count."0 to 0.5"'
    assert figure_named(RESULTS, f"{empty}.mean.spend") is None
    for condition in ("mean.spend < 1e9", "mean.spend.lower >= 0", "count <= 1e9"):
        assert not Gate.parse(f"{empty}.{condition}").holds(RESULTS)


def test_a_sign_may_stand_in_a_quoted_part() -> None:
    gate = Gate.parse('aggregates.north.mean."IF(spend >= 3, 1, 0)".lower >= 0.5')
    assert (gate.name, gate.sign, gate.bound) == ('aggregates.north.mean."IF(spend >= 3, 1, 0)".lower', ">=", 0.5)
    with pytest.raises(InvalidRequest):
        Gate.parse("aggregates.north.mean.IF(spend >= 3, 1, 0).lower >= 0.5")


def test_headlines_are_the_cells_of_small_tables() -> None:
    listed = headlines(RESULTS)
    names = [one.name for one in listed]
    assert names[0] == "aggregates.rows"
    assert {'aggregates.north."0 to 0.5".mean.spend', "aggregates.*.*.count", "aggregates.north.*.count"} < set(names)
    assert len(names) == len(set(names)) == 1 + 4 * (10 + 5 + 1)
    for one in listed:
        assert figure_named(RESULTS, one.name) == one.value
    labels = {one.name: one.label for one in listed}
    assert labels['aggregates.north."0 to 0.5".mean.spend'] == "mean of spend in north, 0 to 0.5"
    assert labels["aggregates.*.*.count"] == "count in all"
    assert recorded_text([one.to_dict() for one in listed[:3]]) == ", ".join(
        str(one).replace(" (weak)", "") for one in listed[:3]
    )
    assert figures_text(RESULTS).endswith(f", {len(listed) - 3} more")


def test_a_large_table_repeats_its_totals_alone() -> None:
    many = [{"column": "region", "values": [*REGIONS, *map(str, range(2000))]}]
    results = {"aggregates": table(many, marginals=[[]])}
    assert [one.name for one in headlines(results)] == [
        "aggregates.rows", "aggregates.*.count", "aggregates.*.mean.spend", "aggregates.*.sum.spend",
        'aggregates.*.mean."a.b"',
    ]  # fmt: skip
    assert len(figure_columns(results)) < 20 * LIMIT
    assert figure_named(results, "aggregates.1999.count") == results["aggregates"]["count"][2004]


def test_a_table_without_dimensions_is_one_cell() -> None:
    results = {"aggregates": table([], marginals=())}
    assert figure_named(results, "aggregates.mean.spend") == results["aggregates"]["measures"][0]["values"][0]
    assert headlines(results)[1].label == "count"
    gate_of("aggregates.count > 0", [AggregatesOptions.parse({"kind": "aggregates"})])


@pytest.mark.parametrize(
    "name",
    [CellName(("north", None), ("mean", "count")), CellName(("mean", "x"), ("count",)), CellName((), ("sum", "a b"))],
)
def test_a_recorded_name_reads_like_the_figure(name: CellName) -> None:
    rest = ".".join(part for part in (name.group, name.within) if part)
    assert recorded_label(rest) == name.label
