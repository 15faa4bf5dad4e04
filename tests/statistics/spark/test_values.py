"""The Spark half of value counts against the numpy half, on the same rows."""

from decimal import Decimal

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import ValueCounts
from tests.support.spark import settings as spark_settings
from tests.support.value_rows import GRIDS, LATTICES, NASTY_VALUES, column

pytestmark = pytest.mark.spark

EVERY_GRID = pytest.mark.parametrize("grid", [*GRIDS.values(), *LATTICES.values()], ids=[*GRIDS, *LATTICES])


def fields(grid):
    return grid.fields()


def nasty_for(grid):
    """Every edge and its neighbours, values all over, and what no one expects."""
    random = np.random.default_rng(5)
    edges = grid.edges[:: max(1, grid.size // 400)]
    beside = [np.nextafter(edges, to) for to in (np.inf, -np.inf)]
    if grid.step is not None:
        beside += [edges + part * grid.step for part in (-0.5, 0.49, 0.5, 0.51)]
        beside += [np.nextafter(edges + grid.step / 2, to) for to in (np.inf, -np.inf)]
    sizes = 2.0 ** random.uniform(-40, 40, 500)
    rows = np.concatenate([edges, *beside, sizes, -sizes, random.uniform(grid.lower, grid.upper, 500)])
    return [*NASTY_VALUES, *rows.tolist()]


@EVERY_GRID
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_nasty_values_are_counted_like_arrays(spark, grid, ansi):
    rows = nasty_for(grid)
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        table = spark.createDataFrame([(row,) for row in rows], "value double")
        assert ValueCounts.from_dataframe(table, **fields(grid)) == ValueCounts.from_arrays(
            column(rows), **fields(grid)
        )


def test_values_are_counted_like_arrays_without_generated_code(spark):
    grid = GRIDS["log, both signs"]
    rows = nasty_for(grid)
    with spark_settings(
        spark, {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    ):
        table = spark.createDataFrame([(row,) for row in rows], "value double")
        assert ValueCounts.from_dataframe(table, **fields(grid)) == ValueCounts.from_arrays(
            column(rows), **fields(grid)
        )


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        ("value boolean", [True, False, None]),
        ("value byte", [0, 1, -128, 127, None]),
        ("value long", [0, 1, 2**63 - 1, -(2**63), 2**53 + 1]),
        ("value decimal(38,10)", [Decimal("0.1"), Decimal("-7.3"), Decimal("1e20"), None]),
        ("value void", [None, None]),
    ],
)
def test_every_numeric_type_is_counted_like_arrays(spark, schema, rows):
    table = spark.createDataFrame([(row,) for row in rows], schema)
    for name in ("linear around 0", "log, both signs"):
        grid = GRIDS[name]
        assert ValueCounts.from_dataframe(table, **fields(grid)) == ValueCounts.from_arrays(
            column(rows), **fields(grid)
        )


def test_columns_are_given_by_name_or_as_expressions(spark):
    table = spark.createDataFrame([(1.0,), (3.0,)], "amount double")
    by_name = ValueCounts.from_dataframe(table, value="amount", lower=0, upper=4, cells=4)
    by_expression = ValueCounts.from_dataframe(table, value=table.amount * 1, lower=0, upper=4, cells=4)
    assert by_name.counts.tolist() == by_expression.counts.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("nothing", "value: got 'nothing'; must be a column of the table; correct its name"),
        ("text", "value: got 'text of type string'; must be numeric or boolean; convert the column first"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_table_is_read(spark, value, line):
    table = spark.range(1).selectExpr("1 as value", "'a' as text").where("raise_error('this row was read') is null")
    with pytest.raises(InvalidRequest) as refused:
        ValueCounts.from_dataframe(table, value=value, lower=0, upper=1)
    assert str(refused.value) == line
