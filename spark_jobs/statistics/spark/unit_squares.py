"""``unit_squares`` in Spark: the rows' weights are looked up by cell and summed by unit, in one shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import UNIT_STEPS
from spark_jobs.statistics.unit_squares import OfCells

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def sum_of_squares(
    rows: DataFrame, unit: str, cells: Sequence[Column], weights: OfCells, *, max_rows: int
) -> Int64Array:
    """``statistics.unit_squares`` of the rows of a DataFrame; shape (figures,).

    Args:
        rows: at most ``max_rows`` rows of each unit.
        unit: the column of the unit.
        cells: the columns of a row's cells, whose weights add up; null for no cell.
        weights: the whole weights of the cells, with values of shape (figures, runs).
        max_rows: the largest number of rows of a unit.
    """
    names = [f"weight_{figure}" for figure in range(len(weights.values))]
    of_row = sf.explode(sf.array(*(cell.cast("bigint") for cell in cells)))
    looked_up = rows.select(unit, of_row.alias("cell")).where(sf.col("cell").isNotNull())
    weighted = looked_up.join(sf.broadcast(_weights(rows.sparkSession, names, weights)), "cell")
    of_units = weighted.groupBy(unit).agg(*(sf.sum(name).alias(name) for name in names))
    sums = of_units.agg(*(sf.sum(_square(sf.col(name), max_rows)).alias(name) for name in names)).first()
    return np.array([0 if sums is None else sums[name] or 0 for name in names], dtype=np.int64)


def _square(total: Column, max_rows: int) -> Column:
    share = total.cast("double") / float(max_rows * UNIT_STEPS)
    return sf.least(sf.ceil(share * share * float(UNIT_STEPS)), sf.lit(UNIT_STEPS)).cast("bigint")


def _weights(spark: SparkSession, names: list[str], weights: OfCells) -> DataFrame:
    """The weights of every cell."""
    values = weights.values
    starts = weights.starts[np.append(True, (np.diff(values, axis=1) != 0).any(axis=0))]
    ends = np.append(starts[1:], weights.size) - 1
    columns = {"first": starts, "last": ends, **dict(zip(names, weights.at(starts), strict=True))}
    runs = spark.createDataFrame(pa.table({name: pa.array(column) for name, column in columns.items()}))
    return runs.select(sf.explode(sf.sequence("first", "last")).alias("cell"), *names)
