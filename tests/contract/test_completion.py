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
from tests.support.requests import a_request

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
        ("age > {{ params.age }}", "must not contain a template"),
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
        ({"column": "age", "positive": 130, "negative": 0}, "agree with the domain of age, which is between 0 and 120"),
        ({"column": "age", "positive": 1.5, "negative": 0}, "must agree with the domain of age"),
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
        (
            {"column": "age", "bounds": [0, 150]},
            "diagnostics.bounds: got '[0, 150]'; must agree with the domain of age",
        ),
        ({"column": "age", "bounds": [0.5, 60]}, "its values are 1 apart"),
        ({"column": "price", "step": 0.05}, "diagnostics.step: got 0.05; must agree with the domain of price"),
        ({"column": "wide"}, "wide may hold 1,000,000,001 values, and a grid has at most 262,144 cells"),
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
    with pytest.raises(
        InvalidRequest, match=r"compare_with, k: .*must agree with the domain of age, which is between 0 and 120"
    ):
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
    with pytest.raises(InvalidRequest, match="the account declares no domain for"):
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
    with pytest.raises(InvalidRequest, match="must agree with the domain of churned"):
        one("model", {**columns, "score": "churned"})
    with pytest.raises(
        InvalidRequest, match=r"model\.bounds: got '\[300\.0, 900\.0\]'; must agree with the domain of points"
    ):
        one("model", {**columns, "score": "points", "scale": {**scale, "upper": 900.0}})


SCORES = {"kind": "columns", "basis": "public"}
GROUPS = {"kind": "by_group", "group_by": "g", "groups": ["a", "b"]}


def on_scale(domains: Domains | None, thresholds: list[float], **model: Any) -> tuple[Any, Any]:
    """The scale and the thresholds that become of a model's column of scores."""
    fields = {
        "model": {**SCORES, **model},
        "diagnostics": [
            {"kind": "confusion_matrix", "thresholds": thresholds},
            {
                "kind": "by_group",
                "group_by": "grade",
                "kinds": [{"kind": "confusion_matrix", "thresholds": thresholds}],
            },
        ],
    }
    filled = completed(fields, domains or Domains(columns=(), lists={}))
    assert completed(filled, domains or Domains(columns=(), lists={})) == filled
    matrix, groups = filled["diagnostics"]
    assert groups["kinds"][0]["thresholds"] == matrix["thresholds"]
    return filled["model"].get("scale"), matrix["thresholds"]


@pytest.mark.parametrize("score", ["unknown", "anything"])
def test_a_request_states_the_scale_of_scores_as_that_of_values(score: str) -> None:
    percent = {"kind": "linear", "lower": 0.0, "upper": 100.0}
    assert on_scale(None, [30, 50], score=score, bounds=[0, 100]) == (percent, [0.3, 0.5])
    assert on_scale(None, ["30", 50], score=score, bounds=["0", 100]) == (percent, [0.3, 0.5])
    lattice = {"kind": "linear", "lower": 0.0, "upper": 1.0, "step": 0.01}
    # a threshold between two values counts from the upper one, and one within a millionth of a value is it
    assert on_scale(DOMAINS, [0.29, 0.291, 0.3 + 1e-9], score=score, step=0.01) == (lattice, [0.29, 0.3, 0.3])
    assert on_scale(None, [0], score=score, scale="logit") == ({"kind": "logit", "lower": None, "upper": None}, [0.5])
    logs, _ = on_scale(None, [1e-5], score=score, bounds=[1e-8, 1], scale="log")
    assert logs == {"kind": "log", "lower": 1e-8, "upper": 1.0}


def test_a_request_may_narrow_the_scale_of_a_column_of_scores() -> None:
    whole = {"kind": "linear", "lower": 300.0, "upper": 850.0}
    assert on_scale(DOMAINS, [575], score="points", bounds=[300, 850]) == (whole, [0.5])
    assert on_scale(DOMAINS, [500], score="points", bounds=[400, 600]) == (
        {"kind": "linear", "lower": 400.0, "upper": 600.0}, [0.5],
    )  # fmt: skip
    assert on_scale(DOMAINS, [0.005], score="propensity", bounds=[0, 0.01])[1] == [0.5]
    # whole numbers have step 1
    years = {"kind": "linear", "lower": 0.0, "upper": 120.0, "step": 1.0}
    assert on_scale(DOMAINS, [59.5], score="age") == (years, [0.5])
    assert on_scale(DOMAINS, [29.0001], score="age", bounds=[0, 60]) == ({**years, "upper": 60.0}, [0.5])
    # what is left out of the three is the column's
    assert on_scale(DOMAINS, [30], score="age", step=1) == (years, [0.25])
    assert on_scale(DOMAINS, [], score="income", bounds=[100, 1e6])[0] == {"kind": "log", "lower": 100.0, "upper": 1e6}
    assert on_scale(DOMAINS, [2], score="wide", bounds=[0, 4])[0]["step"] == 1


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"score": "points", "bounds": [0, 850]},
            r"model.bounds: got '\[0.0, 850.0\]'; must agree with the domain of points",
        ),
        (
            {"score": "points", "bounds": [300, 850], "scale": "log"},
            "model.scale: got 'log'; must agree with the domain of points",
        ),
        ({"score": "points", "scale": "logit"}, "model.scale: got 'logit'; must agree with the domain of points"),
        ({"score": "margin", "bounds": [-5, 5]}, "model.bounds: .* may not be given with scale: logit"),
        ({"score": "age", "bounds": [0, 120], "step": 2}, "model.step: got .*; must agree with the domain of age"),
        ({"score": "age", "bounds": [0, 60.5]}, "model.bounds: got '.0.0, 60.5.'; must agree with the domain of age"),
        ({"score": "smokes", "bounds": [1, 2]}, "model.scale: got 'linear'; must agree with the domain of smokes"),
        ({"score": "x", "bounds": [850, 300]}, "model.bounds: .* must be two numbers in ascending order"),
        ({"score": "x", "bounds": 850}, "model.bounds: .* must be two numbers"),
        ({"score": "x", "bounds": [True, 2]}, "model.bounds: .* must be two numbers"),
        ({"score": "x", "step": "a"}, "model.step: got 'a'; must be a number"),
        ({"score": "x", "step": 0.3}, "model.step: got 0.3; must divide the range of the values"),
        ({"score": "x", "step": -1}, "model.step: got -1.0; must be above 0"),
        ({"score": "x", "step": 1e-6}, "model.step: got 1e-06; must leave at most 65,536 values, not 1,000,001"),
        ({"score": "x", "scale": "cube"}, "model.scale: got 'cube'; must be one of linear, log, logit"),
        ({"score": "x", "scale": "logit", "step": 1}, "model.step: .* may not be given with scale: logit"),
        ({"score": "x", "scale": "log", "step": 0.5}, "model.step: .* cannot be combined with scale: log"),
        ({"score": "x", "bounds": [0, 1], "scale": {"kind": "logit"}}, "model.scale: .* if bounds or a step are given"),
    ],
)
def test_a_scale_that_makes_no_map_or_contradicts_its_column_is_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        on_scale(DOMAINS, [], **model)


def test_a_part_of_a_scale_waits_for_the_account_that_knows_the_rest() -> None:
    for model in ({"score": "income", "bounds": [100, 1e6]}, {"score": "points", "step": 5}):
        fields = {"model": {**SCORES, **model}, "diagnostics": ["roc_curve"], "account": "a", "label": "flag",
                  "budget": {"epsilon": 1}, "table": {"path": "/t", "snapshot": {"path_version": "1"}}}  # fmt: skip
        written = read_written(ReleaseRequest, fields)
        assert isinstance(written, Written)
        scale = completed(written.fields, DOMAINS)["model"]["scale"]
        assert (scale["kind"], scale["upper"]) == (("log", 1e6) if "bounds" in model else ("linear", 850.0))


def test_a_threshold_beyond_a_stated_scale_is_refused() -> None:
    with pytest.raises(
        InvalidRequest, match="thresholds: got '101'; must lie on the scale of the scores, from 0 to 100"
    ):
        on_scale(None, [101], score="x", bounds=[0, 100])


def test_a_request_without_an_account_keeps_the_map_and_the_moved_thresholds() -> None:
    stated = {**SCORES, "score": "points", "bounds": [300, 850]}
    scale = {"kind": "linear", "lower": 300, "upper": 850}
    kept = a_request(
        model={**SCORES, "score": "points", "scale": scale},
        diagnostics=[
            {"kind": "confusion_matrix", "thresholds": [0.5]},
            {**GROUPS, "kinds": [{"kind": "confusion_matrix", "thresholds": [0.5]}]},
            {"kind": "cdf_points", "column": "age", "bounds": [0, 120], "thresholds": [65]},
            {"kind": "roc_comparison", "other": {**SCORES, "score": "old", "scale": {"kind": "logit"}}},
        ],
    )  # fmt: skip
    matrix, groups, ages, _ = kept.diagnostics
    diagnostics = [
        {"kind": "confusion_matrix", "thresholds": [575]},
        {**GROUPS, "kinds": [{"kind": "confusion_matrix", "thresholds": [575]}]},
        {"kind": "cdf_points", "column": "age", "bounds": [0, 120], "thresholds": [65]},
        {"kind": "roc_comparison", "other": {**SCORES, "score": "old", "scale": "logit"}},
    ]  # fmt: skip
    assert a_request(model=stated, diagnostics=diagnostics) == kept
    # so are thresholds of options that are made already
    unit = {**SCORES, "score": "points", "bounds": [0, 2]}
    moved = a_request(model=unit, diagnostics=[matrix, groups, ages])
    assert moved.diagnostics[0].thresholds == moved.diagnostics[1].kinds[0].thresholds == (0.25,)
    assert moved.diagnostics[2] == ages
    assert ReleaseRequest.parse(kept.to_dict()) == kept
    assert a_request(model=stated).sha256 == a_request(model={**SCORES, "score": "points", "scale": scale}).sha256


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


def test_a_profile_has_all_columns_with_a_domain_and_what_they_may_hold() -> None:
    every = {of["column"]: of for of in entry("profile")["columns"]}
    assert list(every) == [column.name for column in DOMAINS.columns if column.domain is not None]
    assert every["churned"] == {"column": "churned", "values": ["yes", "no"]}
    assert every["smokes"]["values"] == [1, 2]
    assert every["region"]["values"] == ["north", "south", "01067"]
    assert every["age"] == {"column": "age", "bounds": [0.0, 120.0], "step": 1.0}
    assert every["income"] == {"column": "income", "bounds": [0.0, 1e7], "scale": "log"}
    assert every["margin"] == {"column": "margin", "bounds": [-10.0, 10.0]}
    assert every["at"] == {"column": "at", "start": "2024-01-01 00:00:00", "end": "2030-01-01 00:00:00"}
    assert every["day"]["end"] == "2025-01-01 00:00:00", "the last day is part of a period of dates"
    assert [one["column"] for one in entry("profile", columns=["age", "grade"])["columns"]] == ["age", "grade"]
    assert entry_leaves_out({"kind": "profile"})
    assert entry_leaves_out({"kind": "profile", "columns": ["age"]})
    assert not entry_leaves_out({"kind": "profile", **entry("profile", columns="age")})


@pytest.mark.parametrize(
    ("domains", "columns", "said"),
    [
        (Domains(columns=(BoundColumn(name="n", type="int"),), lists={}), None, "`dp-budget domains ACCOUNT --set"),
        (DOMAINS, ["anything"], "columns.anything: must have values, bounds, or start and end"),
    ],
)
def test_a_profile_of_a_column_of_which_nothing_is_known_is_refused(domains: Domains, columns: Any, said: str) -> None:
    given = {"diagnostics": [{"kind": "profile", **({"columns": columns} if columns else {})}]}
    with pytest.raises(InvalidRequest) as refused:
        a_request(**completed(given, domains))
    assert said in str(refused.value)
