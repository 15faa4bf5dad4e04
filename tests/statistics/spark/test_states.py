"""The Spark half of state counts against the numpy half, on the same events."""

import datetime as dt

import numpy as np
import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.statistics import StateCounts
from tests.support.spark import settings as spark_settings
from tests.support.state_rows import FIRST, GRID, HOUR, SALT, fields

pytestmark = pytest.mark.spark

MICROSECOND = dt.timedelta(microseconds=1)
AT = [FIRST + i * HOUR + dt.timedelta(microseconds=j) for i in (-1, 0, 1, 2, 3) for j in (-1, 0, 1)]
STATES = ["a", "b", "17", "elsewhere", None]
BERLIN = {"spark.sql.session.timeZone": "Europe/Berlin"}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_events_are_counted_like_arrays_in_every_zone_of_a_session(spark, ansi):
    rows = [(time, state) for time in [*AT, None] for state in STATES]
    expected = StateCounts.from_arrays(*zip(*rows, strict=True), **fields(GRID))
    assert expected.total == 27
    far = [2**63 - 1, -(2**63), 0]
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi, **BERLIN}):
        # written as numbers, because Python's times have no wilder ones
        numbers = [(None if time is None else round(time.timestamp() * 10**6), state) for time, state in rows]
        table = spark.createDataFrame([*numbers, *((number, "a") for number in far)], "at long, state string")
        zoned = table.selectExpr("timestamp_micros(at) as time", "state")
        assert StateCounts.from_dataframe(zoned, state="state", **fields(GRID)) == expected
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": "UTC"}):
        plain = zoned.selectExpr("cast(time as timestamp_ntz) as time", "state").cache()
        plain.count()
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi, **BERLIN}):
        assert StateCounts.from_dataframe(plain, state="state", **fields(GRID)) == expected
        plain.unpersist()


def test_dates_are_midnights_in_utc(spark):
    days = ["2026-01-30", "2026-01-31", "2026-02-01", None]
    table = spark.createDataFrame([(day,) for day in days], "day string").selectExpr("cast(day as date) as day")
    far = spark.range(2).selectExpr("date_from_unix_date(cast(if(id = 0, 2147483647, -2147483648) as int)) as day")
    table = table.union(far)
    month = {"first": dt.datetime(2026, 1, 31), "step": dt.timedelta(days=1), "steps": 2}
    with spark_settings(spark, BERLIN):
        counts = StateCounts.from_dataframe(table, time="day", **month)
    assert counts == StateCounts.from_arrays(np.array(days, dtype="datetime64[D]"), **month)
    assert counts.counts.tolist() == [[1], [1]]


def made_events(number: int) -> list[tuple[dt.datetime, str, str | None]]:
    """Events of few persons at few times, so that limits and ties matter."""
    random = np.random.default_rng(8)
    return [
        (
            FIRST + int(random.integers(-3, 13)) * HOUR / 4,
            str(random.choice(["a", "b", "17", "elsewhere"])),
            None if random.random() < 0.1 else f"person {random.geometric(0.05)}",
        )
        for _ in range(number)
    ]


@pytest.mark.parametrize("bound", [{"max_rows": 5}, {"max_rows": 7, "max_per_step": 2}, {"max_rows": 1}])
def test_the_first_events_of_persons_are_the_same(spark, bound):
    rows = made_events(600)
    table = spark.createDataFrame(rows, "time timestamp, state string, person string").repartition(5)
    times, states, persons = zip(*rows, strict=True)
    asked = {**fields(GRID), **bound, "salt": SALT}
    counts = StateCounts.from_dataframe(table, state="state", unit="person", **asked)
    assert counts == StateCounts.from_arrays(list(times), list(states), units=list(persons), **asked)
    assert 0 < counts.total < 300


def test_one_query_without_a_sort_unless_persons_are_bounded(spark):
    table = spark.createDataFrame(made_events(10), "time timestamp, state string, person string")
    from spark_jobs.statistics.spark import states

    seen = []
    counted = states.count_keys
    try:
        states.count_keys = lambda df, key, **given: seen.append(df) or counted(df, key, **given)
        StateCounts.from_dataframe(table, state="state", **fields(GRID))
        StateCounts.from_dataframe(table, state="state", unit="person", max_rows=2, max_per_step=1, **fields(GRID))
    finally:
        states.count_keys = counted
    plans = [frame._jdf.queryExecution().executedPlan().toString() for frame in seen]
    assert [plan.count("Sort [") for plan in plans] == [0, 1]


def test_files_of_other_times_are_not_read(spark, tmp_path):
    rows = [(FIRST + hours * HOUR, "a") for hours in (-300, 0, 300)]
    path = str(tmp_path / "events")
    spark.createDataFrame(rows, "time timestamp, state string").write.parquet(path)
    table = spark.read.parquet(path)
    plans = []
    from spark_jobs.statistics.spark import states

    counted = states.count_keys
    try:
        states.count_keys = lambda df, key, **given: plans.append(df) or counted(df, key, **given)
        assert StateCounts.from_dataframe(table, state="state", **fields(GRID)).counts[:, 0].tolist() == [1, 0, 0]
    finally:
        states.count_keys = counted
    plan = plans[0]._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThanOrEqual(time,2026-01-31" in plan
    assert "LessThan(time,2026-02-01" in plan


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"time": "nothing"}, "time: got 'nothing'; must be a column of the table; correct its name"),
        ({"time": "text"}, "time: got 'text of type string'; must be a timestamp or a date; convert the column first"),
        ({"state": "half"}, "state: got 'half of type decimal(2,1)'; must be texts or whole numbers"),
        (
            {"unit": "list", "max_rows": 1},
            "unit: got 'list of type array<int>'; must be text, a number",
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_the_table_is_read(spark, asked, line):
    table = spark.range(1).selectExpr(
        "timestamp'2026-01-31' as time", "'a' as text", "1.5 as half", "array(1) as list"
    ).where("raise_error('this row was read') is null")  # fmt: skip
    with pytest.raises(InvalidRequest) as refused:
        StateCounts.from_dataframe(table, **{"state": "text", **fields(GRID), **asked})
    assert str(refused.value).startswith(line)
