"""``LabelledRows`` in Spark: one pass over the rows, which sums gradient and Hessian at public coefficients."""

from __future__ import annotations

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.fits import COEFFICIENT_STEPS, ROUNDING
from spark_jobs.statistics.lattice import LATTICE
from spark_jobs.statistics.spark.cells import sums_by_key
from spark_jobs.statistics.spark.cross_products import matrix_of_sums

_PREDICTOR, _ERROR, _WEIGHT, _PLACE, _VALUE = "predictor", "error", "weight", "place", "value"


def newton_sums(df: DataFrame, row: str, position: Int64Array) -> dict[str, Int64Array]:
    """The fields of ``NewtonSums``, by name, at ``position`` over the rows of ``df``; equal to those from arrays.

    The column ``row`` is the result of ``row_of`` for a design with a label. Every row is exploded into one line for
    each of its terms, by which the whole row is multiplied; partitions add up before the shuffle.
    """
    size = len(position)
    rows = df.where(sf.col(row).isNotNull())
    # whole numbers below 2^53; the last term is the label
    predictor = sf.lit(0).cast("bigint")
    for place, coefficient in enumerate(position.tolist()):
        predictor = predictor + sf.get(row, sf.lit(place)).cast("bigint") * sf.lit(coefficient).cast("bigint")
    rows = rows.select(row, (predictor.cast("double") / float(LATTICE * COEFFICIENT_STEPS)).alias(_PREDICTOR))
    up, down = (1.0 / (1.0 + sf.exp(sign * sf.col(_PREDICTOR))) for sign in (-1.0, 1.0))
    error = sf.when(sf.get(row, sf.lit(size)) > 0, down).otherwise(-up)
    rows = rows.select(row, error.alias(_ERROR), (up * down).alias(_WEIGHT))
    lines = rows.select(sf.posexplode(sf.slice(row, 1, size)).alias(_PLACE, _VALUE), row, _ERROR, _WEIGHT)
    weighted = _rounded(sf.col(_WEIGHT) * sf.col(_VALUE))
    sums = [sf.sum(_rounded(sf.col(_ERROR) * sf.col(_VALUE)))]
    sums += [sf.sum(weighted * sf.get(row, sf.lit(place))) for place in range(size)]
    places, (of_error, *of_weight) = sums_by_key(lines, _PLACE, distinct=size, aggregates=sums)
    gradient = np.zeros(size, dtype=np.int64)
    gradient[places] = of_error
    return {"gradient": gradient, "hessian": matrix_of_sums(places, of_weight)}


def _rounded(value: Column) -> Column:
    return sf.floor(value * float(ROUNDING) + 0.5).cast("bigint")
