"""The Spark half of what a stream uses of each unit against the arrays' half, on the same events."""

import datetime as dt

import numpy as np
import pytest

from spark_jobs.statistics.state_grid import EventBound, StateGrid
from spark_jobs.statistics.unit_use import UnitUse
from spark_jobs.statistics.used_rows import UsedRows
from tests.support.spark import settings as spark_settings
from tests.support.state_rows import FIRST, HOUR, SALT

pytestmark = pytest.mark.spark

EVENTS = 400


def events(seed, *, whole=False):
    """Events of few persons at few times; late ones and others that are gone, in each version of the table."""
    random = np.random.default_rng(seed)
    persons = [int(one) for one in random.geometric(0.04, size=EVENTS)]
    return [
        (
            FIRST + int(random.integers(-2, 26)) * HOUR / 4,
            str(random.choice(["a", "b", "elsewhere"])),
            None if person == 1 else person if whole else f"person {person}",
        )
        for person in persons
    ]


@pytest.mark.parametrize(
    ("bound", "places", "whole"),
    [({"max_rows": 5, "max_per_step": 5}, 1000, False), ({"max_rows": 4, "max_per_step": 2}, 25, True)],
)
def test_steps_of_changing_versions_are_counted_like_arrays(spark, bound, places, whole):
    limits, use, total = EventBound(**bound, salt=SALT), UnitUse.none(places), 0
    for first, steps, seed in ((0, 2, 1), (2, 1, 2), (3, 3, 3)):
        rows = events(seed, whole=whole)
        kind = "bigint" if whole else "string"
        table = spark.createDataFrame(rows, f"time timestamp, state string, person {kind}").repartition(3)
        grid = StateGrid(first=FIRST + first * HOUR, step=HOUR, steps=steps, states=("a", "b"))
        times, states, persons = (np.array(column, dtype=object) for column in zip(*rows, strict=True))
        expected = UsedRows.from_arrays(times, states, persons, grid=grid, bound=limits, use=use)
        with spark_settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
            counted = UsedRows.from_dataframe(
                table, time="time", state="state", unit="person", grid=grid, bound=limits, use=use
            )
        assert counted.counts == expected.counts
        np.testing.assert_array_equal(counted.use.to_records(), expected.use.to_records())
        use, total = counted.use, total + counted.counts.total
    assert 0 < total < 3 * EVENTS / 2
    assert use.free == (0 if places == 25 else 1000 - len(use.hashes))


def test_only_the_steps_that_are_counted_are_read(spark, tmp_path):
    """A stream that keeps what it used need not read its history again."""
    at = [FIRST + hours * HOUR for hours in (-300, 0, 300)]
    path = str(tmp_path / "events")
    spark.createDataFrame([(time, "ada") for time in at], "time timestamp, person string").write.parquet(path)
    from spark_jobs.statistics.spark.states import known_rows

    grid = StateGrid(first=FIRST, step=dt.timedelta(hours=1), steps=2)
    rows = known_rows(spark.read.parquet(path), time="time", state=None, unit="person", grid=grid)
    assert "GreaterThanOrEqual(time,2026-01-31" in rows._jdf.queryExecution().executedPlan().toString()
    assert rows.count() == 1
