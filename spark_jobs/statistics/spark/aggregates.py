"""``AggregateSums`` in Spark: the cell of a row, its places on lattices, and the sums of each cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import and_

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.calendar import periods
from spark_jobs.contract.options.aggregates import AggregateCells
from spark_jobs.contract.options.dimensions import Dimension
from spark_jobs.contract.options.measures import EXACT_SQUARES, SQUARE_STEPS, Measured, Term
from spark_jobs.statistics.spark.cells import sums_by_key
from spark_jobs.statistics.spark.columns import (
    is_whole,
    key_column,
    listed_place,
    numeric_column,
    time_column,
)
from spark_jobs.statistics.spark.points import nearest_place
from spark_jobs.statistics.spark.states import microseconds

_ROW, _CELL, _FIRST, _PLACE, _ROW_NUMBER = "row", "cell", "first", "place", "row_number"
_UNIT = "unit"
NO_VALUE = -1
"""The place of a row without a value."""


def group_of(value: Column, dimension: Dimension) -> Column:
    """The index of a row's group in a dimension, a bigint; null for a row in no group. Row-wise and total.

    Args:
        value: the place in the list for listed values (``listed_place``), numbers for bins, and microseconds since 1970
            in UTC for periods. It is used several times, so pass a column of a ``select``.
        dimension: the dimension.
    """
    if dimension.places is not None:
        group = value
    elif dimension.edges is not None:
        value = value.try_cast("double")
        within = (value >= dimension.edges[0]) & (value <= dimension.edges[-1]) & ~sf.isnan(value)
        group = sf.when(within, _between(value, dimension.edges))
    else:
        edges = periods(str(dimension.start), str(dimension.end), dimension.every or "day").edges
        group = sf.when((value >= edges[0]) & (value < edges[-1]), _between(value, edges))
    group = group.cast("bigint")
    return sf.coalesce(group, sf.lit(len(dimension.labels) - 1).cast("bigint")) if dimension.other else group


def _between(value: Column, edges: Sequence[float]) -> Column:
    """The number of the bin of a value between the first edge and the last, by halving."""

    def searched(first: int, last: int) -> Column:
        if last - first == 1:
            return sf.lit(first)
        middle = (first + last) // 2
        return sf.when(value < sf.lit(edges[middle]), searched(first, middle)).otherwise(searched(middle, last))

    return searched(0, len(edges) - 1)


def row_of(values: Sequence[Column], design: AggregateCells) -> list[Column]:
    """A row's cell, and its place on each measure's lattice, all as bigints.

    The cell is null if the row is in none; a place is ``NO_VALUE`` if the row has no value of that measure. Each row is
    computed by itself, and no value raises an error.

    Args:
        values: first one column for each dimension (``group_of``), then one of numbers or booleans for each measure.
        design: dimensions and measures.
    """
    places = [
        sf.coalesce(nearest_place(value, *measure.bounds, measure.steps), sf.lit(NO_VALUE)).cast("bigint")
        for measure, value in zip(design.measures, values[len(design.by) :], strict=True)
    ]
    return [_cell(values, design), *places]


def _cell(values: Sequence[Column], design: AggregateCells) -> Column:
    """The number of a row's cell; null for a row in none."""
    cell = sf.lit(0).cast("bigint")
    for dimension, value in zip(design.by, values, strict=False):
        cell = cell * len(dimension.labels) + group_of(value, dimension)
    return cell


def unit_totals(rows: DataFrame, values: Sequence[str], unit: str, counts: Column, design: AggregateCells) -> DataFrame:
    """One row for each unit and cell, with totals of the unit's values there; rows that do not count stay unchanged.

    The result for a unit depends on its own rows alone, so that tables which differ by one unit give the same rows for
    all others. Therefore totals are sums of whole numbers (``whole_steps``). A sum of doubles depends on the order of
    its terms: 1e308, -1e308 and 1 add up to 0 or to 1. That order depends on how an engine partitions all rows, so that
    other units could change a unit's total. A missing value adds nothing; a total is missing if all values are missing.

    Args:
        rows: a table with the columns named below; of other columns, the values of one of the added rows are kept.
        values: the names of the columns of each dimension and then of each measure, as for ``row_of``.
        unit: the name of the column of units.
        counts: whether a row counts, provided that it lies in a cell.
        design: dimensions and measures.
    """
    summed = values[len(design.by) :]
    apart = rows.withColumn(_CELL, sf.when(counts, _cell([sf.col(name) for name in values], design)))
    apart = apart.withColumn(_ROW_NUMBER, sf.when(sf.isnull(_CELL), sf.monotonically_increasing_id()))
    totals = [_total(sf.col(name), one).alias(name) for name, one in zip(summed, design.measures, strict=True)]
    others = [sf.first(name).alias(name) for name in rows.columns if name not in (unit, *summed)]
    return apart.groupBy(unit, _CELL, _ROW_NUMBER).agg(*others, *totals).select(*rows.columns)


def _total(value: Column, measure: Measured) -> Column:
    """The sum of the rows' whole steps, of any number of rows that a table can have, as a number of the measure."""
    step, _ = summed_steps(measure)
    return sf.sum(whole_steps(value, measure).cast("decimal(20,0)")).cast("double") * step


def summed_steps(measure: Measured) -> tuple[float, float]:
    """The step to which the values in a unit's total are rounded, and the largest size of a value: powers of two.

    The step is as fine as doubles are at the larger bound, and finer than a lattice step. The largest size is 2,048
    times the first power of two above the larger bound; a value beyond this size is clipped to it.
    """
    _, exponent = math.frexp(max(map(abs, measure.bounds)))
    return math.ldexp(1.0, exponent - 51), math.ldexp(1.0, exponent + 11)


def whole_steps(value: Column, measure: Measured) -> Column:
    """A value as the nearest whole number of ``summed_steps``, a bigint of size 2^62 at most; null for no value."""
    step, largest = map(sf.lit, summed_steps(measure))
    number = value.try_cast("double")
    # a quotient by a power of two is exact; of nulls among its arguments ``least`` takes no notice
    steps = sf.rint(sf.least(sf.greatest(number, -largest), largest) / step).cast("bigint")
    return sf.when(number.isNotNull() & ~sf.isnan(number), steps)


def cell_of(row: Column) -> Column:
    """The cell of a row; null for a row in no cell."""
    return sf.get(row, sf.lit(0))


def with_units(rows: DataFrame, key: str, unit: str, design: AggregateCells) -> DataFrame:
    """The rows, with the measure that counts units: 1 for one complete row of each unit in each cell, 0 for other rows.

    Which row has the 1 depends only on rows of the same unit, and nothing else in a row depends on other rows: see
    ``mechanisms.cell_sums``. Without such a measure the rows are unchanged. If ``rows`` are partitioned by unit,
    nothing is shuffled.

    Args:
        rows: a table with the rows' arrays (``row_of``) and units.
        key: the column of arrays.
        unit: the column of units.
        design: dimensions and measures.
    """
    place = design.of_units
    if place is None:
        return rows
    cells = rows.withColumn(_CELL, cell_of(sf.col(key)))
    _, *places = columns_of(sf.col(key), design)
    complete = _is_complete(places)
    order = Window.partitionBy(unit, _CELL).orderBy(sf.when(complete, 0).otherwise(1))
    first = sf.when(complete & (sf.row_number().over(order) == 1), 1).otherwise(0).cast("bigint")
    marked = cells.withColumn(_FIRST, first)
    places[place] = sf.col(_FIRST)
    return marked.withColumn(key, vector_of([sf.col(_CELL), *places])).drop(_CELL, _FIRST)


def vector_of(row: Sequence[Column]) -> Column:
    """A row (``row_of``) as one array, for what moves rows; null if it lies in no cell."""
    return sf.when(row[0].isNotNull(), sf.array(*row))


def columns_of(vector: Column, design: AggregateCells) -> list[Column]:
    """The row of an array; all null for none."""
    return [cell_of(vector), *(sf.get(vector, sf.lit(1 + number)) for number in range(len(design.measures)))]


def _is_complete(places: Sequence[Column]) -> Column:
    return reduce(and_, (place != NO_VALUE for place in places), sf.lit(True))


def keys_of_row(row: Sequence[Column], design: AggregateCells) -> list[Column]:
    """The keys at which a row counts: of its cell, and then, if it is complete, of each line's value.

    Incomplete rows are counted at keys of their own, so that sums over the rows of a key need no condition. The first
    key of values is ``design.cell_keys``; the keys are those of ``aggregate_sums.value_keys_of``.
    """
    cell, *values = row
    complete, start = _is_complete(values), design.cell_keys
    places = [sf.when(complete, cell).otherwise(cell + design.cells) if values else cell]
    for line in design.value_lines:
        value = sf.least(
            sf.floor(values[line.measure] / line.places).cast("bigint"), sf.lit(line.cells - 1).cast("bigint")
        )
        places.append(sf.when(complete, start + cell * line.cells + value))
        start += design.cells * line.cells
    return places


def terms_of_row(row: Sequence[Column], design: AggregateCells) -> list[Column]:
    """The numbers of a row that are summed; those of an incomplete row have no meaning."""
    return [term_place(row[1 + term.measure], term, design.measures[term.measure]) for term in design.terms]


def term_place(place: Column, term: Term, measure: Measured) -> Column:
    """The place on the lattice of one of a measure's terms, a bigint; equal to ``aggregate_sums.term_places``."""
    if term.power == "value":
        return place
    centred = 2 * place - sf.lit(measure.steps).cast("bigint")
    if term.power == "size":
        return sf.abs(centred)
    if measure.steps <= EXACT_SQUARES:
        return centred * centred
    ratio = centred.cast("double") / sf.lit(float(measure.steps))
    return sf.rint(ratio * ratio * sf.lit(float(SQUARE_STEPS))).cast("bigint")


def by_key(
    keys: Int64Array, counts: Int64Array, sums: Sequence[Int64Array], design: AggregateCells
) -> dict[str, Int64Array]:
    """The arrays of ``AggregateSums``, by name; 0 for keys that do not occur.

    Args:
        keys: the keys of ``keys_of_row`` that occur.
        counts: the number of rows at each.
        sums: for each term, the sum of ``terms_of_row`` at each; only those of complete rows' cells are read.
        design: dimensions and measures.
    """
    complete, of_cells = keys < design.cells, keys < design.cell_keys
    rows = np.zeros((2, design.cells), dtype=np.int64)
    rows.flat[keys[of_cells]] = counts[of_cells]
    totals = np.zeros((len(design.terms), design.cells), dtype=np.int64)
    for total, values in zip(totals, sums, strict=True):
        total[keys[complete]] = values[complete]
    arrays = {"rows": rows[0], "incomplete": rows[1], "sums": totals}
    if design.value_lines:
        order = np.argsort(keys[~of_cells])
        arrays["value_keys"] = keys[~of_cells][order] - design.cell_keys
        arrays["value_counts"] = counts[~of_cells][order]
    return arrays


def sums_of_table(df: DataFrame, design: AggregateCells) -> dict[str, Int64Array]:
    """The arrays of ``AggregateSums``, by name, over the rows of ``df``; in one pass."""
    values = [dimension_column(df, dimension) for dimension in design.by]
    values += [sf.lit(0.0) if measure.counts_units else _value(df, measure) for measure in design.measures]
    named = [f"value_{number}" for number in range(len(values))]
    units = [quoted_name(one.of).alias(_UNIT) for one in design.measures if one.counts_units]
    rows = df.select(*(value.alias(name) for value, name in zip(values, named, strict=True)), *units)
    row, names = row_of([sf.col(name) for name in named], design), _names(design)
    if units:
        rows = rows.select(vector_of(row).alias(_ROW), _UNIT)
        known = sf.col(_UNIT).isNotNull()
        if rows.schema[_UNIT].dataType.simpleString() in ("float", "double"):
            known &= ~sf.isnan(_UNIT)
        rows = with_units(rows.where(known), _ROW, _UNIT, design)
        row = columns_of(sf.col(_ROW), design)
    rows = rows.select(*(value.alias(name) for value, name in zip(row, names, strict=True)))
    row = [sf.col(name) for name in names]
    keys = keys_of_row(row, design)
    lines = rows.select((sf.explode(sf.array(*keys)) if len(keys) > 1 else keys[0]).alias(_PLACE), *names)
    aggregates = [sf.count(sf.lit(1)), *map(sf.sum, terms_of_row(row, design))]
    places, (counts, *sums) = sums_by_key(
        lines, _PLACE, distinct=design.cell_keys + design.value_keys, aggregates=aggregates
    )
    return by_key(places, counts, sums, design)


def _names(design: AggregateCells) -> list[str]:
    return [_CELL, *(f"{_PLACE}_{number}" for number in range(len(design.measures)))]


def _value(df: DataFrame, measure: Measured) -> Column:
    """The values of a measure, as ``aggregate_sums`` has them of arrays."""
    if measure.of in df.columns or measure.outcome is None:
        return numeric_column(df, quoted_name(measure.of), measure.of)
    outcome, *others = (
        sf.nullif(numeric_column(df, quoted_name(name), name).cast("double"), sf.lit(float("nan")))
        for name in (measure.outcome, measure.prediction, measure.lower, measure.upper)
        if name is not None
    )
    return outcome - others[0] if measure.prediction is not None else outcome.between(*others).cast("double")


def dimension_column(df: DataFrame, dimension: Dimension) -> Column:
    """The values of a dimension, as ``group_of`` takes them."""
    name = quoted_name(dimension.column)
    if dimension.places is not None:
        key = key_column(df, name, dimension.column)
        return listed_place(key, dimension.places, whole=is_whole(df.select(key).schema[0].dataType))
    if dimension.edges is not None:
        return numeric_column(df, name, dimension.column)
    time = time_column(df, name, dimension.column)
    return microseconds(time, df.select(time).schema[0].dataType)


def quoted_name(name: str) -> Column:
    """The column of exactly this name."""
    return sf.col("`" + name.replace("`", "``") + "`")
