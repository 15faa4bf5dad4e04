"""Which part of its table a run is about, by Airflow's own timetables."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from dp_operators.budget import PrivacyLedger
from dp_operators.tasks.intervals import blocks_of_run, run_interval
from spark_jobs.contract.errors import InvalidRequest
from tests.support.airflow import RUN_DATE, make_context
from tests.support.dag_bags import needs_partitions

DAY = dt.timedelta(days=1)
AT = {"interval": (RUN_DATE, RUN_DATE)}
"""What Airflow 3 says of a run of ``@daily``."""


@pytest.fixture
def ledger(airflow_ledger: PrivacyLedger) -> PrivacyLedger:
    airflow_ledger.open_account("day", epsilon="1", blocks="day(at)")
    airflow_ledger.open_account("hour", epsilon="1", blocks="hour(at)")
    airflow_ledger.open_account("region", epsilon="1", blocks="value(region: north, south)")
    return airflow_ledger


def blocks(
    ledger: PrivacyLedger, schedule: Any, *, account: str = "day", zone: str = "UTC", date: Any = None, **run: Any
) -> tuple[str, ...]:
    """The blocks of a run of a DAG with this schedule."""
    import pendulum

    context = make_context(**run)
    context["dag_run"].partition_date = date
    start = pendulum.datetime(2026, 1, 1, tz=zone)
    context["dag"] = DAG("visits", schedule=schedule, start_date=start)
    return blocks_of_run(("interval",), account, ledger, context)


@pytest.mark.parametrize(
    ("schedule", "account", "expected"),
    [
        ("@daily", "day", ("2026-11-19",)),
        ("0 0 * * 5", "day", tuple(f"2026-11-{day}" for day in range(13, 20))),
        ("@hourly", "hour", ("2026-11-19T23",)),
        (dt.timedelta(days=2), "day", ("2026-11-18", "2026-11-19")),
    ],
)
def test_run_at_a_tick_is_about_the_time_since_the_tick_before(
    ledger: PrivacyLedger, schedule: Any, account: str, expected: tuple[str, ...]
) -> None:
    assert blocks(ledger, schedule, account=account, **AT) == expected
    assert blocks(ledger, schedule, account=account, run_type="backfill", **AT) == expected


def test_data_interval_of_a_run_that_has_one_counts(ledger: PrivacyLedger) -> None:
    assert blocks(ledger, "@daily") == ("2026-11-20",)


@pytest.mark.parametrize("expression", ["@daily", "0 6 * * 1-5", "15,45 * * * *", "0 0 1 */3 *"])
def test_intervals_follow_each_other_without_gap_or_overlap(expression: str) -> None:
    """Tick by tick, as the scheduler's own timetable counts them."""
    from airflow.timetables.base import TimeRestriction
    from airflow.timetables.trigger import CronTriggerTimetable
    from pendulum import instance

    scheduler = CronTriggerTimetable(expression, timezone="UTC")
    timetable = DAG("visits", schedule=expression, start_date=RUN_DATE).timetable
    restriction = TimeRestriction(earliest=instance(RUN_DATE), latest=None, catchup=True)
    last, ends = None, []
    for _ in range(30):
        info = scheduler.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        assert info is not None
        last = info.data_interval
        run: Any = SimpleNamespace(
            run_type="scheduled",
            logical_date=info.logical_date,
            data_interval_start=last.start,
            data_interval_end=last.end,
        )
        found = run_interval(run, timetable)
        assert found is not None
        ends.append(found)
    assert all(before[1] == after[0] for before, after in pairwise(ends))


def partitions() -> Any:
    from airflow.sdk import CronPartitionTimetable

    return CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1)


@needs_partitions
def test_partition_of_a_timetable_is_the_interval_that_begins_with_it(ledger: PrivacyLedger) -> None:
    found = {"partition_key": "2026-01-19T00:00:00", "date": dt.datetime(2026, 1, 19, tzinfo=dt.UTC), "interval": None}
    assert blocks(ledger, partitions(), **found) == ("2026-01-19",)
    assert blocks(ledger, partitions(), run_type="manual", **found) == ("2026-01-19",)
    assert len(blocks(ledger, partitions(), account="hour", **found)) == 24


@needs_partitions
def test_partition_that_is_not_over_is_refused(ledger: PrivacyLedger) -> None:
    today = dt.datetime.now(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    with pytest.raises(InvalidRequest, match=r"^blocks: .*must have ended.*run_offset=-1"):
        blocks(ledger, partitions(), partition_key=f"{today:%Y-%m-%dT%H:%M:%S}", date=today, interval=None)


@pytest.mark.parametrize("run_type", ["asset_triggered", "manual", "scheduled"])
def test_key_of_any_other_partition_is_the_blocks_name(ledger: PrivacyLedger, run_type: str) -> None:
    found = {"run_type": run_type, "interval": None}
    assert blocks(ledger, None, partition_key="2026-11-19", **found) == ("2026-11-19",)
    assert blocks(ledger, None, account="region", partition_key="north", **found) == ("north",)
    with pytest.raises(InvalidRequest, match="must be one of north, south"):
        blocks(ledger, None, account="region", partition_key="east", **found)
    with pytest.raises(InvalidRequest, match="must be a day in UTC"):
        blocks(ledger, None, partition_key="eu", **found)


@pytest.mark.parametrize(
    "run",
    [
        {"run_type": "manual"},
        {"run_type": "manual", "interval": None},
        {"run_type": "asset_triggered", "interval": None},
        {"run_type": "scheduled", "interval": None},
    ],
)
def test_run_that_nothing_dates_is_about_no_interval(ledger: PrivacyLedger, run: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="this run has no data interval"):
        blocks(ledger, "@daily", **run)


def test_schedule_without_a_pace_has_no_interval(ledger: PrivacyLedger) -> None:
    from airflow.timetables.trigger import MultipleCronTriggerTimetable

    several = MultipleCronTriggerTimetable("0 0 * * *", "0 12 * * *", timezone="UTC")
    with pytest.raises(InvalidRequest, match="this run has no data interval"):
        blocks(ledger, several, **AT)


def test_ticks_of_another_time_zone_are_refused(ledger: PrivacyLedger) -> None:
    with pytest.raises(InvalidRequest, match="needs a timetable in UTC"):
        blocks(ledger, "@daily", zone="Europe/Berlin", **AT)


def test_tick_that_cuts_a_block_is_refused(ledger: PrivacyLedger) -> None:
    with pytest.raises(InvalidRequest, match="must consist of whole days in UTC"):
        blocks(ledger, "@hourly", **AT)
