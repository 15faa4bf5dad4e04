"""What a unit's total is: a function of its own rows alone, whatever the order in which an engine adds them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from pyspark.sql import functions as sf

from spark_jobs.statistics.aggregate_sums import design_of
from spark_jobs.statistics.spark import aggregates
from spark_jobs.statistics.spark.aggregates import summed_steps, unit_totals, whole_steps
from tests.support.spark import settings as spark_settings

pytestmark = pytest.mark.spark

BY = [{"column": "region", "values": ["north"], "other": False}]
NAN, INF = float("nan"), float("inf")
CRAFTED = {
    "cancelling": [1e308, -1e308, 1.0],
    "endless": [INF, -INF, 2.0],
    "beyond all doubles": [1e308, 1e308, -1e308, -1e308],
    "halves lost one by one": [2.0**53, 1.0, 1.0, -(2.0**53)],
    "tiny": [5e-324, 1e-308, -1e-308, 40.0],
    "cents": [0.1, 0.2, 0.3, -0.6],
    "nothing": [NAN, None],
    "some": [None, 3.5, NAN],
}
BOUNDS = [(0.0, 100.0), (-3.0, 1e9), (0.0, 1e-12), (1e6, 1e6 + 1), (-5e99, 1e100), (0.0, 1e-100), (-0.125, 0.0)]


def measured(lower, upper):
    design = design_of(BY, [{"of": "spend", "bounds": [lower, upper]}])
    return design, design.measures[0]


def totals(spark, order, *, parts, others=0):
    """The total of each unit, of rows that come in an order and in several partitions, beside those of more units."""
    design, _ = measured(-100.0, 1000.0)
    rows = [(unit, values[place]) for place in order for unit, values in CRAFTED.items() if place < len(values)]
    more = [(f"other {number}", 7.5) for number in range(others)]
    table = spark.createDataFrame(more + rows, "unit string, spend double").withColumn(
        "region", sf.lit(0).cast("bigint")
    )
    table = table.coalesce(1) if parts == 1 else table.repartition(parts, sf.rand(parts))
    summed = unit_totals(table, ["region", "spend"], "unit", sf.lit(True), design).collect()
    return {row["unit"]: row["spend"] for row in summed if row["unit"] in CRAFTED}


def every_total(spark):
    """The bits of each unit's total in several orders and partitions."""
    orders = list(itertools.permutations(range(4)))[::5]
    summed = [totals(spark, order, parts=parts, others=97 * parts) for order in orders for parts in (1, 3)]
    return {unit: {repr(one[unit]) for one in summed} for unit in CRAFTED}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_a_total_does_not_depend_on_order_partitions_or_other_units(spark, ansi):
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        bits = every_total(spark)
    assert {unit: len(values) for unit, values in bits.items()} == dict.fromkeys(CRAFTED, 1)


def test_sums_of_doubles_are_convicted(spark, monkeypatch):
    """What this was before: other units decided what was left of the 1."""
    monkeypatch.setattr(aggregates, "_total", lambda value, measure: sf.sum(sf.nullif(value, sf.lit(NAN))))
    bits = every_total(spark)
    for unit in ("cancelling", "beyond all doubles", "halves lost one by one"):
        assert len(bits[unit]) > 1


def test_a_value_is_the_nearest_whole_number_of_steps_up_to_the_largest(spark):
    random = np.random.default_rng(3)
    values = [0.0, -0.0, INF, -INF, 1e308, -1e308, 5e-324, 0.1]
    values += np.ldexp(random.normal(size=400), random.integers(-1074, 1020, 400)).tolist()
    for bounds in BOUNDS:
        _, measure = measured(*bounds)
        step, largest = summed_steps(measure)
        assert largest / step <= 2.0**62
        assert largest >= 2048 * max(map(abs, bounds))
        assert step <= max((bounds[1] - bounds[0]) / measure.steps, math.ulp(max(map(abs, bounds))))
        values += [largest, math.nextafter(largest, 0), step / 2, 1.5 * step, step]
        table = spark.createDataFrame([(float(value),) for value in values], "value double")
        steps = [row[0] for row in table.select(whole_steps(sf.col("value"), measure)).collect()]
        cut = [Fraction(max(min(value, largest), -largest)) for value in values]
        assert steps == [round(value / Fraction(step)) for value in cut]


def test_totals_of_many_rows_at_the_largest_value_do_not_overflow(spark):
    design, measure = measured(0.0, 100.0)
    row = {"unit": sf.lit("u"), "region": sf.lit(0).cast("bigint"), "spend": sf.lit(INF)}
    many = spark.range(300_000).select(*(value.alias(name) for name, value in row.items()))
    with spark_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        [summed] = unit_totals(many, ["region", "spend"], "unit", sf.lit(True), design).collect()
    assert summed["spend"] == 300_000 * summed_steps(measure)[1]
