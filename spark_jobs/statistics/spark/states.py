"""``StateCounts`` in Spark: the step and state of an event, the bound on a person's events, and the counting query."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DateType, TimestampNTZType

from spark_jobs.statistics.spark.cells import KeyCounts, count_keys
from spark_jobs.statistics.spark.columns import key_column, listed_place, time_column, unit_column
from spark_jobs.statistics.state_grid import EventBound, StateGrid

TIME, STATE, UNIT, STEP, EVENTS = "time", "state", "unit", "step", "events"
_KEY, _TIE, _SALT = "key", "tie", "salt"
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


def step_of(time: Column, grid: StateGrid) -> Column:
    """The step of a time in microseconds, a bigint; null before the first step and after the last. Total."""
    elapsed = sf.try_subtract(time, sf.lit(grid.start).cast("bigint"))
    inside = (elapsed >= 0) & (elapsed < grid.steps * grid.length)
    return sf.when(inside, sf.call_function("div", elapsed, sf.lit(grid.length).cast("bigint")))


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
    rows = known_rows(df, time=time, state=state, unit=unit, grid=grid)
    key = cell_key(grid).alias(_KEY)
    if bound is None:
        return count_keys(rows.select(key), _KEY, distinct=grid.size)
    tied = with_ties(summed(rows, UNIT).repartition(UNIT), bound, UNIT)
    counted = first_events(tied, bound, UNIT, sf.lit(bound.max_rows).cast("bigint"))
    return count_keys(counted.select(key, EVENTS), _KEY, distinct=grid.size, weight=EVENTS)


def known_rows(
    df: DataFrame, *, time: str | Column, state: str | Column | None, unit: str | Column | None, grid: StateGrid
) -> DataFrame:
    """The time, state and step of each event around the grid's steps, and with ``unit`` also its unit.

    With ``unit``, only of events whose step, state and unit are known.
    """
    when = time_column(df, time, TIME)
    dtype = df.select(when).schema[0].dataType
    columns = {
        TIME: microseconds(when, dtype),
        STATE: sf.lit(0).cast("bigint") if state is None else listed_place(key_column(df, state, STATE), grid.places),
    }
    if unit is not None:
        columns[UNIT] = unit_column(df, unit, UNIT)
    near = df.where(_near(when, dtype, grid))
    rows = near.select(*(column.alias(name) for name, column in columns.items()))
    rows = rows.withColumn(STEP, step_of(sf.col(TIME), grid))
    if unit is None:
        return rows
    return rows.where(sf.col(STEP).isNotNull() & sf.col(STATE).isNotNull() & sf.col(UNIT).isNotNull())


def cell_key(grid: StateGrid) -> Column:
    """The cell of an event, null outside the grid."""
    return sf.col(STEP) * grid.width + sf.col(STATE)


def _near(time: Column, dtype: DataType, grid: StateGrid) -> Column:
    """A condition that every time of the steps meets, by which Spark leaves out files and row groups.

    It only saves work: ``step_of`` decides which times count.
    """
    begins, ends = grid.first, grid.first + grid.steps * grid.step
    if isinstance(dtype, DateType):
        return (time >= sf.lit(begins.date())) & (time <= sf.lit(ends.date()))
    if isinstance(dtype, TimestampNTZType):
        low, high = (sf.lit(end.replace(tzinfo=None).isoformat(sep=" ")).cast(dtype) for end in (begins, ends))
    else:
        low, high = (
            sf.timestamp_micros(sf.lit(end).cast("bigint"))
            for end in (grid.start, grid.start + grid.steps * grid.length)
        )
    return (time >= low) & (time < high)


def summed(rows: DataFrame, unit: str) -> DataFrame:
    """The rows added up: one for each unit, step, time and state, with the number of events."""
    return rows.groupBy(unit, STEP, TIME, STATE).agg(sf.count(sf.lit(1)).alias(EVENTS))


def with_ties(rows: DataFrame, bound: EventBound, unit: str) -> DataFrame:
    """The rows with a salted hash, which orders the events of one unit at one time."""
    # the salt is a row of a table, because a constant would be visible in the plan
    salted = rows.crossJoin(sf.broadcast(rows.sparkSession.createDataFrame([(bound.secret,)], f"{_SALT} string")))
    tie = sf.sha2(sf.concat_ws("\n", *(sf.col(name).cast("string") for name in (_SALT, unit, TIME, STATE))), 256)
    return salted.withColumn(_TIE, tie).drop(_SALT)


def first_events(tied: DataFrame, bound: EventBound, by: str, room: Column) -> DataFrame:
    """The rows of which at least one event is counted, each with the number of its counted events.

    One sort serves both limits, because rows are ordered by unit, step and time.

    Args:
        tied: the result of ``with_ties``.
        bound: the bound; its ``max_per_step`` is the limit for each step.
        by: the name of the column that identifies the unit.
        room: a column with the limit for all steps: the number of events of the unit that may still be counted.
    """
    order = [TIME, _TIE, STATE]
    limit = sf.lit(bound.max_per_step).cast("bigint")
    candidates = tied.withColumn(EVENTS, _first(limit, Window.partitionBy(by, STEP).orderBy(*order)))
    counted = candidates.withColumn(EVENTS, _first(room, Window.partitionBy(by).orderBy(STEP, *order)))
    return counted.where(sf.col(EVENTS) > 0)


def _first(limit: Column, window: WindowSpec) -> Column:
    """How many events of each row are among the first ``limit`` in its window."""
    events = sf.col(EVENTS)
    so_far = sf.sum(events).over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    room = limit - (so_far - events)
    return sf.least(events, sf.greatest(room, sf.lit(0).cast("bigint")))
