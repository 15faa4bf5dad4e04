"""The Spark half of residual counts against the numpy half, on the same rows."""

from decimal import Decimal

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import ResidualCounts
from tests.support.residual_rows import columns, nasty_pairs
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

SCHEMA = "fitted double, residual double"
ANSI = [{"spark.sql.ansi.enabled": ansi} for ansi in ("true", "false")]
NO_CODEGEN = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.mark.halved
@pytest.mark.parametrize("changes", [*ANSI, NO_CODEGEN], ids=["ansi", "not ansi", "no generated code"])
@pytest.mark.parametrize("unit", [1.0, 0.3, 2.0**-1000, 1e300])
def test_nasty_numbers_are_counted_like_arrays(spark, unit, changes):
    rows = nasty_pairs(3)
    with spark_settings(spark, changes):
        table = spark.createDataFrame(rows, SCHEMA)
        assert ResidualCounts.from_dataframe(table, unit=unit) == ResidualCounts.from_arrays(*columns(rows), unit=unit)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("boolean", [True, False, None]),
        ("byte", [0, 1, -128, 127, None]),
        ("long", [0, 1, 2**63 - 1, -(2**63), 2**53 + 1]),
        ("decimal(38,10)", [Decimal("0.1"), Decimal("-7.3"), Decimal("1e20"), None]),
        ("void", [None, None]),
    ],
)
def test_every_numeric_type_is_counted_like_arrays(spark, kind, numbers):
    rows = list(zip(numbers, reversed(numbers), strict=True))
    table = spark.createDataFrame(rows, f"fitted {kind}, residual {kind}")
    assert ResidualCounts.from_dataframe(table) == ResidualCounts.from_arrays(*columns(rows))


def test_columns_are_given_by_name_or_as_expressions(spark):
    table = spark.createDataFrame([(1.0, -3.0)], "guess double, rest double")
    by_name = ResidualCounts.from_dataframe(table, fitted="guess", residual="rest")
    assert by_name == ResidualCounts.from_dataframe(table, fitted=table.guess * 1, residual=table.rest * 1)
    assert by_name == ResidualCounts.from_arrays([1.0], [-3.0])


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"fitted": "nothing"}, "fitted: got 'nothing'; must be a column of the table; correct its name"),
        ({"residual": "text"}, "residual: got 'text of type string'; must be numeric or boolean; convert the column"),
        ({"unit": 0}, "unit: got 0; must be a number above 0"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_table_is_read(spark, fields, line):
    table = spark.range(1).selectExpr("1 as fitted", "2 as residual", "'a' as text")
    with pytest.raises(InvalidRequest) as refused:
        ResidualCounts.from_dataframe(table.where("raise_error('this row was read') is null"), **fields)
    assert str(refused.value).startswith(line)
