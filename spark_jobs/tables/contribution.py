"""Contribution bounding: a limited number of rows of each privacy unit, selected by a secret order.

Neighbours and stability. Let two tables differ by one privacy unit, all rows of which are added or removed
(``ADD_REMOVE``), or replaced by those of another unit (``REPLACE_ONE``). The selection within a unit depends only on
the unit's own rows and the salt, so that the kept rows of all other units are the same in both tables, and each table
keeps at most ``max_rows`` of the one unit. The kept tables thus differ by at most ``max_rows`` added or removed rows
(under ``REPLACE_ONE``, by at most ``max_rows`` removed and ``max_rows`` added ones), and a mechanism that is
epsilon-private for one row is ``max_rows * epsilon``-private for a unit (group privacy; Dwork and Roth 2014, theorem
2.2). The salt is drawn independently of the table, so that this holds for every value of it; it is secret only so that
people cannot find out which of their rows count.

With a limit on groups, at most ``k`` of a unit's groups are kept, with at most ``r`` rows of each. The proof is the
same with ``k r`` in the place of ``max_rows``, because groups, too, are chosen by the unit's own rows and the salt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql.types import DecimalType, DoubleType

from spark_jobs.contract.column_types import Kind
from spark_jobs.contract.columns import ColumnNeed
from spark_jobs.contract.privacy import GroupBound, PrivacyUnit
from spark_jobs.tables.expressions import field_of, quoted, read

UNIT = "unit"
"""The unit's column, where it is kept beside the keys."""
PLACE = "__dp_place"
"""What orders the rows of a unit, likewise."""
_CHUNK_BITS = 16
_UNIT, _ROW, _COUNT, _CHUNK, _COPY = "__dp_unit", "__dp_row", "__dp_count", "__dp_chunk", "__dp_copy"
_SALT, _RANK = "__dp_salt", "__dp_rank"
_GROUP, _GROUP_RANK, _GROUP_PLACE = "__dp_group", "__dp_group_rank", "__dp_group_place"
_ROW_PLACE, _TURN, _PLACE = "__dp_row_place", "__dp_turn", "__dp_place"
WEIGHT = "__dp_weight"
"""How many rows a row stands for: more than one only for those without a unit."""


class GroupsOfRows(NamedTuple):
    """A limit on the groups in which one unit counts.

    Attributes:
        group: the group of a row, as an expression in the key columns; null for a row that counts in no group.
        bound: the largest number of groups of a unit, and of the unit's rows in one group.
        later: whether a row comes after all rows of its unit and group for which this is false; None for no such order.
    """

    group: Column
    bound: GroupBound
    later: Column | None = None


def bound_contributions(
    frame: DataFrame,
    *,
    unit: PrivacyUnit,
    keys: Sequence[str],
    salt: bytes,
    spare: Column | None = None,
    row_id: str | None = None,
    cause: str | None = None,
    with_unit: bool = False,
    groups: GroupsOfRows | None = None,
    by_sorting: bool = False,
) -> DataFrame:
    """The ``keys`` columns of at most ``unit.max_rows`` rows of each unit, or of all rows if every row is a unit.

    The rows of a unit are ordered by a hash of the salt, the unit, the key columns and, for rows that are equal in all
    of these, a running number; the first ``max_rows`` are kept. Spare rows (``spare``) come after all others of their
    unit. The result does not depend on the partitioning or the order of the table, and all rows of a unit that are not
    spare have the same probability of being kept. Rows with a null unit are dropped, unless ``cause`` is given.

    The table is shuffled once, by unit, and equal rows are then counted. If ``max_rows`` is 1, nothing is sorted unless
    a key is a vector; if it is larger, the distinct pairs of unit and keys are sorted.
    With a ``row_id``, which is hashed too, equal rows are not counted: rows with the same ``row_id`` and keys have the
    same rank. If ``max_rows`` is 1, only one row of each unit and partition is shuffled.

    Args:
        frame: rows with the unit's column and the key columns.
        unit: the privacy unit.
        keys: the columns that are used afterwards.
        salt: secret bytes, the same for all attempts of a release; unused if every row is a unit.
        spare: a condition on the key columns, true for rows that must not displace other rows of their unit.
        row_id: a column that distinguishes the rows of a unit; the guarantee does not depend on whether it does.
        cause: the name of a key that is null for rows that count, and says of any other row why it does not count. Rows
            that do not count come after all others of their unit. Rows with a null unit, all of whose other keys must
            be null, are then kept, and the result has the column ``WEIGHT``: for how many rows of the table a row
            stands.
        with_unit: whether to keep the columns ``UNIT`` and ``PLACE`` too; only for units of several rows.
        groups: a limit on the groups of a unit and on its rows in each, which replaces ``max_rows`` for rows that
            count; rows that do not count get the places that are left. Not to be combined with ``spare``.
        by_sorting: find a unit's only row by sorting instead of by a minimum: the same row, faster on some engines.

    Raises:
        InvalidRequest: the table lacks the unit's column or the ``row_id``, or values of its type cannot be compared.
    """
    names = [quoted(key) for key in keys]
    if unit.column is None:
        return frame.select(*names, *([] if cause is None else [sf.lit(1).cast("bigint").alias(WEIGHT)]))
    owner = _owner(ColumnNeed(name=unit.column, field="unit.column"), frame)
    used = [_one_zero(sf.col(quoted(key)), frame.schema[key].dataType == DoubleType()).alias(key) for key in keys]
    row_ids = [] if row_id is None else [_owner(ColumnNeed(name=row_id, field="row_id"), frame).alias(_ROW)]
    owned = frame.select(owner.alias(_UNIT), *row_ids, *used)
    if cause is None:
        owned = owned.where(sf.col(_UNIT).isNotNull())
    # the salt is a row of a table, because a constant would be visible in the plan
    secret = sf.broadcast(_salt_table(frame.sparkSession, salt))
    last, weighted = _class(spare, cause), cause is not None
    units = [sf.col(_UNIT).alias(UNIT), sf.col(_RANK).alias(PLACE)]
    others = [*([sf.col(WEIGHT)] if weighted else []), *(units if with_unit else [])]
    single = unit.max_rows == 1 and groups is None
    if row_id is not None:
        ranked = owned.crossJoin(secret).withColumn(_RANK, _priority(_ROW, *names)).drop(_ROW)
        ranked = ranked.withColumn(WEIGHT, sf.lit(1).cast("bigint"))
        ranked = ranked.withColumn(_RANK, _rank_in_class(last)) if single else ranked
    else:
        counted = owned.repartition(_UNIT).groupBy(_UNIT, *names).agg(sf.count(sf.lit(1)).alias(_COUNT))
        copies = (counted if single else _numbered(counted, names)).crossJoin(secret)
        ranked = _waiting(copies, names, last) if single else copies.withColumn(_RANK, _priority(*names, _COPY))
    if single and not by_sorting:
        return _first_rows(ranked, keys, weighted)
    return _first(ranked, unit, names, last, others, groups)


def _class(spare: Column | None, cause: str | None) -> Column:
    """0 for rows that count, 1 for spare ones and 2 for rows that do not count: a unit's places go to them in turn."""
    last = sf.lit(0) if spare is None else sf.when(sf.coalesce(spare, sf.lit(False)), 1).otherwise(0)
    return last if cause is None else sf.when(sf.col(quoted(cause)).isNotNull(), 2).otherwise(last)


def _rank_in_class(last: Column) -> Column:
    # 62 bits of a hash decide, and two of them are equal so rarely that ties are not broken
    return sf.shiftrightunsigned(_RANK, 2) + (last - 1).cast("bigint") * sf.lit(1 << 62)


def _first(
    ranked: DataFrame,
    unit: PrivacyUnit,
    names: Sequence[str],
    last: Column,
    others: Sequence[Column],
    groups: GroupsOfRows | None,
) -> DataFrame:
    """At most ``max_rows`` rows of each unit, by rank, and all without a unit; with ``others`` beside the keys."""
    if groups is not None:
        return _of_few_groups(ranked, groups, names, last, others)
    # rows of the same rank and keys are alike, so that it does not matter which of them is kept
    order = Window.partitionBy(_UNIT).orderBy(last, _RANK, *names)
    place = sf.row_number().over(order)
    kept = ranked.withColumn(_RANK, place).where((sf.col(_RANK) <= unit.max_rows) | sf.col(_UNIT).isNull())
    return kept.select(*names, *others)


def _of_few_groups(
    ranked: DataFrame, groups: GroupsOfRows, names: Sequence[str], last: Column, others: Sequence[Column]
) -> DataFrame:
    """The first rows of each unit's first groups, by rank, and then rows that do not count, up to the unit's bound."""
    counts = last == 0
    placed = ranked.withColumn(_GROUP, sf.when(counts, groups.group))
    group_rank = sf.when(sf.col(_GROUP).isNotNull(), sf.xxhash64(_SALT, _UNIT, _GROUP))
    placed = placed.withColumn(_GROUP_RANK, group_rank)
    group_place = sf.dense_rank().over(Window.partitionBy(_UNIT).orderBy(sf.isnull(_GROUP), _GROUP_RANK, _GROUP))
    turns = [] if groups.later is None else [groups.later]
    row_place = sf.row_number().over(Window.partitionBy(_UNIT, _GROUP).orderBy(*turns, _RANK, *names))
    placed = placed.withColumn(_GROUP_PLACE, group_place).withColumn(_ROW_PLACE, row_place)
    fits = (sf.col(_GROUP_PLACE) <= groups.bound.groups) & (sf.col(_ROW_PLACE) <= groups.bound.rows)
    turn = sf.when(sf.col(_GROUP).isNotNull(), sf.when(fits, 0).otherwise(2)).otherwise(sf.when(counts, 2).otherwise(1))
    order = Window.partitionBy(_UNIT).orderBy(_TURN, _RANK, *names)
    placed = placed.withColumn(_TURN, turn).withColumn(_PLACE, sf.row_number().over(order))
    kept = placed.where(((sf.col(_PLACE) <= groups.bound.rows_of_unit) & (sf.col(_TURN) < 2)) | sf.col(_UNIT).isNull())
    return kept.select(*names, *others)


def _owner(need: ColumnNeed, frame: DataFrame) -> Column:
    """The unit's column, without loss: rounded to doubles, long decimals would be one unit, which the proof forbids."""
    value, of = read(need, frame.schema), field_of(need, frame.schema)
    if isinstance(of.dataType, DecimalType):
        return sf.col(quoted(of.name))
    return _one_zero(value.column, value.kind is Kind.NUMBER)


def _waiting(counted: DataFrame, names: Sequence[str], last: Column) -> DataFrame:
    """Distinct rows of units with what orders them, from how often each occurs.

    The least of ``count`` exponential numbers is one such number divided by ``count``, so that rows which are equal
    need not be numbered. Numbers of 53 bits of a hash decide, and two of them are equal so rarely that ties are not
    broken by chance.
    """
    uniform = (sf.shiftrightunsigned(_priority(*names), 11).cast("double") + 0.5) / float(2**53)
    waiting = -sf.ln(uniform) / sf.col(_COUNT)  # below 38
    return counted.withColumn(_RANK, waiting + 100.0 * last).withColumn(WEIGHT, _own_weight(_COUNT))


def _first_rows(ranked: DataFrame, keys: Sequence[str], weighted: bool) -> DataFrame:
    """The first row of each unit: one minimum, which Spark takes before it shuffles."""
    names = [quoted(key) for key in keys]
    firsts = [sf.min_by(name, _RANK).alias(key) for key, name in zip(keys, names, strict=True)]
    if not weighted:
        return ranked.groupBy(_UNIT).agg(*firsts).select(*names)
    rows = ranked.groupBy(_UNIT).agg(*firsts, sf.sum(WEIGHT).alias(WEIGHT))
    return rows.select(*names, _own_weight(WEIGHT).alias(WEIGHT))


def _own_weight(count: str) -> Column:
    """The rows that a row stands for: as many as there are, if it has no unit, and otherwise itself."""
    return sf.when(sf.col(_UNIT).isNull(), sf.col(count)).otherwise(sf.lit(1).cast("bigint"))


def _numbered(groups: DataFrame, names: Sequence[str]) -> DataFrame:
    """One row for each of the ``count`` equal rows, numbered from 1; in chunks, so that no list is long."""
    one = sf.lit(1).cast("bigint")
    # rows without a unit are counted, and none of them is chosen
    groups = groups.withColumn(WEIGHT, _own_weight(_COUNT))
    groups = groups.withColumn(_COUNT, sf.when(sf.col(_UNIT).isNull(), one).otherwise(sf.col(_COUNT)))
    chunk = sf.explode(sf.sequence(sf.lit(0).cast("bigint"), sf.shiftright(sf.col(_COUNT) - 1, _CHUNK_BITS)))
    chunks = groups.select(_UNIT, *names, WEIGHT, _COUNT, chunk.alias(_CHUNK))
    before = sf.shiftleft(_CHUNK, _CHUNK_BITS)
    copies = sf.sequence(before + 1, sf.least(sf.col(_COUNT), before + (1 << _CHUNK_BITS)))
    return chunks.select(_UNIT, *names, WEIGHT, sf.explode(copies).alias(_COPY))


def _one_zero(value: Column, double: bool) -> Column:
    # 0.0 and -0.0 are equal in a window but differ in a hash
    return value + 0.0 if double else value


def _salt_table(spark: SparkSession, salt: bytes) -> DataFrame:
    digest = hashlib.sha256(b"dp-diagnostics contributions\0" + salt).hexdigest()
    return spark.createDataFrame([(digest,)], f"{_SALT} string")


def _priority(*names: str) -> Column:
    """A secret, uniform order of a unit's rows; the guarantee does not depend on it."""
    # a hash passes over nulls: without saying where they are, (1, null) and (null, 1) would be equal
    values = (part for name in names for part in (sf.col(name), sf.isnull(name)))
    return sf.xxhash64(_SALT, _UNIT, *values)
