"""The Spark half against the numpy half, on the same rows."""

import subprocess
import sys
from decimal import Decimal
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.grids import PAIR_CELLS, SCORE_CELLS
from spark_jobs.score_grid import PAIRED, REFINED, cells_of, edges_of
from spark_jobs.statistics import ScoreCounts
from tests.support.score_rows import NASTY_ROWS, counted_one_by_one, from_rows, rows
from tests.support.spark import settings as spark_settings

pytestmark = pytest.mark.spark

DOUBLES = "label double, score double"
GRIDS = (2, 8, 65536, 2**20, SCORE_CELLS)
ANSI = pytest.mark.parametrize("ansi", ["true", "false"])


@pytest.fixture(scope="module")
def generator():
    return np.random.default_rng(7)


def frame(spark, table, schema=DOUBLES):
    return spark.createDataFrame(table, schema)


def keys_of_rows(spark, table, schema=DOUBLES, grids=GRIDS):
    """Each row's key on each grid, as Spark computes it row by row; None where the row is dropped."""
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.scores import score_key

    numbered = spark.createDataFrame([(i, *row) for i, row in enumerate(table)], f"place int, {schema}")
    keys = [score_key(sf.col("label"), sf.col("score"), cells).alias(f"key{cells}") for cells in grids]
    return [tuple(row)[1:] for row in sorted(numbered.select("place", *keys).collect())]


def key_of_row(row, cells):
    """The same by the slow reference."""
    counts = counted_one_by_one([row], cells)
    found = [label * cells + cell for label in (0, 1) for cell in range(cells) if counts[label][cell]]
    return found[0] if found else None


@ANSI
def test_keys_of_nasty_rows_are_those_of_the_stated_rule(spark, ansi):
    grids = (2, 8, 1024)
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        keys = keys_of_rows(spark, NASTY_ROWS, grids=grids)
    assert keys == [tuple(key_of_row(row, cells) for cells in grids) for row in NASTY_ROWS]


@pytest.mark.sampled("ansi")
@ANSI
@pytest.mark.parametrize("codegen", ["true", "false"])
def test_nasty_rows_are_counted_like_arrays(spark, ansi, codegen):
    changes = {"spark.sql.ansi.enabled": ansi, "spark.sql.codegen.wholeStage": codegen}
    if codegen == "false":
        changes["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    with spark_settings(spark, changes):
        table = frame(spark, NASTY_ROWS)
        for cells in GRIDS:
            assert ScoreCounts.from_dataframe(table, cells=cells) == from_rows(NASTY_ROWS, cells)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows(65536, most=300), st.booleans())
def test_any_rows_are_counted_like_arrays(spark, table, ansi):
    with spark_settings(spark, {"spark.sql.ansi.enabled": str(ansi).lower()}):
        assert ScoreCounts.from_dataframe(frame(spark, table), cells=65536) == from_rows(table, 65536)
        assert ScoreCounts.from_dataframe(frame(spark, table)) == from_rows(table, SCORE_CELLS)


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(("grid", "ends"), [(SCORE_CELLS, REFINED), (PAIR_CELLS, PAIRED)], ids=["refined", "pair"])
def test_the_finer_grids_have_equal_cells_in_both_engines(spark, grid, ends, ansi):
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.both_ends import both_ends_cell

    edges = edges_of(grid)
    every = [edges, np.nextafter(edges, 2), np.nextafter(edges, -1), 10.0 ** np.arange(-320, 0), [np.inf, -np.inf, -5]]
    scores = np.concatenate(every)
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        table = spark.createDataFrame([(place, float(score)) for place, score in enumerate(scores)], "i int, s double")
        found = dict(table.select("i", both_ends_cell(sf.col("s"), ends)).toPandas().itertuples(index=False))
    assert [found[place] for place in range(scores.size)] == cells_of(scores, grid).tolist()


@pytest.mark.sampled("schema")
@ANSI
@pytest.mark.parametrize(
    ("schema", "table"),
    [
        ("label float, score float", [(a, b) for a in (0.0, 1.0, 0.1, 1e38, None) for b in (0.1, 0.7, -1e38, None)]),
        (
            "label decimal(38,20), score decimal(38,30)",
            [
                (Decimal(a), Decimal(b))
                for a in ("0", "1", "1.00000000000000000001", "0.5", "99999999999999999")
                for b in ("0.1", "0.499999999999999999999999999999", "0.5", "-1", "1e-30", "99999999")
            ],
        ),
        ("label void, score double", [(None, 0.5)]),
        *(
            pytest.param(*case, marks=pytest.mark.verify)
            for case in (
                ("label boolean, score boolean", [(a, b) for a in (True, False, None) for b in (True, False, None)]),
                ("label byte, score short", [(a, b) for a in (0, 1, -128, 127, None) for b in (0, 1, 2, -32768, None)]),
                (
                    "label int, score int",
                    [(a, b) for a in (0, 1, 2**31 - 1, -(2**31)) for b in (0, 1, 2**31 - 1, None)],
                ),
                (
                    "label long, score long",
                    [(a, b) for a in (0, 1, 2**63 - 1, -(2**63), 2**53 + 1) for b in (0, 2**63 - 1)],
                ),
                ("label int, score void", [(0, None), (1, None)]),
            )
        ),
    ],
)
def test_every_numeric_type_is_counted_like_arrays(spark, schema, table, ansi):
    if "float" in schema:
        singles = [tuple(None if value is None else np.float32(value) for value in row) for row in table]
        expected = {cells: from_rows(singles, cells) for cells in GRIDS}
    else:
        expected = {cells: from_rows(table, cells) for cells in GRIDS}
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        rows_of_type = frame(spark, table, schema)
        for cells in GRIDS:
            assert ScoreCounts.from_dataframe(rows_of_type, cells=cells) == expected[cells]


def test_neither_order_nor_partitions_nor_query_settings_matter(spark, generator):
    label, score = generator.integers(0, 2, 20000), generator.random(20000)
    expected = ScoreCounts.from_arrays(label, score, cells=1024)
    table = frame(spark, list(zip(label.tolist(), score.tolist(), strict=True)), "label int, score double")
    for shape in (table.coalesce(1), table.repartition(7), table.repartition(3, "score"), table.orderBy("score")):
        assert ScoreCounts.from_dataframe(shape, cells=1024) == expected
    for changes in (
        {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "5"},
        {"spark.sql.execution.useObjectHashAggregateExec": "false", "spark.sql.shuffle.partitions": "1"},
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "100"},
    ):
        with spark_settings(spark, changes):
            assert ScoreCounts.from_dataframe(table.repartition(4), cells=1024) == expected


def test_counts_of_partitions_add_up_to_the_whole(spark, generator):
    from pyspark.sql import functions as sf

    table = [(float(a), float(b)) for a, b in zip(generator.integers(0, 3, 500), generator.random(500), strict=True)]
    whole = frame(spark, table).withColumn("part", sf.spark_partition_id()).localCheckpoint()
    parts = [row.part for row in whole.select("part").distinct().collect()]
    assert len(parts) > 1
    counts = [ScoreCounts.from_dataframe(whole.where(sf.col("part") == part), cells=64) for part in parts]
    assert reduce(add, counts) == ScoreCounts.from_dataframe(whole, cells=64) == from_rows(table, 64)


def test_more_keys_than_the_fast_table_holds_are_counted_all_the_same(spark):
    from spark_jobs.statistics.spark.cells import count_keys

    wide = spark.range(200_000).selectExpr("if(id % 5 = 0, null, cast(id % 100000 as int)) as key")
    for distinct in (2, 200_000):
        keys, counts = count_keys(wide, "key", distinct=distinct)
        assert sorted(keys.tolist()) == [key for key in range(100_000) if key % 5]
        assert set(counts.tolist()) == {2}
        assert keys.dtype == counts.dtype == np.int64


@pytest.mark.parametrize(
    "table", [[], [(None, None)] * 3, [(1.0, 0.3), (1.0, 0.3)], [(0.0, 1.0)], [(2.0, 0.5)], [(0.0, 0.5)] * 50]
)
def test_empty_and_one_sided_frames_give_counts_of_the_usual_shape(spark, table):
    counts = ScoreCounts.from_dataframe(frame(spark, table), cells=16)
    assert counts.cells == 16
    assert counts == from_rows(table, 16)


def test_columns_are_given_by_name_or_as_expressions(spark):
    from pyspark.sql import functions as sf

    table = frame(spark, [(3, 10.0, 1), (4, 70.0, 2)], "outcome int, percent double, `a.b` int")
    by_expression = ScoreCounts.from_dataframe(table, label=(sf.col("outcome") > 3), score=table.percent / 100, cells=4)
    assert (by_expression.negatives.tolist(), by_expression.positives.tolist()) == ([1, 0, 0, 0], [0, 0, 1, 0])
    one_column = ScoreCounts.from_dataframe(table, label="`a.b`", score="`a.b`", cells=2)
    assert (one_column.negatives.tolist(), one_column.positives.tolist()) == ([0, 0], [0, 1])


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ({"label": "nothing"}, "label: got 'nothing'; must be a column of the table; correct its name"),
        ({"score": "nothing"}, "score: got 'nothing'; must be a column of the table; correct its name"),
        ({"label": "text"}, "label: got 'text of type string'; must be numeric or boolean; convert the column first"),
        ({"score": "day"}, "score: got 'day of type date'; must be numeric or boolean; convert the column first"),
        ({"cells": 1000}, "cells: got 1000; must be a power of two from 2 to 1048576; use the default"),
    ],
)
def test_requests_that_do_not_fit_the_frame_are_refused_before_it_is_read(spark, columns, line):
    table = spark.range(1).selectExpr("1 as label", "0.5 as score", "'a' as text", "current_date() as day")
    unreadable = table.where("raise_error('this row was read') is null")
    with pytest.raises(InvalidRequest) as refused:
        ScoreCounts.from_dataframe(unreadable, **columns)
    assert str(refused.value).startswith(line)


def test_keys_can_be_made_bounded_and_counted_in_separate_steps(spark):
    from pyspark.sql import functions as sf

    from spark_jobs.statistics.spark.cells import count_keys
    from spark_jobs.statistics.spark.scores import score_key

    table = frame(spark, NASTY_ROWS * 2).select(score_key(sf.col("label"), sf.col("score"), 8).alias("k"))
    assert [(field.name, field.dataType.simpleString()) for field in table.schema] == [("k", "int")]
    assert ScoreCounts.from_keys(*count_keys(table, "k", distinct=16), cells=8) == from_rows(NASTY_ROWS * 2, 8)
    bounded = ScoreCounts.from_keys(*count_keys(table.distinct(), sf.col("k"), distinct=16), cells=8)
    assert bounded.negatives.tolist() == [1, 0, 0, 1, 1, 0, 0, 1]
    assert bounded == ScoreCounts(negatives=bounded.positives, positives=bounded.negatives)


def test_strings_make_no_key_and_no_error(spark):
    for ansi in ("true", "false"):
        with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
            keys = keys_of_rows(
                spark, [("1", "0.5"), ("one", "0.5"), ("1", "half"), (None, "")], "label string, score string", (2,)
            )
        assert keys == [(3,), (None,), (None,), (None,)]


def test_settings_are_those_of_the_query_alone(spark):
    from spark_jobs.statistics.spark.cells import settings as query_settings

    bits, split, unknown = (
        "spark.sql.codegen.aggregate.fastHashMap.capacityBit",
        "spark.sql.files.maxPartitionBytes",
        "spark.dp.test",
    )
    default = spark.conf.get(bits)
    with spark_settings(spark, {split: "99m"}):
        with query_settings(spark, {bits: "20", split: "1g", unknown: "x"}):
            assert [spark.conf.get(name) for name in (bits, split, unknown)] == ["20", "1g", "x"]
        assert [spark.conf.get(name) for name in (bits, split)] == [default, "99m"]
        assert spark.conf.get(unknown, None) is None


def test_settings_are_put_back_after_a_failure(spark):
    from pyspark.errors import PySparkException

    from spark_jobs.statistics.spark.cells import count_keys

    def shown():
        return sorted(map(tuple, spark.sql("SET").collect()))

    before = shown()
    with pytest.raises(PySparkException):
        count_keys(spark.range(1).selectExpr("cast(raise_error('broken') as int) as key"), "key", distinct=2**17)
    assert shown() == before


def test_importing_the_statistics_imports_no_engine():
    code = "import sys, spark_jobs.statistics; sys.exit(any(name in sys.modules for name in ('pyspark', 'airflow')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
