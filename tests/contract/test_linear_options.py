"""What a request says of residual plots and of private lines."""

from __future__ import annotations

import math
from typing import Any

import pytest

from spark_jobs.contract import InvalidRequest, ReleaseRequest
from spark_jobs.contract.columns import needs
from spark_jobs.contract.options import (
    LinearRegressionOptions,
    LinearRegressionSettings,
    PointCells,
    PointSums,
    ResidualCells,
    ResidualPlotOptions,
    ResidualPlotSettings,
)
from spark_jobs.contract.options.linear import MAX_GROUPS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.wording.rules import rules
from tests.support.requests import LOGISTIC, a_request

LINE = {"kind": "linear_regression", "x": "parent", "y": "child", "x_bounds": [0, 1], "y_bounds": [0, "1e5"]}
GROUPED = {**LINE, "group_by": "tract", "groups": ["001", "002"]}
PLOT = {"kind": "residual_plot", "outcome": "wage"}
REPLACED = {"neighbours": "replace_one"}


def line(**changes: Any) -> LinearRegressionOptions:
    return LinearRegressionOptions.parse({**GROUPED, **changes})


def plot(**changes: Any) -> ResidualPlotOptions:
    return ResidualPlotOptions.parse({**PLOT, **changes})


def asked(*diagnostics: Any, **changes: Any) -> ReleaseRequest:
    return a_request(**{"label": None, "diagnostics": list(diagnostics), **changes})


def of_public(*names: str) -> dict[str, Any]:
    """A table of which these columns are public."""
    return {"table": {"path": "/lake/visits", "snapshot": {"path_version": "v3"}, "public_columns": names}}


TRACTS = {**REPLACED, **of_public("tract")}


def test_options_say_what_is_counted() -> None:
    assert plot(unit="0.01").statistic == ResidualCells(outcome="wage", unit=0.01)
    fields: dict[str, Any] = {
        "x": "parent",
        "y": "child",
        "x_bounds": (0, 1),
        "y_bounds": (0, 100_000),
        "group_by": "tract",
        "groups": ("001", "002"),
        "cells": 64,
    }
    assert line(cells="64", method="dp_grad_descent").statistic == PointCells(**fields)
    # sums cost nothing more on a finer lattice
    assert line(cells="64").statistic == PointSums(**{**fields, "cells": 8192})


@pytest.mark.parametrize(
    ("options", "points"),
    [
        ({"method": "noisy_moments"}, False),
        ({"method": "noisy_moments_zcdp"}, False),
        ({"method": "noisy_stats", "public_sizes": True}, False),
        ({"method": "noisy_intercept"}, False),
        ({"method": "dp_wide_theil_sen", "public_sizes": True}, True),
        ({"method": "dp_grad_descent_zcdp"}, True),
        ({"public_sizes": True}, False),
    ],
)
def test_points_are_counted_where_a_method_needs_them(options: dict[str, Any], points: bool) -> None:
    statistic = line(**options).statistic
    assert isinstance(statistic, PointCells if points else PointSums)
    if not points:
        assert statistic.max_keys == 6 * len(line(**options).groups or ())


def test_options_of_a_measurement_are_not_those_of_the_counting() -> None:
    assert set(ResidualPlotSettings.model_fields) == {"method", "bins", "coverage", "confidence"}
    assert set(LinearRegressionSettings.model_fields) == {
        "method",
        "at",
        "size_bound",
        "matchings",
        "public_sizes",
        "confidence",
    }


@pytest.mark.parametrize("given", [["a", "b"], [1, 2], ["1", 2], ["", "é"][1:], [-5, "x y", "17"]])
def test_keys_are_kept_as_they_are_written(given: list[Any]) -> None:
    assert line(groups=given).groups == tuple(given)
    assert LinearRegressionOptions.parse(line(groups=given).model_dump(mode="json")).groups == tuple(given)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"unit": 0}, "diagnostics.unit: got 0.0; must be a number between"),
        ({"unit": -1}, "diagnostics.unit: got -1.0; must be a number between"),
        ({"unit": math.inf}, "diagnostics.unit: got inf; "),
        ({"outcome": None}, "diagnostics.outcome: "),
        ({"outcome": "avg(wage)"}, "diagnostics.outcome: got 'avg(wage)'; "),
        ({"bins": 12}, "diagnostics.bins: got 12; must be a power of two; "),
        ({"bins": 512}, "diagnostics.bins: got 512; "),
        ({"method": "magic"}, "diagnostics.method: got 'magic'; "),
        ({"coverage": 1}, "diagnostics.coverage: got 1; "),
        ({"colour": "red"}, "diagnostics.colour: is not a field"),
    ],
)
def test_a_bad_residual_plot_is_refused_in_one_line(changes: dict[str, Any], refusal: str) -> None:
    refused_line(ResidualPlotOptions, {**PLOT, **changes}, refusal)


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"x_bounds": [1, 0]}, "diagnostics.x_bounds: got [1.0, 0.0]; must be two numbers in ascending order"),
        ({"x_bounds": [1, 1]}, "diagnostics.x_bounds: got [1.0, 1.0]; must be two numbers"),
        ({"y_bounds": [0, math.inf]}, "diagnostics.y_bounds: got [0.0, inf]; must be two numbers"),
        ({"y_bounds": [math.nan, 1]}, "diagnostics.y_bounds: got [nan, 1.0]; must be two numbers"),
        ({"y_bounds": [0]}, "diagnostics.y_bounds: got [0]; must be two numbers"),
        ({"y_bounds": 5}, "diagnostics.y_bounds: got 5; must be two numbers"),
        ({"x": "child"}, "diagnostics.y: got 'child'; must differ from x"),
        ({"x": "rand()"}, "diagnostics.x: got 'rand()'; "),
        ({"groups": None}, "diagnostics.groups: is required with group_by"),
        ({"group_by": None}, "diagnostics.group_by: is required with groups"),
        ({"groups": []}, "diagnostics.groups: got 0; must be from 1 to 100000 keys"),
        ({"groups": list(range(MAX_GROUPS + 1))}, "diagnostics.groups: got 100001; must be from 1 to 100000 keys"),
        ({"groups": ["a", "b", "a"]}, "diagnostics.groups: got 'a'; must be listed once"),
        ({"groups": [17, "17"]}, "diagnostics.groups: got '17'; must be listed once"),
        ({"groups": [1, math.nan]}, "diagnostics.groups: got nan; must be texts"),
        ({"groups": [1.5]}, "diagnostics.groups: got 1.5; must be texts"),
        ({"groups": [None]}, "diagnostics.groups: got 'NoneType'; must be texts"),
        ({"groups": [True]}, "diagnostics.groups: got True; must be texts"),
        ({"groups": [""]}, "diagnostics.groups: got ''; must be texts"),
        ({"groups": ["x" * 256]}, "diagnostics.groups: got 'xxx"),
        ({"groups": ["\ud800"]}, "diagnostics.groups: got '\\ud800'; must be texts"),
        ({"groups": [2**63]}, "diagnostics.groups: got 9223372036854775808; must be texts"),
        ({"groups": "001"}, "diagnostics.groups: got 'str'; must be a list of keys, or name a"),
        ({"groups": {"path": "/tracts.csv"}}, "diagnostics.groups: got 'dict'; must be a list of keys, or name a"),
        ({"at": []}, "diagnostics.at: "),
        ({"at": [1.5]}, "diagnostics.at.0: got 1.5; "),
        ({"cells": 1000}, "diagnostics.cells: got 1000; must be a power of two"),
        ({"size_bound": 0}, "diagnostics.size_bound: got 0; "),
        ({"method": "ols"}, "diagnostics.method: got 'ols'; "),
    ],
)  # fmt: skip
def test_a_bad_linear_regression_is_refused_in_one_line(changes: dict[str, Any], refusal: str) -> None:
    refused_line(LinearRegressionOptions, {**GROUPED, **changes}, refusal)


@pytest.mark.parametrize("name", ["x", "y", "x_bounds", "y_bounds"])
def test_columns_and_bounds_are_required(name: str) -> None:
    fields = {key: value for key, value in LINE.items() if key != name}
    refused_line(LinearRegressionOptions, fields, f"diagnostics.{name}: is required; add it")


def refused_line(options: Any, fields: dict[str, Any], start: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        options.parse(fields)
    text = str(refused.value.within("diagnostics"))
    assert text.startswith(start)
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize("method", ["dp_exp_theil_sen", "dp_wide_theil_sen", "dp_ss_theil_sen"])
@pytest.mark.parametrize("changes", [{}, REPLACED], ids=["add_remove", "private sizes"])
def test_theil_sen_is_refused_where_sizes_are_private(method: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(line(method=method, public_sizes=not changes), **changes)
    assert str(refused.value) == (
        f"diagnostics.method: got '{method}'; is differentially private only if the groups' sizes are "
        "public, which needs neighbours replace_one and public_sizes true; set both, or choose another method"
    )
    assert asked(line(method=method, public_sizes=True), **TRACTS)


@pytest.mark.parametrize(
    ("changes", "fits"),
    [
        ({}, True),
        ({"unit": {"column": "person"}}, False),
        ({"unit": {"column": "person", "max_rows": 2}}, False),
        ({"model": {"kind": "spark_ml", "basis": "public", "path": "/m"}}, True),  # which nothing reads
    ],
)
def test_sizes_are_public_only_where_nothing_private_chooses_rows(changes: dict[str, Any], fits: bool) -> None:
    if fits:
        assert asked(line(public_sizes=True), **TRACTS, **changes)
    else:
        with pytest.raises(InvalidRequest, match=r"^diagnostics\.public_sizes: got True; needs the unit to be a row, "):
            asked(line(public_sizes=True), **TRACTS, **changes)
    assert asked(line(public_sizes=True), **changes)
    assert asked(line(), **REPLACED, **changes)


@pytest.mark.parametrize("where", [None, "region = 'north'"])
def test_sizes_are_public_only_where_the_request_says_so(where: str | None) -> None:
    table = of_public("tract", "Region")
    # else every request under this relation would count the rows of a filter or a group of its choice, exactly
    silent = asked(line(), **REPLACED, **table, where=where).diagnostics[0]
    assert not silent.sizes_are_public(Neighbours.REPLACE_ONE)
    said = asked(line(public_sizes=True), **REPLACED, **table, where=where).diagnostics[0]
    assert said.sizes_are_public(Neighbours.REPLACE_ONE)
    assert not line(public_sizes=True).sizes_are_public(Neighbours.ADD_REMOVE)


@pytest.mark.parametrize(
    ("field", "changes", "public"),
    [
        ("where", {"where": "id = 17 AND sick = true"}, ()),
        ("where", {"where": "id = 17 AND sick = true"}, ("id",)),
        ("where", {"where": "parent > 0.5"}, ("parent", "region")),
        ("where", {"where": "`Child` IS NULL"}, ("child",)),
        ("blocks", {"blocks": ["yes"], "block_expression": "value(sick)"}, ("id",)),
        ("blocks", {"blocks": ["1"], "block_expression": "value(child)"}, ("child",)),
    ],
)
def test_what_chooses_rows_of_public_number_reads_public_columns_alone(
    field: str, changes: dict[str, Any], public: tuple[str, ...]
) -> None:
    """The exact size of ``id = 17 AND sick = true`` says whether 17 is ill."""
    whole = LinearRegressionOptions.parse({**LINE, "public_sizes": True})
    with pytest.raises(InvalidRequest) as refused:
        asked(whole, **REPLACED, **of_public(*public), **changes)
    assert refused.value.field == field
    assert "\n" not in str(refused.value)
    assert asked(LinearRegressionOptions.parse(LINE), **REPLACED, **of_public(*public), **changes)


def test_groups_of_public_size_are_of_a_public_column_that_is_neither_x_nor_y() -> None:
    with pytest.raises(
        InvalidRequest, match=r"^diagnostics\.group_by: got 'tract'; must be a public column where sizes are public"
    ):
        asked(line(public_sizes=True), **REPLACED)
    with pytest.raises(InvalidRequest, match=r"^diagnostics\.group_by: got 'tract'; must not be read by x or y"):
        asked(line(public_sizes=True, x="length(tract)"), **TRACTS)


def test_what_is_public_is_the_accounts_word_of_a_request_that_is_to_be_charged() -> None:
    # known once the account has completed it
    assert asked(line(public_sizes=True), **REPLACED, account="people")


def test_one_row_of_each_unit_in_one_group_leaves_the_size_public() -> None:
    whole = LinearRegressionOptions.parse({**LINE, "public_sizes": True})
    assert asked(whole, **REPLACED, unit={"column": "person"})
    with pytest.raises(InvalidRequest, match="public_sizes"):
        asked(whole, **REPLACED, unit={"column": "person", "max_rows": 2})


def test_a_pipeline_that_may_skip_rows_makes_sizes_private() -> None:
    pipeline = {"kind": "spark_ml", "basis": "public", "path": "/m"}
    with pytest.raises(
        InvalidRequest, match=r"^diagnostics\.public_sizes: got True; cannot be combined with a spark_ml model"
    ):
        asked(line(public_sizes=True), plot(), **TRACTS, model=pipeline)
    assert asked(line(), plot(), **REPLACED, model=pipeline)


def test_methods_of_zcdp_spend_delta() -> None:
    with pytest.raises(InvalidRequest, match=r"^budget\.delta: "):
        asked(line(method="noisy_stats_zcdp"))
    assert asked(line(method="noisy_moments_zcdp"), budget={"epsilon": 1, "delta": "1e-6"})


def test_a_residual_plot_needs_a_model_and_a_line_needs_nothing() -> None:
    with pytest.raises(InvalidRequest, match="^model: is required by residual_plot"):
        asked(plot(), model=None)
    assert asked(line(), model=None).output_of_model == ""
    assert asked(plot()).output_of_model == "fitted values"
    assert asked(plot(), "roc_curve", label="y").output_of_model == "fitted values and scores"


def test_the_columns_of_both_are_needed() -> None:
    request = asked(plot(outcome="ln(wage)"), line(x="parent + 1"), model={**LOGISTIC, "coefficients": {"age": 1}})
    named = [(need.field, need.name) for need in needs(request, ["wage", "parent", "child"])]
    assert named == [
        ("model.coefficients", "age"),
        ("diagnostics.outcome", "wage"),
        ("diagnostics.x", "parent"),
        ("diagnostics.y", "child"),
        ("diagnostics.group_by", "tract"),
    ]


def test_rules_of_both_are_told() -> None:
    told = " ".join(rules(asked(plot(unit=0.5), line())))
    for part in (
        "A residual is wage minus the model's unclipped output.",
        "left out of the residuals if wage or the output is null or NaN",
        "0.00390625 wide up to a size of 0.25",
        "not among the 2 groups of the request is left out of the lines",
        "A row whose parent or child is null or NaN is left out of the lines.",
        "A value of parent below 0 or above 1, and one of child below 0 or above 100000, counts as the nearer bound.",
        "the middles of 8,192 equal cells",
    ):
        assert part in told
    public = " ".join(rules(asked(line(public_sizes=True), **TRACTS)))
    assert "null or NaN stays a row of its line: in sums it counts at the middle of the bounds" in public
    assert "score" not in told
    assert "group" not in " ".join(rules(asked(LinearRegressionOptions.parse(LINE), model=None))).replace(
        "its group", ""
    )
