from __future__ import annotations

import io
import logging
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.checks.input import check_input, great_expectations, warm_up
from spark_jobs.contract.errors import InvalidRequest
from tests.support.requests import a_logistic_request, a_request

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> StructType:
    return spark.createDataFrame(
        [], "y int, score double, `a.b` float, c string, s struct<score:string>, l array<int>, person bigint"
    ).schema


@pytest.mark.parametrize(
    "request_",
    [
        a_request(),
        a_request(label="Y", where="c = 'x' and `a.b` > 1", unit={"column": "PERSON"}),
        a_request(label={"column": "c", "positive": "yes", "negative": "no"}),
        a_logistic_request(coefficients={"`a.b`": 1, "length(c)": 1, "person": 1}, categorical={"c": {"x": 1}}),
        a_request(model={"kind": "spark_ml", "basis": "public", "path": "/m"}),
    ],
)
def test_a_schema_that_has_what_is_needed_passes(spark: SparkSession, schema: StructType, request_: Any) -> None:
    assert check_input(spark, schema, request_) is None


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        (
            a_request(label="z"),
            "label.column: got 'z'; must be a column of the table, which has y, score, a.b, c, s, l, person; "
            "correct the name",
        ),
        (
            a_request(label="c"),
            "label.column: got 'c'; must be of type boolean, integer or number, not string; "
            "write label.positive and label.negative as they are in this column, e.g. '1' for text",
        ),
        (
            a_request(model={"kind": "columns", "basis": "public", "score": "c"}),
            "model.score: got 'c'; must be of type integer or number, not string; "
            "name another column, or change its type in the table",
        ),
        (
            a_request(model={"kind": "columns", "basis": "public", "score": "s.score"}),
            "model.score: got 's.score'; must be a column of the table, which has y, score, a.b, c, s, l, person; "
            "correct the name; did you mean 'score'?",
        ),
        (
            a_logistic_request(categorical={"a.b": {"1": 1}}),
            "model.categorical: got 'a.b'; must be of type string, integer or boolean, not float; "
            "use an expression of the column under model.coefficients",
        ),
    ],
)
def test_a_schema_that_lacks_something_is_refused_in_one_line(
    spark: SparkSession, schema: StructType, request_: Any, line: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_input(spark, schema, request_)
    assert str(refused.value) == line


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"where": "nowhere > 1"}, "where"),
        ({"where": "l is null"}, "where"),
        ({"unit": {"column": "nobody"}}, "unit.column"),
        ({"unit": {"column": "s"}}, "unit.column"),
    ],
)
def test_every_part_of_a_request_is_checked(
    spark: SparkSession, schema: StructType, changes: dict[str, Any], what: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_input(spark, schema, a_request(**changes))
    assert refused.value.field == what


def test_the_check_prints_and_logs_nothing(
    spark: SparkSession, schema: StructType, caplog: pytest.LogCaptureFixture
) -> None:
    said = io.StringIO()
    with caplog.at_level(logging.INFO), redirect_stdout(said), redirect_stderr(said):
        check_input(spark, schema, a_request())
    assert said.getvalue() == ""
    assert [record.message for record in caplog.records if record.name.startswith("great_expectations")] == []


def test_warming_up_imports_the_library() -> None:
    thread = warm_up()
    thread.join()
    assert great_expectations().__name__ == "great_expectations"
    assert not thread.is_alive()
