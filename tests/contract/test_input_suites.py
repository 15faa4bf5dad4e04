"""Suites that people write for inputs: expectations of the schema alone, judged as Great Expectations judges them."""

from __future__ import annotations

import os
from typing import Any

import pytest

from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.input_suites import InputSuite, class_of
from tests.support.requests import a_request

TYPES = {
    "y": "int",
    "score": "double",
    "fee": "decimal(9,2)",
    "name": "string",
    "at": "timestamp",
    "tags": "array<int>",
}


def suite(*expectations: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    listed = [{"type": name, "kwargs": kwargs, "meta": {}, "severity": "critical"} for name, kwargs in expectations]
    return {"name": "input", "id": None, "expectations": listed, "meta": {"great_expectations_version": "1.24.1"}}


MET = [
    ("expect_column_to_exist", {"column": "score"}),
    ("expect_column_values_to_be_of_type", {"column": "fee", "type_": "DecimalType"}),
    ("expect_column_values_to_be_in_type_list", {"column": "y", "type_list": ["IntegerType", "LongType"]}),
    ("expect_column_values_to_be_of_type", {"column": "tags", "type_": "ArrayType"}),
    ("expect_table_column_count_to_equal", {"value": 6}),
    ("expect_table_column_count_to_be_between", {"min_value": 1, "max_value": 6}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": list(TYPES)}),
    ("expect_table_columns_to_match_set", {"column_set": ["score", "y"], "exact_match": False}),
    ("expect_table_columns_to_match_set", {"column_set": sorted(TYPES)}),
]
UNMET = [
    ("expect_column_to_exist", {"column": "Score"}),
    ("expect_column_values_to_be_of_type", {"column": "y", "type_": "LongType"}),
    ("expect_column_values_to_be_in_type_list", {"column": "at", "type_list": ["DateType", "StringType"]}),
    ("expect_table_column_count_to_equal", {"value": 5}),
    ("expect_table_column_count_to_be_between", {"min_value": 7}),
    ("expect_table_column_count_to_be_between", {"max_value": 5}),
    ("expect_table_columns_to_match_ordered_list", {"column_list": sorted(TYPES)}),
    ("expect_table_columns_to_match_set", {"column_set": ["score", "y"]}),
    ("expect_table_columns_to_match_set", {"column_set": ["score", "z"], "exact_match": False}),
]


def meets(expectation: tuple[str, dict[str, Any]]) -> bool:
    try:
        check_columns(a_request(input_suite=suite(expectation)), TYPES)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize("expectation", MET, ids=str)
def test_table_that_meets_a_suite_passes(expectation: tuple[str, dict[str, Any]]) -> None:
    assert meets(expectation)


@pytest.mark.parametrize("expectation", UNMET, ids=str)
def test_table_that_does_not_meet_a_suite_is_refused(expectation: tuple[str, dict[str, Any]]) -> None:
    assert not meets(expectation)
    with pytest.raises(InvalidRequest, match=rf"^input_suite: got .*{expectation[0]}\(.*; must be met by") as refused:
        check_columns(a_request(input_suite=suite(expectation)), TYPES)
    assert "\n" not in str(refused.value)


@pytest.mark.spark
@pytest.mark.verify
def test_answers_are_those_of_great_expectations(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GX_ANALYTICS_ENABLED", "false")
    gx = pytest.importorskip("great_expectations")
    context = gx.get_context(mode="ephemeral")
    empty = spark.createDataFrame([], ", ".join(f"{name} {written}" for name, written in TYPES.items()))
    asset = context.data_sources.add_spark("input").add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("empty").get_batch({"dataframe": empty})
    for expectation in (*MET, *UNMET):
        theirs = gx.ExpectationSuite(**{**suite(expectation), "id": None})
        assert batch.validate(theirs).success is (expectation in MET), expectation


@pytest.mark.parametrize(
    ("expectation", "line"),
    [
        (
            ("expect_column_values_to_be_between", {"column": "score", "min_value": 0}),
            "type: got 'expect_column_values_to_be_between'; must be one of expect_column_to_exist, ",
        ),
        (
            ("expect_table_row_count_to_be_between", {"min_value": 1}),
            "type: got 'expect_table_row_count_to_be_between'",
        ),
        (("expect_column_to_exist", {}), "kwargs.column: is required of expect_column_to_exist here; add it"),
        (
            ("expect_column_values_to_be_of_type", {"column": "y", "type_": "IntegerType", "mostly": 0.5}),
            "kwargs.mostly: is no argument of expect_column_values_to_be_of_type here; remove it",
        ),
        (
            ("expect_column_to_exist", {"column": 1}),
            "kwargs.column: got 1; must be of the type that Great Expectations takes",
        ),
        (
            ("expect_column_values_to_be_of_type", {"column": "y", "type_": "DoubelType"}),
            "kwargs.type_: got 'DoubelType'; must be a type of Spark, such as DoubleType; correct it",
        ),
    ],
)
def test_expectation_of_rows_is_refused_by_name_when_the_request_is_read(
    expectation: tuple[str, dict[str, Any]], line: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        a_request(input_suite=suite(("expect_column_to_exist", {"column": "y"}), expectation))
    assert str(refused.value).startswith(f"input_suite.expectations.1.{line}")
    assert "\n" not in str(refused.value)


def test_request_without_a_suite_is_the_one_that_it_was() -> None:
    assert "input_suite" not in a_request().to_dict()
    assert a_request().sha256 != a_request(input_suite=suite(*MET)).sha256


def test_what_the_library_notes_does_not_change_a_request() -> None:
    noted = suite(*MET)
    noted["id"], noted["notes"], noted["meta"] = "3fa8", "written on Monday", {"great_expectations_version": "1.9"}
    noted["expectations"][0]["id"] = "b1"
    request = a_request(input_suite=noted)
    assert request.sha256 == a_request(input_suite=suite(*MET)).sha256
    assert type(request).parse(request.to_dict()) == request


SPARKS = {"ByteType": "tinyint", "ShortType": "smallint", "LongType": "bigint", "FloatType": "float"}
SPARKS |= {"BooleanType": "boolean", "DateType": "date", "TimestampNTZType": "timestamp_ntz", "BinaryType": "binary"}


def test_types_have_the_names_of_sparks_classes() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    for name, written in SPARKS.items():
        assert (class_of(written), getattr(types, name)().simpleString()) == (name, written)
    inner = types.IntegerType()
    for made in (types.DecimalType(38, 10), types.ArrayType(inner), types.MapType(inner, inner), types.StructType([])):
        assert class_of(made.simpleString()) == type(made).__name__


def test_suite_needs_an_expectation() -> None:
    with pytest.raises(InvalidRequest, match=r"expectations: got \[\]; tuple should have at least 1 item"):
        InputSuite.parse({"name": "input", "expectations": []})
