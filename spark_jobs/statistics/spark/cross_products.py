"""``CrossProducts`` in Spark: a row's vector of whole numbers, and the pass that sums the products of its entries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.options.fits import Bounded, CrossProductCells
from spark_jobs.statistics.lattice import LATTICE, Design
from spark_jobs.statistics.spark.cells import sums_by_key
from spark_jobs.statistics.spark.columns import level_column, numeric_column

_ROW, _PLACE, _VALUE = "row", "place", "value"


def number(value: Column, bounds: Bounded) -> Column:
    """A feature or an outcome in lattice steps, an int; null where it is null or NaN.

    Row-wise and total, with the same operations as in numpy. The argument is used several times, so pass a column of a
    ``select`` rather than a long expression.
    """
    value = value.try_cast("double")
    # in Spark NaN is above all numbers, and null is not NaN
    within = (
        sf.when(value < bounds.lower, bounds.lower)
        .when(value <= bounds.upper, value)
        .when((value > bounds.upper) & ~sf.isnan(value), bounds.upper)
    )
    steps = sf.floor((within - bounds.middle) / bounds.half * float(LATTICE) + 0.5)
    # the least and the greatest of null and a number are the number
    return sf.when(within.isNotNull(), sf.least(sf.greatest(steps, sf.lit(-LATTICE)), sf.lit(LATTICE)).cast("int"))


def levels(place: Column, count: int) -> list[Column]:
    """The entries of a categorical column, from the index of the row's level.

    With two levels: one entry, ``-LATTICE`` or ``LATTICE``. With more: one entry for each level but the first. For any
    index at most one entry is not 0; the sensitivity of the sums depends on this.
    """
    absent = -LATTICE if count == 2 else 0
    return [sf.when(place == other, LATTICE).otherwise(absent) for other in range(1, count)]


def sign(label: Column) -> Column:
    """The entry for a label of 0 or 1; null for any other label."""
    label = label.try_cast("double")
    return sf.when(label == 1, LATTICE).when(label == 0, -LATTICE)


def row_of(terms: Sequence[Column]) -> Column:
    """The vector of a row, from its numbers, levels and outcome in the design's order; null if one of them is null.

    An array of ints with one entry for each term of the design.
    """
    return sf.when(_all_known(terms), sf.array(sf.lit(LATTICE), *terms))


def _all_known(terms: Sequence[Column]) -> Column:
    """Whether no term is null; a tree of logarithmic depth, as Spark Connect carries no deep one."""
    if len(terms) == 1:
        return terms[0].isNotNull()
    middle = len(terms) // 2
    return _all_known(terms[:middle]) & _all_known(terms[middle:])


def sums_of_rows(df: DataFrame, row: str, design: Design) -> Int64Array:
    """The matrix of sums over the rows of ``df``, whose column ``row`` is the result of ``row_of`` for this design.

    Every row is exploded into one line for each of its terms, by which the whole row is multiplied. For each term, as
    many sums as there are terms are aggregated in every partition before the shuffle.
    """
    lines = df.where(sf.col(row).isNotNull()).select(sf.posexplode(row).alias(_PLACE, _VALUE), row)
    products = products_of_line(sf.col(_VALUE), sf.col(row), design.terms)
    return matrix_of_sums(*sums_by_key(lines, _PLACE, distinct=design.terms, aggregates=products))


def products_of_line(value: Column, row: Column, terms: int) -> list[Column]:
    """The aggregates that sum the products of one entry of a row with all ``terms`` entries; null is no row."""
    return [sf.sum(value.cast("bigint") * sf.get(row, sf.lit(place))) for place in range(terms)]


def matrix_of_sums(places: Int64Array, sums: Sequence[Int64Array]) -> Int64Array:
    """The matrix whose rows at ``places`` are the sums of ``products_of_line``; 0 elsewhere."""
    products = np.zeros((len(sums), len(sums)), dtype=np.int64)
    for column, values in enumerate(sums):
        products[places, column] = values
    return products


def table_rows(df: DataFrame, *, design: Design, label: str = "") -> tuple[DataFrame, str]:
    """The rows of a table as vectors: a number for each feature, level and outcome of the design.

    Returns:
        A table with one column of vectors, and that column's name.
    """
    terms = [number(_literally(df, feature.name), feature) for feature in design.features]
    for column in design.categorical:
        values = level_column(df, _quoted(column.column), column.column)
        boolean = isinstance(df.select(values).schema[0].dataType, BooleanType)
        texts = values.cast("string") if not boolean else sf.when(values, "true").otherwise("false")
        place = sf.when(texts == column.levels[0], 0)
        for other, text in enumerate(column.coded_levels, start=1):
            place = place.when(texts == text, other)
        terms += levels(place.otherwise(0), len(column.levels))
    if isinstance(design, CrossProductCells):
        terms.append(number(_literally(df, design.outcome.name), design.outcome))
    else:
        terms.append(sign(_literally(df, label)))
    return df.select(row_of(terms).alias(_ROW)), _ROW


def _literally(df: DataFrame, name: str) -> Column:
    return numeric_column(df, sf.col(_quoted(name)), name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
