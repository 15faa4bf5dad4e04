"""Requests are completed by what the columns of their table may hold, and refused where they contradict it."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_text import columns_in
from spark_jobs.contract.completion import completed, entry_leaves_out, leaves_out
from spark_jobs.contract.domain_checks import Domains
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.written import Written, read_written, written_fields

COLUMNS = """
    churned string in ('yes', 'no'), grade string in ('a', 'b', 'c'), region string in @regions, flag boolean,
    smokes int in (1, 2), age int between 0 and 120, price double between 0 and 50 step 0.01,
    wide int between 0 and 1e9,
    income double between 0 and 1e7 log, propensity double score, points double between 300 and 850 score,
    percent double between 0 and 100 score, margin double logit, day date between '2024-01-01' and '2024-12-31',
    at timestamp between '2024-01-01' and '2030-01-01', anything double
"""
DOMAINS = Domains(
    columns=tuple(BoundColumn.parse(column.fields()) for column in columns_in(" ".join(COLUMNS.split()))),
    lists={"regions": ("north", "south", "01067")},
)


def one(field: str, value: Any, **more: Any) -> Any:
    """What becomes of one field of a request."""
    filled = completed({field: value, **more}, DOMAINS)
    assert completed(filled, DOMAINS) == filled
    return filled[field]


def entry(kind: str, **options: Any) -> dict[str, Any]:
    [filled] = one("diagnostics", [{"kind": kind, **options}])
    return {name: value for name, value in filled.items() if name != "kind"}


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("churned = 'Yes'", "must be a value of churned, which holds 'yes', 'no'; correct it; did you mean 'yes'?"),
        ("age > 5 AND churned <> 'NO'", "must be a value of churned"),
        ("region IN ('north', 'soth')", "did you mean 'south'?"),
        ("NOT (grade IN ('d'))", "must be a value of grade"),
        ("'x' = grade OR age > 5", "must be a value of grade"),
        ("churned = 1", "must be a value of churned"),
        ("smokes = 3", "must be a value of smokes"),
        ("age > 130", "must be true for some rows: age holds values between 0 and 120"),
        ("age = 121 OR age BETWEEN 200 AND 300", "age holds values"),
        ("price IN (51, 60)", "price holds values"),
        ("age > {{ params.age }}", "must have no template left"),
        ("age BETWEEN 10 AND 1", "write the smaller bound first"),
        ("age <> NULL", "write IS NULL or IS NOT NULL"),
        ("day > DATE '2025-03-01'", "day holds values between"),
        ("at < TIMESTAMP '2023-12-31 00:00:00'", "at holds values between"),
    ],
)
def test_a_filter_asks_for_what_its_columns_may_hold(where: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        one("where", where)
    assert refused.value.field == "where"
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "where",
    [
        "churned = 'yes' OR region IN ('north', '01067')",
        "age <> 999 AND age >= 18",
        "smokes = 1.0",
        "LOWER(churned) = 'YES'",
        "anything = 5 AND unknown = 'x'",
        "day = DATE '2024-12-31'",
        "at >= TIMESTAMP '2029-12-31 00:00:00'",
        "age > 130 OR churned = 'no'",
        "churned IS NOT NULL",
        "points < 400 AND margin > 7",
    ],
)
def test_a_filter_within_the_domains_stays(where: str) -> None:
    assert one("where", where) == where


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"column": "churned", "positive": "yes"}, {"negative": "no"}),
        ({"column": "churned", "positive": "yes", "negative": "other"}, {"negative": "no"}),
        ({"column": "grade", "positive": "a", "negative": "b"}, {}),
        ({"column": "grade", "positive": "a", "negative": "other"}, {"rest": True}),
        ({"column": "smokes"}, {"negative": 2}),
        ({"column": "age", "positive": 18, "negative": "other"}, {"rest": True}),
        ({"column": "unknown", "positive": "x", "negative": "other"}, {"rest": True}),
        ({"column": "unknown", "positive": "x", "negative": "y"}, {}),
    ],
)
def test_classes_of_a_label_come_from_its_column(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert one("label", given) == {**given, **wanted}


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ({"column": "churned", "positive": "Yes", "negative": "No"},
         "label.positive: got 'Yes'; must be a value of churned, which holds 'yes', 'no'; correct it; did you mean"),
        ("churned", "label.positive: is required: churned holds 'yes', 'no'"),
        ({"column": "grade", "positive": "a"}, "label.negative: is required: grade holds 'a', 'b', 'c'"),
        ({"column": "smokes", "positive": "1"}, "must be a value of smokes"),
        ({"column": "age", "positive": 130, "negative": 0}, "contradicts what age may hold, between 0 and 120"),
        ({"column": "age", "positive": 1.5, "negative": 0}, "contradicts what age may hold"),
        ({"column": "region", "positive": "North", "negative": "other"}, "did you mean 'north'?"),
    ],
)  # fmt: skip
def test_a_label_that_contradicts_its_column_is_refused(label: Any, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        completed({"label": label}, DOMAINS)
    assert said in str(refused.value)


def test_values_of_a_column_come_with_bounds_step_scale_and_cells() -> None:
    assert entry("ecdf", column="age") == {"column": "age", "bounds": [0, 120], "step": 1}
    assert entry("quantile", column="AGE", bounds=[18, 65]) == {"column": "AGE", "bounds": [18, 65], "step": 1}
    assert entry("cdf_points", column="price") == {"column": "price", "bounds": [0, 50], "step": 0.01}
    assert entry("ecdf", column="income") == {"column": "income", "bounds": [0, 1e7], "scale": "log"}
    assert entry("ecdf", column="anything") == {"column": "anything"}
    assert entry("ecdf", column="smokes")["bounds"] == [1, 2]
    wide = Domains(columns=(BoundColumn(name="n", type="int", domain="between 0 and 100000"),), lists={})
    [filled] = completed({"diagnostics": [{"kind": "ecdf", "column": "n"}]}, wide)["diagnostics"]
    assert filled["cells"] == 131072


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"column": "age", "bounds": [0, 150]}, "diagnostics.bounds: got '[0, 150]'; contradicts what age may hold"),
        ({"column": "age", "bounds": [0.5, 60]}, "its values are 1 apart"),
        ({"column": "price", "step": 0.05}, "diagnostics.step: got 0.05; contradicts what price may hold"),
        ({"column": "wide"}, "wide may hold 1,000,000,001 values, more than the 262,144 cells of a grid"),
    ],
)
def test_bounds_may_narrow_a_range_and_not_widen_it(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        entry("ecdf", **options)
    assert said in str(refused.value)
    assert entry("quantile", column="wide", bounds=[0, 10**9])["step"] == 1


def test_a_compared_function_keeps_the_grid_of_the_earlier_release() -> None:
    earlier = {"released_by": "k", "lower": 0.0, "upper": 100.0, "cells": 32768, "scale": "linear", "step": 1.0,
               "unit": None}  # fmt: skip
    filled = entry("ecdf", column="age", compare_with=earlier)
    assert (filled["bounds"], filled["step"], filled["cells"]) == ([0, 100], 1, 32768)
    with pytest.raises(InvalidRequest, match=r"compare_with, k: .*contradicts what age may hold, between 0 and 120"):
        entry("ecdf", column="age", compare_with={**earlier, "upper": 150.0})


def test_lines_groups_and_fits_take_bounds_keys_and_levels() -> None:
    assert entry("linear_regression", x="age", y="flag", group_by="region") == {
        "x": "age", "y": "flag", "group_by": "region", "x_bounds": [0, 120], "y_bounds": [0, 1],
        "groups": ["north", "south", "01067"],
    }  # fmt: skip
    assert entry("by_group", group_by="grade", kinds=["auc"])["groups"] == ["a", "b", "c"]
    fit = entry("linear_fit", outcome="price", features=["age", "income"], categorical=["grade"])
    assert fit["features"] == {"age": [0, 120], "income": [0, 1e7]}
    assert (fit["categorical"], fit["outcome_bounds"]) == ({"grade": ["a", "b", "c"]}, [0, 50])
    for options, said in (
        ({"group_by": "region", "groups": ["North"]}, "did you mean 'north'"),
        ({"x": "age", "x_bounds": [0, 200]}, "diagnostics.x_bounds"),
    ):
        with pytest.raises(InvalidRequest, match=said):
            entry("linear_regression", **options)
    with pytest.raises(InvalidRequest, match="the account does not say what it holds"):
        entry("logistic_fit", features=["anything"])


def test_scores_of_any_scale_have_a_map_and_thresholds_on_it() -> None:
    columns = {"kind": "columns", "basis": "public"}
    assert one("model", {**columns, "score": "propensity"}) == {**columns, "score": "propensity"}
    scale = {"kind": "linear", "lower": 300.0, "upper": 850.0}
    filled = completed(
        {"model": {**columns, "score": "points"}, "diagnostics": [{"kind": "confusion_matrix", "thresholds": [575]}]},
        DOMAINS,
    )
    assert filled["model"]["scale"] == scale
    assert filled["diagnostics"][0]["thresholds"] == [0.5]
    assert completed(filled, DOMAINS) == filled
    assert one("model", {**columns, "score": "margin"})["scale"]["kind"] == "logit"
    assert one("model", {**columns, "score": "income"})["scale"]["kind"] == "log"
    with pytest.raises(
        InvalidRequest, match=r"thresholds: got '0\.5'; must lie on the scale of the scores, from 300 to"
    ):
        completed(
            {
                "model": {**columns, "score": "points"},
                "diagnostics": [{"kind": "confusion_matrix", "thresholds": [0.5]}],
            },
            DOMAINS,
        )
    with pytest.raises(InvalidRequest, match="contradicts what churned may hold"):
        one("model", {**columns, "score": "churned"})
    with pytest.raises(InvalidRequest, match=r"model\.scale"):
        one("model", {**columns, "score": "points", "scale": {**scale, "upper": 900.0}})


def test_a_stream_takes_its_time_and_its_states() -> None:
    filled = completed({"time": "day", "step": "1 day", "states": {"column": "grade"}}, DOMAINS)
    assert (filled["start"], filled["end"]) == ("2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z")
    assert filled["states"]["keys"] == ["a", "b", "c"]


def test_what_only_an_account_can_complete_is_no_request_yet() -> None:
    table = {"path": "/lake/t", "snapshot": {"path_version": "v1"}}
    whole = {"account": "a", "table": table, "budget": {"epsilon": "1"}, "output": "/out"}
    fields = {**whole, "diagnostics": [{"kind": "linear_regression", "x": "age", "y": "price"}]}
    written = read_written(ReleaseRequest, fields)
    assert isinstance(written, Written)
    assert written.sha256 == Written(kind=ReleaseRequest, fields=dict(reversed(fields.items()))).sha256
    assert isinstance(read_written(ReleaseRequest, {**whole, "diagnostics": ["auc"], "label": "y", "model": {
        "kind": "columns", "basis": "public", "score": "s"}}), ReleaseRequest)  # fmt: skip
    with pytest.raises(InvalidRequest, match=r"lable: .*did you mean 'label'"):
        read_written(ReleaseRequest, {**fields, "lable": "y"})
    assert leaves_out({"diagnostics": ["auc"], "table": {"snapshot": {}}})
    assert entry_leaves_out({"kind": "confusion_matrix", "thresholds": [620]})
    assert not entry_leaves_out({"kind": "confusion_matrix", "thresholds": [0.5]})
    stream = {**whole, "time": "day", "step": "1 day"}
    assert isinstance(read_written(StreamRequest, stream), Written)


def test_what_was_written_is_known_of_a_request() -> None:
    request = ReleaseRequest.parse({
        "account": "a", "label": "y", "budget": {"epsilon": "1"}, "diagnostics": ["auc"],
        "table": {"path": "/lake/t", "snapshot": {"path_version": "v1"}},
        "model": {"kind": "columns", "basis": "public", "score": "s"},
    })  # fmt: skip
    written = written_fields(request)
    assert written.pop("budget")["epsilon"] == "1"
    assert written == {
        "account": "a", "label": {"column": "y"}, "diagnostics": [{"kind": "auc"}],
        "table": {"path": "/lake/t", "snapshot": {"path_version": "v1"}},
        "model": {"kind": "columns", "basis": "public", "score": "s"},
    }  # fmt: skip
