"""The Spark half of tables of aggregates against the numpy half, on the same rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import AggregateSums
from tests.support.aggregate_rows import BY, MEASURES, MOMENTS, NUMBERS, REGIONS, summed
from tests.support.spark import settings as spark_settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

SPREADS = [{**one, "figures": ["sd", "mean"]} for one in MEASURES]
ENTRIES = [["north", "up"], [7, "down"], ["07", "up"], ["nowhere", 3]]
LOOKED_UP = {"column": "region", "lookup": {"name": "side", "key": "region", "value": "side", "entries": ENTRIES}}
UNITS = {"of": "region", "figures": ["units"]}
ERRORS = [
    {"outcome": "spend", "prediction": "stay", "largest_error": 8, "figures": ["mae", "rmse", "pinball_0.9"]},
    {"outcome": "age", "lower": "spend", "upper": "stay"},
]
QUANTILES = [{**MEASURES[0], "figures": ["p50", "p99.9"]}, {**MEASURES[1], "figures": ["mean", "p25"]}]
SCHEMA = "region string, age double, at timestamp_ntz, spend double, stay double"


def nasty_rows():
    random = np.random.default_rng(5)
    every = [list(itertools.islice(itertools.cycle(values), 16)) for values in (REGIONS, NUMBERS, MOMENTS)]
    rows = list(itertools.product(*every))
    picked = random.choice(len(NUMBERS), (len(rows), 2))
    return [(*row, NUMBERS[one], NUMBERS[other]) for row, (one, other) in zip(rows, picked.tolist(), strict=True)][::3]


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    ("by", "measures"),
    [
        (BY, MEASURES),
        (BY[:2], []),
        ([], MEASURES[1:]),
        ([], []),
        (BY[1:2], SPREADS),
        (BY[1:], [MEASURES[0], UNITS]),
        (BY[:1], [{**UNITS, "of": "age"}]),
        (BY[:1], ERRORS),
        (BY, QUANTILES),
        ([], [*QUANTILES[1:], UNITS]),
        ([LOOKED_UP, BY[1]], MEASURES[:1]),
        ([{**LOOKED_UP, "other": False}], []),
    ],
    ids=[
        "all",
        "rows",
        "one",
        "none",
        "squares",
        "units",
        "numbers of units",
        "errors",
        "quantiles",
        "quantiles and units",
        "lookup",
        "lookup without other",
    ],
)
def test_nasty_rows_are_summed_like_arrays(spark, by, measures, ansi):
    rows = nasty_rows()
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        table = spark.createDataFrame(rows, SCHEMA)
        assert AggregateSums.from_dataframe(table, by=by, measures=measures) == summed(rows, by, measures)


def test_many_bins_and_dates_are_searched_like_arrays(spark):
    random = np.random.default_rng(2)
    edges = np.unique(random.normal(size=900)).tolist()
    rows = [(float(value),) for value in (*random.normal(size=500), *edges)]
    found = AggregateSums.from_dataframe(spark.createDataFrame(rows, "v double"), by=[{"column": "v", "edges": edges}])
    assert found == AggregateSums.from_arrays({"v": [row[0] for row in rows]}, by=[{"column": "v", "edges": edges}])
    by = [{"column": "day", "every": "week", "start": "2025-01-03", "end": "2025-03-01"}]
    days = np.datetime64("2024-12-25") + np.arange(80)
    table = spark.createDataFrame([(day,) for day in days.tolist()], "day date")
    assert AggregateSums.from_dataframe(table, by=by) == AggregateSums.from_arrays({"day": days}, by=by)


def test_a_column_of_another_type_is_refused(spark):
    table = spark.createDataFrame([("a", 1.0)], "region string, age double")
    for by in (
        [{"column": "age", "values": ["a"]}],
        [{"column": "region", "edges": [0, 1]}],
        [{**BY[2], "column": "age"}],
    ):
        with pytest.raises(InvalidRequest, match="must be"):
            AggregateSums.from_dataframe(table, by=by)
