"""Requests for tables of aggregates: what they leave to the account, and what is refused in one line."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.budget_split import split_budget
from spark_jobs.contract.calendar import periods
from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.column_text import columns_in
from spark_jobs.contract.completion import completed, entry_leaves_out, leaves_out
from spark_jobs.contract.domain_checks import Domains
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.options import AggregatesOptions
from spark_jobs.contract.privacy import Budget, PrivacyUnit
from spark_jobs.contract.request import ReleaseRequest

REGION = {"column": "region", "values": ["north", "south"]}
SPEND = {"of": "spend", "bounds": [0, 100]}
PERSONS = {"of": "person", "figures": ["units"]}
ERRORS = {"outcome": "y", "prediction": "f", "largest_error": 20}


PAGE = {"column": "page", "keys": "discover", "min_units": 20}


def parsed(**options: Any) -> AggregatesOptions:
    return AggregatesOptions.parse({"kind": "aggregates", **options})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"by": ["region"]},
            "by.0.region: must have exactly one of values, edges, every and lookup, because groups that are",
        ),
        ({"by": [{**REGION, "edges": [0, 1]}]}, "must have exactly one of values, edges, every and lookup"),
        ({"by": [{"column": "age", "edges": [0, 18, 18]}]}, "edges: got [0.0, 18.0, 18.0]; must be from 2 to 1001 num"),
        ({"by": [{"column": "age", "edges": [0]}]}, "must be from 2 to 1001 numbers in ascending order"),
        ({"by": [{"column": "at", "every": "month"}]}, "by.0.at: must have start and end, because every"),
        (
            {"by": [{"column": "at", "every": "day", "start": "2000-01-01", "end": "2026-01-01"}]},
            "must make at most 1,000 periods, not 9,497",
        ),
        (
            {"by": [{"column": "at", "every": "day", "start": "2026-01-01", "end": "2026-01-01"}]},
            "end: got '2026-01-01'; must be after start",
        ),
        ({"by": [{**REGION, "values": ["north", "other"]}]}, "got 'other'; must not be listed"),
        ({"by": [{**REGION, "column": name} for name in "abcde"]}, "by: got 5; must be at most 4"),
        ({"by": [REGION, REGION]}, "by: got 'region'; must be listed only once"),
        (
            {"by": [{"column": name, "values": list(range(215)), "other": False} for name in "abc"]},
            "by: got '9,938,375 cells'; must make at most 1,000,000 cells with 1 figures in each; list",
        ),
        (
            {
                "by": [{"column": "a", "edges": list(range(300))}, {"column": "b", "edges": list(range(300))}],
                "measures": [SPEND, {**SPEND, "of": "stay"}],
            },
            "by: got '90,000 cells'; must make at most 80,000 cells with 5 figures in each",
        ),
        (
            {"by": [REGION], "marginals": [["rigeon"]]},
            "marginals: got 'rigeon'; must name dimensions of the",
        ),
        (
            {"by": [REGION], "marginals": [["region"]]},
            "marginals: got ['region']; must be a table with fewer dimensions",
        ),
        (
            {"by": [REGION], "marginals": [[]], "weights": [1]},
            "weights: got [1.0]; must be 2 numbers, the first for the cells and then one for each marginal",
        ),
        (
            {"by": [REGION], "marginals": [[]], "weights": [1, 2000]},
            "the largest must be at most 1000 times the smallest; give 2 positive numbers",
        ),
        ({"by": [REGION], "marginals": [[], []]}, "marginals: got []; must be a table with fewer dimensions"),
        (
            {"measures": ["spend"]},
            "measures.spend.bounds: is required, because the account declares no domain for this number",
        ),
        (
            {"measures": [{"of": "spend", "bounds": [1, 0]}]},
            "bounds: got [1.0, 0.0]; must be two numbers",
        ),
        ({"measures": [{**SPEND, "step": 0.3}]}, "step: got 0.3; must divide the range"),
        ({"measures": [{"of": "raise_error(x)", "bounds": [0, 1]}]}, "raise_error"),
        ({"measures": [{**SPEND, "figures": ["max"]}]}, "figures: got 'max'; must be one of mean, sum"),
        ({"measures": [{**SPEND, "figures": ["pinball"]}]}, "figures: got 'pinball'; must be one of mean, sum"),
        ({"measures": [{**SPEND, "figures": ["mae_0.5"]}]}, "figures: got 'mae_0.5'; must be one of mean, sum"),
        ({"measures": [{**SPEND, "figures": ["pinball_1.5"]}]}, "got 'pinball_1.5'; must be one of"),
        (
            {"measures": [{**SPEND, "figures": ["mae"]}]},
            "figures: got 'mae'; must be left out unless the measure is of errors",
        ),
        (
            {"measures": [{"of": "e", "bounds": [-1, 1], "figures": ["r2"]}]},
            "figures: got 'r2'; is defined only for a measure of an outcome's errors",
        ),
        (
            {"measures": [{"of": "e", "bounds": [-1, 1], "figures": ["r2"], "outcome": "y", "prediction": "f"}]},
            "measures: got 'y'; must also be requested as a measure whose figures contain sd",
        ),
        (
            {"measures": [{**SPEND, "figures": ["interval_coverage"]}]},
            "is defined only for a value that is true or false, with bounds",
        ),
        ({"measures": [ERRORS | {"prediction": None}]}, "prediction: must be a column of numbers or an expression"),
        (
            {"measures": [ERRORS | {"largest_error": None}]},
            "largest_error: must be a number above 0, or must be left out together with valid bounds",
        ),
        ({"measures": [ERRORS | {"largest_error": 0}]}, "largest_error: got 0; must be a number above 0"),
        ({"measures": [ERRORS | {"figures": ["r2"]}]}, "y.bounds: is required for r2"),
        (
            {"measures": [ERRORS | {"cells": 3}]},
            "cells: is not an option of a measure by outcome and prediction; leave it out",
        ),
        ({"measures": [{"outcome": "y", "lower": "a"}]}, "upper: must be a column of numbers or an expression"),
        (
            {"measures": [{"outcome": "y", "lower": "a", "upper": "b", "bounds": [0, 1]}]},
            "bounds: is not an option of a measure",
        ),
        ({"measures": [ERRORS, ERRORS]}, "measures: got 'y - f'; must be listed only once"),
        ({"measures": [SPEND, SPEND]}, "measures: got 'spend'; must be listed only once"),
        (
            {"measures": [{"of": "person", "figures": ["units", "sum"], "bounds": [0, 1], "step": 1}]},
            "figures: got ['units', 'sum']; must be units alone",
        ),
        (
            {"measures": [{"of": "person", "figures": ["units"], "bounds": [0, 2]}]},
            "must be units alone, and bounds must be left out",
        ),
        ({"max_groups": 2}, "max_rows_per_group: must be given together with max_groups"),
        ({"max_rows_per_group": 2}, "max_groups: must be given together with max_rows_per_group"),
        ({"unit_totals": True}, "max_groups: must be given with unit_totals"),
        (
            {"unit_totals": True, "max_groups": 2, "max_rows_per_group": 1},
            "max_rows_per_group: got 1; must be left out with unit_totals",
        ),
        (
            {"unit_totals": True, "max_groups": 2, "measures": [PERSONS]},
            "measures: got 'units'; must have only the figures mean, sum, variance, sd and quantiles of",
        ),
        ({"unit_totals": True, "max_groups": 2, "by": [PAGE]}, "unit_totals: got True; must be left out if keys are"),
        ({"max_groups": 0, "max_rows_per_group": 1}, "max_groups: got 0; must be a whole number from 1 to 1000000"),
        ({"max_groups": 1, "max_rows_per_group": 1.5}, "max_rows_per_group"),
        (
            {"by": [{**PAGE, "min_units": 1}]},
            "by.0.page.min_units: got 1; must be at least 2, because with less, a key that only one",
        ),
        (
            {"by": [PAGE, {**PAGE, "column": "site"}]},
            "by: got ['page', 'site']; must be a single dimension, without marginals",
        ),
        ({"by": [PAGE, REGION]}, "by: got ['page', 'region']; must be a single dimension, without marginals"),
        ({"by": [PAGE], "marginals": [[]]}, "by: got ['page']; must be a single dimension, without marginals"),
        ({"by": [{**PAGE, "other": True}]}, "must have min_units, and other must be false, with keys: discover"),
        ({"by": [{**REGION, "min_units": 3}]}, "min_units: got 3; may be given only with keys: discover"),
        ({"by": [{**PAGE, "keys": "all"}]}, "by.0.keys: got 'all'"),
        ({"by": [{**PAGE, "values": ["a"]}]}, "must have exactly one of values, edges, every and lookup"),
        (
            {"by": [PAGE], "measures": [{**SPEND, "figures": ["mean", "sd"]}]},
            "measures: got ['spend']; must have no figures other than mean and sum if keys are discovered",
        ),
        (
            {"by": [PAGE], "max_groups": 2, "max_rows_per_group": 1},
            "max_rows_per_group: got 1; must be left out if keys are",
        ),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(**options)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_short_form_is_a_measure_of_an_expression() -> None:
    short = ERRORS | {"bounds": [0, 50], "step": 1, "figures": ["mae", "r2"]}
    options = parsed(measures=[short, {"outcome": "y", "lower": "f - 5", "upper": "`up per`"}])
    errors, coverage, outcome = options.measures
    assert (errors.of, errors.bounds, errors.figures) == ("y - f", (-20, 20), ("mae", "r2"))
    assert (coverage.of, coverage.bounds, coverage.step) == ("y BETWEEN (f - 5) AND (`up per`)", (0, 1), 1)
    assert (outcome.of, outcome.bounds, outcome.step, outcome.figures) == ("y", (0, 50), 1, ("sd",))
    assert parsed(measures=[ERRORS]).measures[0].figures == ("mae", "rmse", "bias")
    dumped = options.model_dump(mode="json")
    assert AggregatesOptions.parse(dumped) == options
    assert set(dumped["measures"][2]) == {"of", "bounds", "step", "figures"}


def test_an_outcome_that_is_measured_anyway_gets_its_spread() -> None:
    outcome = {"of": "y", "bounds": [0, 50]}
    short = ERRORS | {"bounds": [0, 50], "figures": ["r2"]}
    other = short | {"prediction": "g"}
    measures = parsed(measures=[outcome, short, other]).measures
    assert [(one.of, one.figures) for one in measures] == [
        ("y", ("mean", "sum", "sd")), ("y - f", ("r2",)), ("y - g", ("r2",)),
    ]  # fmt: skip
    assert parsed(measures=[{**outcome, "figures": ["variance"]}, short]).measures[0].figures == ("variance",)


@pytest.mark.parametrize("written", [45.5, Decimal("45.5"), "45.5"], ids=["python", "document", "rendered template"])
def test_the_largest_error_is_a_number_as_requests_write_it(written: Any) -> None:
    [errors] = entry(measures=[ERRORS | {"largest_error": written}])["measures"]
    assert errors["bounds"] == [-45.5, 45.5]


def test_an_account_says_the_largest_error() -> None:
    errors = {"outcome": "price", "prediction": "guess"}
    assert entry(measures=[errors]) == {
        "measures": [
            {
                "of": "price - guess", "bounds": [-50, 50], "figures": ["mae", "rmse", "bias"], "outcome": "price",
                "prediction": "guess",
            }
        ]
    }  # fmt: skip
    _, outcome = entry(measures=[errors | {"largest_error": 5, "figures": ["r2"]}])["measures"]
    assert outcome == {"of": "price", "bounds": [0, 50], "step": 0.01, "figures": ["sd"]}
    for short, needs in (
        (errors, True),
        (errors | {"largest_error": 5}, False),
        (errors | {"largest_error": 5, "figures": ["r2"]}, True),
        ({"outcome": "price", "lower": "a", "upper": "b"}, False),
    ):
        fields = {"table": {"path": "/lake"}, "diagnostics": [{"kind": "aggregates", "measures": [short]}]}
        assert leaves_out(fields) == needs


def request(**options: Any) -> ReleaseRequest:
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/payments", "snapshot": {"path_version": "v1"}},
            "diagnostics": [{"kind": "aggregates", **options}],
            "budget": {"epsilon": "1"},
        }
    )


TYPES = {"region": "string", "age": "int", "at": "timestamp", "spend": "double", "code": "int"}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"by": [REGION], "measures": [{"of": "region", "bounds": [0, 1]}]}, "must be of type"),
        ({"measures": [{"of": "spend + nothing", "bounds": [0, 1]}]}, "diagnostics.measures: got 'nothing'"),
        ({"by": [{**REGION, "column": "spend"}]}, "diagnostics.by: got 'spend'; must be of type"),
        ({"by": [{"column": "region", "edges": [0, 1]}]}, "must be of type"),
        (
            {"by": [{"column": "age", "every": "year", "start": "2025-01-01", "end": "2026-01-01"}]},
            "of type date",
        ),
        ({"by": [{"column": "code", "values": ["007"]}]}, "diagnostics.by: got '007'; must be a whole number"),
        ({"by": [{**REGION, "column": "regoin"}]}, "did you mean 'region'?"),
    ],
)
def test_columns_of_another_type_are_refused_by_the_schema_alone(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_columns(request(**options), TYPES)
    assert line in str(refused.value)


def test_expressions_are_measured_and_cut_into_bins() -> None:
    measures = [{"of": "ABS(spend - age)", "bounds": [0, 100]}]
    check_columns(request(by=[{"column": "age / 2", "edges": [0, 10, 60]}], measures=measures), TYPES)


COLUMNS = (
    "region string in ('north', 'south'), age int between 0 and 120, price double between 0 and 50 step 0.01, "
    "at timestamp between '2025-01-01' and '2026-01-01'"
)
DOMAINS = Domains(columns=tuple(BoundColumn.parse(column.fields()) for column in columns_in(COLUMNS)), lists={})


def entry(**options: Any) -> dict[str, Any]:
    fields = {"diagnostics": [{"kind": "aggregates", **options}]}
    (filled,) = completed(fields, DOMAINS)["diagnostics"]
    return {name: value for name, value in filled.items() if name != "kind"}


def test_a_total_has_the_step_of_its_values_and_bounds_of_its_own() -> None:
    totals = entry(measures=["price", {"of": "age", "bounds": [0, 500]}], max_groups=2, unit_totals=True)
    assert totals["measures"] == [{"of": "price"}, {"of": "age", "bounds": [0, 500], "step": 1.0}]
    with pytest.raises(InvalidRequest, match="price.bounds: is required"):
        parsed(**totals)


def test_an_account_says_the_groups_bounds_and_steps() -> None:
    assert entry(by="region", measures=["age", {"of": "price", "bounds": [0, 20]}]) == {
        "by": [{"column": "region", "values": ["north", "south"]}],
        "measures": [
            {"of": "age", "bounds": [0, 120], "step": 1.0},
            {"of": "price", "bounds": [0, 20], "step": 0.01},
        ],
    }
    (period,) = entry(by=[{"column": "at", "every": "month"}])["by"]
    assert (period["start"], period["end"]) == ("2025-01-01 00:00:00", "2026-01-01 00:00:00")
    assert len(parsed(by=[period]).by[0].labels) == 13
    again = entry(**entry(by=["region"], measures=["price"]))
    assert again == entry(by=["region"], measures=["price"])
    assert leaves_out({"table": {"path": "/lake"}, "diagnostics": [{"kind": "aggregates", "by": ["region"]}]})
    assert not leaves_out({"table": {"path": "/lake"}, "diagnostics": [{"kind": "aggregates", "by": [REGION]}]})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"by": [{"column": "region", "values": ["west"]}]},
            "diagnostics.by.values: got 'west'; must be a value",
        ),
        ({"measures": [{"of": "age", "bounds": [0, 500]}]}, "diagnostics.measures.bounds: got '[0, 500]'"),
        ({"measures": [{"of": "price", "step": 0.5}]}, "diagnostics.measures.step: got 0.5; must agree with"),
        ({"by": [{"column": "at", "every": "year", "end": "2030-01-01"}]}, "diagnostics.by: got"),
    ],
)
def test_what_contradicts_the_account_is_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        entry(**options)
    assert line in str(refused.value)


def test_a_width_makes_bins_of_all_that_a_number_may_be() -> None:
    (ages,) = entry(by=[{"column": "age", "width": 25, "other": False}])["by"]
    assert ages == {"column": "age", "edges": [0, 25, 50, 75, 100, 125], "other": False}
    (prices,) = entry(by=[{"column": "price", "width": 0.1}])["by"]
    assert prices["edges"] == [place / 10 for place in range(502)]
    (gaps,) = entry(by=[{"column": "age - price", "width": 100}])["by"]
    assert gaps == {"column": "age - price", "edges": [-100, 0, 100, 200]}
    assert leaves_out(
        {
            "table": {"path": "/lake"},
            "diagnostics": [{"kind": "aggregates", "by": [{**ages, "width": 1, "edges": None}]}],
        }
    )


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (0, "diagnostics.by.width: got 0; must divide the range of price into at most 1,000 bins"),
        (-1, "into at most 1,000 bins"),
        (0.01, "into at most 1,000 bins"),
        ("ten", "diagnostics.by.width: got 'ten'; must be a finite decimal number"),
    ],
)
def test_a_width_that_makes_no_bins_is_refused(width: Any, line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        entry(by=[{"column": "price", "width": width}])
    assert line in str(refused.value)


def test_a_width_of_no_known_range_is_refused() -> None:
    with pytest.raises(
        InvalidRequest,
        match="a range of numbers for the column, and the account declares none for region",
    ):
        parsed(by=entry(by=[{"column": "region", "width": 10}])["by"])


@pytest.mark.parametrize(
    ("every", "labels"),
    [
        ("day", ("2024-02-28", "2024-02-29", "2024-03-01")),
        ("week", ("2024-02-26",)),
        ("month", ("2024-02", "2024-03")),
        ("quarter", ("2024-Q1",)),
        ("year", ("2024",)),
    ],
)
def test_periods_follow_the_calendar(every: Any, labels: tuple[str, ...]) -> None:
    assert periods("2024-02-28 12:00:00", "2024-03-02", every).labels == labels
    edges = periods("2024-02-28 12:00:00", "2024-03-02", every).edges
    assert edges[0] == 1709121600_000000
    assert edges[-1] == 1709337600_000000
    assert len(edges) == len(labels) + 1


def of_persons(max_rows: int = 6, **options: Any) -> ReleaseRequest:
    return ReleaseRequest.parse(
        {
            "table": {"path": "/lake/rows", "snapshot": {"path_version": "v1"}},
            "unit": {"column": "person", "max_rows": max_rows},
            "diagnostics": [{"kind": "aggregates", "by": [REGION], "measures": [PERSONS], **options}],
            "budget": {"epsilon": "1"},
        }
    )


def test_units_need_no_bounds_and_no_column_of_numbers() -> None:
    asked = of_persons()
    check_columns(asked, {"person": "string", "region": "string"})
    assert ReleaseRequest.parse(asked.to_dict()) == asked
    assert not {"max_groups", "max_rows_per_group"} & asked.to_dict()["diagnostics"][0].keys()
    assert not entry_leaves_out({"kind": "aggregates", "by": [REGION], "measures": [PERSONS]})


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"measures": [{**PERSONS, "of": "city"}]}, "measures: got 'city'; must be the unit's column, which is"),
        (
            {"max_groups": 4, "max_rows_per_group": 2},
            "max_groups: got '4 groups of 2'; must allow a unit at most",
        ),
    ],
)
def test_what_the_unit_does_not_allow_is_refused_in_one_line(options: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        of_persons(**options)
    assert line in str(refused.value)


def test_totals_of_units_need_a_unit_and_bounds_of_their_own() -> None:
    with pytest.raises(InvalidRequest, match="unit_totals: got True; must be left out where every row is a unit"):
        of_persons(measures=[SPEND], unit_totals=True, max_groups=1).changed(unit=PrivacyUnit())
    made = of_persons(measures=[SPEND], unit_totals=True, max_groups=1)
    assert ReleaseRequest.parse(made.to_dict()) == made
    assert (made.rows_of_unit, made.of_unit_totals) == (1, True)
    assert "unit_totals" not in of_persons().to_dict()["diagnostics"][0]


def test_a_limit_of_groups_is_of_a_request_with_nothing_else() -> None:
    fields = of_persons(max_groups=1, max_rows_per_group=1).to_dict()
    with pytest.raises(InvalidRequest, match="must be left out unless its diagnostic is the only one of the request"):
        ReleaseRequest.parse({**fields, "diagnostics": [*fields["diagnostics"], {"kind": "ecdf", "column": "age"}]})


@pytest.mark.parametrize("max_rows", [1, 3, 6, 7, 1000, 1_000_000])
@pytest.mark.parametrize("epsilon", ["0.001", "1", "100000000"])
@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_fewer_rows_of_a_unit_get_the_whole_epsilon_and_no_more(
    max_rows: int, epsilon: str, groups: int, rows: int
) -> None:
    """The loss of so many rows is within what is stated for ``max_rows`` of them, which is within the budget."""
    if groups * rows > max_rows:
        return
    asked = of_persons(max_rows, max_groups=groups, max_rows_per_group=rows).changed(budget=Budget(epsilon))
    (part,) = split_budget(asked)
    of_unit = groups * rows * Fraction(part.epsilon_per_row)
    stated = Fraction(part.cost(part.of_row(part.epsilon_per_row), Decimal(0)).epsilon)
    assert of_unit <= stated <= Fraction(Decimal(epsilon))
    assert of_unit >= Fraction(Decimal(epsilon)) * Fraction(999_999, 1_000_000)


@pytest.mark.parametrize(
    "options", [{"measures": [PERSONS]}, {"measures": [], "max_groups": 1, "max_rows_per_group": 1}]
)
def test_silos_count_no_units_and_limit_no_groups(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="because a unit may have rows in several silos"):
        parsed(by=[REGION], **options).check_for_silos()
