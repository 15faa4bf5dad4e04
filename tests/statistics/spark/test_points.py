"""The Spark half of point counts and moments against the numpy half, on the same rows."""

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import Moments, PointCounts
from spark_jobs.statistics.point_grid import PointGrid
from tests.support.point_rows import GRIDS, KEYS, counts_of, nasty_rows
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

BOTH = pytest.mark.parametrize("kind", [PointCounts, Moments])
EVERY_GRID = pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)


def of_frame(kind, table, grid, **columns):
    return kind.from_dataframe(
        table,
        **{"group": "group", **columns},
        keys=grid.keys,
        lower=(grid.x.lower, grid.y.lower),
        upper=(grid.x.upper, grid.y.upper),
        cells=grid.cells,
    )


@BOTH
@EVERY_GRID
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_nasty_rows_are_counted_like_arrays(spark, kind, grid, ansi):
    rows = nasty_rows()
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        table = spark.createDataFrame(rows, "group string, x double, y double")
        assert of_frame(kind, table, grid) == counts_of(rows, grid, kind)


@BOTH
@pytest.mark.parametrize("kind_of_key", ["byte", "long", "string", "void"])
def test_groups_of_every_type_are_counted_like_arrays(spark, kind, kind_of_key):
    groups = {
        "byte": [17, -3, None, 5],
        "long": [2**62, 17, None, -(2**63)],
        "string": ["17", "2", None, ""],
        "void": [None] * 4,
    }
    rows = [(group, 0.1 * i, 1 - 0.1 * i) for i, group in enumerate(groups[kind_of_key])]
    grid = PointGrid.between(keys=[17, 2**62, -(2**63), ""])
    table = spark.createDataFrame(rows, f"group {kind_of_key}, x double, y double")
    assert of_frame(kind, table, grid) == counts_of(rows, grid, kind)


@BOTH
def test_one_group_needs_no_column(spark, kind):
    x, y = np.random.default_rng(3).random((2, 200))
    table = spark.createDataFrame(list(zip(x.tolist(), y.tolist(), strict=True)), "income double, outcome double")
    found = kind.from_dataframe(table, x="income", y=table.outcome * 1)
    assert found == kind.from_arrays(x, y)


@BOTH
def test_ten_thousand_groups_of_one_row_each(spark, kind):
    table = spark.range(10_000).selectExpr("id as group", "id / 10000 as x", "rand(1) as y")
    grid = PointGrid.between(keys=range(10_000))
    found = of_frame(kind, table, grid)
    assert np.array_equal(found.usable, np.ones(10_000))
    half = PointGrid.between(keys=range(5_000, 15_000))
    assert np.array_equal(of_frame(kind, table, half).usable, np.repeat([1, 0], 5_000))


@BOTH
@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"x": "nothing"}, "x: got 'nothing'; must be a column of the table; correct its name"),
        ({"y": "text"}, "y: got 'text of type string'; must be numeric or boolean; convert the column first"),
        ({"group": "nothing"}, "group: got 'nothing'; must be a column of the table; correct its name"),
        ({"group": "x"}, "group: got 'x of type double'; must be texts or whole numbers; convert the column first"),
        ({"group": None}, "keys: must be left out"),
    ],
    ids=str,
)
def test_columns_that_do_not_fit_are_refused_before_the_table_is_read(spark, kind, columns, line):
    table = spark.range(1).selectExpr("1D as x", "1 as y", "'a' as text", "'north' as group")
    table = table.where("raise_error('this row was read') is null")
    with pytest.raises(InvalidRequest) as refused:
        of_frame(kind, table, PointGrid.between(keys=KEYS), **columns)
    assert str(refused.value).startswith(line)
