"""``StateCounts`` in Spark: the step and state of an event, the bound on a person's events, and the counting query."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, TimestampNTZType

from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import key_column, listed_place, time_column, unit_column
from spark_jobs.statistics.state_grid import EventBound, StateGrid

_TIME, _STATE, _UNIT, _STEP, _KEY = "time", "state", "unit", "step", "key"
_EVENTS, _TIE, _SALT = "events", "tie", "salt"
_DAY = 86_400_000_000


def microseconds(time: Column, dtype: DataType) -> Column:
    """A time in microseconds since 1970 in UTC, a bigint; null if it is missing or does not fit.

    Row-wise and total, and independent of the session's time zone.
    """
    if isinstance(dtype, DateType):
        return sf.try_multiply(sf.unix_date(time).cast("bigint"), sf.lit(_DAY))
    if isinstance(dtype, TimestampNTZType):
        # Spark subtracts times without a zone in UTC
        since = time - sf.lit("1970-01-01").cast("timestamp_ntz")
        return sf.call_function("div", since, sf.expr("interval '0.000001' second"))
    return sf.unix_micros(time)


def step_of(time: Column, grid: StateGrid, *, past: int = 0) -> Column:
    """The step of a time in microseconds, a bigint from ``-past`` to ``steps - 1``; null beyond these. Total."""
    elapsed = sf.try_subtract(time, sf.lit(grid.start - past * grid.length).cast("bigint"))
    inside = (elapsed >= 0) & (elapsed < (past + grid.steps) * grid.length)
    return sf.when(inside, sf.call_function("div", elapsed, sf.lit(grid.length).cast("bigint")) - past)


def count_states(
    df: DataFrame,
    *,
    time: str | Column,
    state: str | Column | None,
    unit: str | Column | None,
    grid: StateGrid,
    bound: EventBound | None,
) -> KeyCounts:
    """The packed keys ``step * states + state`` that occur among the counted events, and the number of each."""
    when = time_column(df, time, _TIME)
    dtype, past = df.select(when).schema[0].dataType, 0 if bound is None else bound.past
    columns = {
        _TIME: microseconds(when, dtype),
        _STATE: sf.lit(0).cast("bigint") if state is None else listed_place(key_column(df, state, _STATE), grid.places),
    }
    if unit is not None:
        columns[_UNIT] = unit_column(df, unit, _UNIT)
    near = df.where(_near(when, dtype, grid, past))
    rows = near.select(*(column.alias(name) for name, column in columns.items()))
    key = sf.col(_STEP) * grid.width + sf.col(_STATE)
    rows = rows.withColumn(_STEP, step_of(sf.col(_TIME), grid, past=past))
    if bound is None:
        return count_keys(rows.select(key.alias(_KEY)), _KEY, distinct=grid.size)
    known = rows.where(sf.col(_STEP).isNotNull() & sf.col(_STATE).isNotNull() & sf.col(_UNIT).isNotNull())
    counted = _counted(known, bound).where((sf.col(_STEP) >= 0) & (sf.col(_EVENTS) > 0))
    return count_keys(counted.select(key.alias(_KEY), _EVENTS), _KEY, distinct=grid.size, weight=_EVENTS)


def _near(time: Column, dtype: DataType, grid: StateGrid, past: int) -> Column:
    """A condition that every time of the steps from ``-past`` on meets, by which Spark leaves out files and row groups.

    It only saves work: ``step_of`` decides which times count.
    """
    begins, ends = grid.first - past * grid.step, grid.first + grid.steps * grid.step
    if isinstance(dtype, DateType):
        return (time >= sf.lit(begins.date())) & (time <= sf.lit(ends.date()))
    if isinstance(dtype, TimestampNTZType):
        low, high = (sf.lit(end.replace(tzinfo=None).isoformat(sep=" ")).cast(dtype) for end in (begins, ends))
    else:
        start = grid.start - past * grid.length
        stop = grid.start + grid.steps * grid.length
        low, high = (sf.timestamp_micros(sf.lit(end).cast("bigint")) for end in (start, stop))
    return (time >= low) & (time < high)


def _counted(rows: DataFrame, bound: EventBound) -> DataFrame:
    """The number of counted events for each person, step, time and state; without time and state before step 0.

    Events that are equal in all of these, and all earlier ones of a person and step, are first added up. One sort of
    the sums serves both limits, because they are ordered by person, step and time.
    """
    now = sf.col(_STEP) >= 0
    step = sf.col(_STEP)
    if bound.max_per_step == bound.max_rows:  # then past steps need not be distinguished
        step = sf.greatest(step, sf.lit(-1).cast("bigint"))
    summed = rows.groupBy(
        _UNIT, step.alias(_STEP), sf.when(now, sf.col(_TIME)).alias(_TIME), sf.when(now, sf.col(_STATE)).alias(_STATE)
    ).agg(sf.count(sf.lit(1)).alias(_EVENTS))
    # the salt is a row of a table, because a constant would be visible in the plan
    salted = summed.repartition(_UNIT).crossJoin(sf.broadcast(_salt_table(rows.sparkSession, bound)))
    tie = sf.sha2(sf.concat_ws("\n", *(sf.col(name).cast("string") for name in (_SALT, _UNIT, _TIME, _STATE))), 256)
    order = [_TIME, _TIE, _STATE]
    tied = salted.withColumn(_TIE, sf.when(sf.col(_TIME).isNotNull(), tie)).drop(_SALT)
    in_step = Window.partitionBy(_UNIT, _STEP).orderBy(*order)
    candidates = tied.withColumn(_EVENTS, _first(bound.max_per_step, in_step))
    return candidates.withColumn(_EVENTS, _first(bound.max_rows, Window.partitionBy(_UNIT).orderBy(_STEP, *order)))


def _first(limit: int, window: WindowSpec) -> Column:
    """How many events of each row are among the first ``limit`` in its window."""
    events = sf.col(_EVENTS)
    so_far = sf.sum(events).over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    room = sf.lit(limit).cast("bigint") - (so_far - events)
    return sf.least(events, sf.greatest(room, sf.lit(0).cast("bigint")))


def _salt_table(spark: SparkSession, bound: EventBound) -> DataFrame:
    return spark.createDataFrame([(bound.secret,)], f"{_SALT} string")
