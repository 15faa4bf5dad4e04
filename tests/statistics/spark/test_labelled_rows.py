"""The Spark half of labelled rows against the numpy half, on the same rows and at the same coefficients."""

from __future__ import annotations

import numpy as np
import pytest

from spark_jobs.contract.options.fits import COEFFICIENT_STEPS
from spark_jobs.statistics.labelled_rows import Bounded, LabelledRowCells, LabelledRows, Levels
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark]

DESIGN = LabelledRowCells(
    features=(Bounded(name="a b", lower=-0.1, upper=0.7),),
    categorical=(Levels(column="level.x", levels=("p", "q", "r")), Levels(column="yes", levels=("false", "true"))),
)
POSITIONS = ([0, 0, 0, 0, 0], [COEFFICIENT_STEPS, -3 * COEFFICIENT_STEPS, 1, 2**19, -(2**20)], [2**30] * 5)


def rows(count):
    random = np.random.default_rng(7)
    numbers = [None, float("nan"), float("inf"), -0.1, 0.7, 1e308, *random.uniform(-0.3, 1, 50).tolist()]

    def pick(of):
        return of[int(random.integers(len(of)))]

    return [
        (pick(numbers), pick(["p", "q", "r", "s", None]), pick([True, False, None]), pick([0, 1, 0, 1, 2, None]))
        for _ in range(count)
    ]


@pytest.mark.parametrize("ansi", ["true", pytest.param("false", marks=pytest.mark.verify)])
def test_sums_are_those_of_arrays(spark, ansi):
    table = rows(2000)
    columns = [np.array([row[place] for row in table], dtype=object) for place in range(4)]
    arrays = LabelledRows.from_arrays(
        dict(zip(("a b", "level.x", "yes"), columns[:3], strict=True)), columns[3], design=DESIGN
    )
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        frame = spark.createDataFrame(table, "`a b` double, `level.x` string, yes boolean, label int")
        found = LabelledRows.from_dataframe(frame, design=DESIGN)
        for position in POSITIONS:
            own, other = (each.sums_at(np.array(position)) for each in (found, arrays))
            # the last bit of an exponential may differ, and round a row's entry to the other side
            assert np.abs(own.gradient - other.gradient).max() <= 2
            assert np.abs(np.triu(own.hessian - other.hessian)).max() <= 2 * 4096
            assert np.abs(own.hessian).max() > 0 or position[0] == 2**30


@pytest.mark.verify
def test_an_empty_table_has_sums_of_nothing(spark):
    frame = spark.createDataFrame([], "`a b` double, `level.x` string, yes boolean, label int")
    found = LabelledRows.from_dataframe(frame, design=DESIGN).sums_at(np.zeros(5, dtype=np.int64))
    assert not found.gradient.any()
    assert not found.hessian.any()
