"""The Spark half of cross products against the numpy half, on the same rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import CrossProducts
from spark_jobs.statistics.cross_products import Bounded, CrossProductCells, Levels
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

DESIGN = CrossProductCells(
    features=(Bounded(name="a b", lower=-0.1, upper=0.7), Bounded(name="flag", lower=0, upper=1)),
    categorical=(Levels(column="level.x", levels=("p", "q", "r")), Levels(column="yes", levels=("false", "true"))),
    outcome=Bounded(name="y", lower=-1e6, upper=3e6),
)
NASTY = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e308, -1e308, -0.1, 0.7, 0.1, 0.3, 1 / 3]


def rows(count):
    random = np.random.default_rng(7)
    numbers = [*NASTY, *random.uniform(-0.3, 1, 50).tolist()]
    edges = [float(np.nextafter(x, to)) for x in (-0.1, 0.7) for to in (-9, 9)]
    outcomes = [*NASTY, -1e6, 3e6, *random.normal(0, 1e6, 50).tolist()]
    levels, flags = ["p", "q", "r", "s", "", None, "true"], [True, False, None]

    def pick(of):
        return of[int(random.integers(len(of)))]

    return [(pick([*numbers, *edges]), pick(flags), pick(levels), pick(flags), pick(outcomes)) for _ in range(count)]


def arrays(table):
    columns = [np.array([row[place] for row in table], dtype=object) for place in range(5)]
    return dict(zip(("a b", "flag", "level.x", "yes"), columns[:4], strict=True)), columns[4]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_nasty_rows_are_summed_like_arrays(spark, ansi):
    table = rows(3000)
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        frame = spark.createDataFrame(table, "`a b` double, flag boolean, `level.x` string, yes boolean, y double")
        columns, y = arrays(table)
        expected = CrossProducts.from_arrays(columns, y, design=DESIGN)
        assert expected.products[0, 0] > 0
        assert CrossProducts.from_dataframe(frame, design=DESIGN) == expected


def test_rows_are_summed_like_arrays_without_generated_code(spark):
    table = rows(500)
    plain = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    with spark_settings(spark, plain):
        frame = spark.createDataFrame(table, "`a b` double, flag boolean, `level.x` string, yes boolean, y double")
        columns, y = arrays(table)
        assert CrossProducts.from_dataframe(frame, design=DESIGN) == CrossProducts.from_arrays(
            columns, y, design=DESIGN
        )


def test_whole_numbers_are_summed_like_arrays(spark):
    design = CrossProductCells(
        features=(Bounded(name="n", lower=0, upper=100),),
        categorical=(Levels(column="k", levels=("1", "2", "-3")), Levels(column="m", levels=("0", "1"))),
        outcome=Bounded(name="y", lower=0, upper=1),
    )
    table = [(5, 1, 1), (2**62, 2, 0), (-(2**62), -3, 1), (7, 2, 2), (None, 2, 1), (50, None, None), (50, None, 0)]
    frame = spark.createDataFrame([(*row, row[2]) for row in table], "n bigint, k int, y int, m int")
    columns = {"n": [row[0] for row in table], "k": [row[1] for row in table], "m": [row[2] for row in table]}
    outcomes = [row[2] for row in table]
    found = CrossProducts.from_dataframe(frame, design=design)
    assert found == CrossProducts.from_arrays(columns, outcomes, design=design)


def test_an_empty_table_has_sums_of_nothing(spark):
    frame = spark.createDataFrame([], "`a b` double, flag boolean, `level.x` string, yes boolean, y double")
    assert not CrossProducts.from_dataframe(frame, design=DESIGN).products.any()


def test_many_terms_are_summed_in_one_pass(spark):
    features = tuple(Bounded(name=f"x{place}", lower=0, upper=1) for place in range(40))
    design = CrossProductCells(features=features, outcome=Bounded(name="label", lower=0, upper=1))
    random = np.random.default_rng(8)
    values = random.uniform(size=(200, 40))
    labels = random.integers(0, 2, 200)
    frame = spark.createDataFrame(
        [(*row, int(label)) for row, label in zip(values.tolist(), labels, strict=True)],
        [*(feature.name for feature in features), "label"],
    )
    columns = {feature.name: values[:, place] for place, feature in enumerate(features)}
    assert CrossProducts.from_dataframe(frame, design=design) == CrossProducts.from_arrays(
        columns, labels, design=design
    )


def test_a_column_that_does_not_fit_is_refused(spark):
    frame = spark.createDataFrame([("text", 1)], "n string, label int")
    outcome = Bounded(name="label", lower=0, upper=1)
    design = CrossProductCells(features=(Bounded(name="n", lower=0, upper=1),), outcome=outcome)
    with pytest.raises(InvalidRequest, match="must be numeric or boolean"):
        CrossProducts.from_dataframe(frame, design=design)
    missing = CrossProductCells(features=(), categorical=(Levels(column="m", levels=("a", "b")),), outcome=outcome)
    with pytest.raises(InvalidRequest, match="must be a column of the table"):
        CrossProducts.from_dataframe(frame, design=missing)
