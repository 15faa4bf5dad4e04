"""The blocks of a DAG run for ``blocks="interval"``.

Airflow 3 gives most runs no data interval: ``@daily`` and all other cron expressions trigger at a point in time
(``CronTriggerTimetable``), and partition timetables give a partition key. The rules, in this order:

============================================= ==================================================================
the run                                       its interval, or block
============================================= ==================================================================
has a partition key, from a cron timetable    from the partition's date to the next tick, which must have passed
has a partition key, from any other timetable the block of that name
is scheduled or backfilled, with an interval  the data interval
is scheduled or backfilled, at a moment       from the previous tick to that moment
any other run, e.g. a manual one              none
============================================= ==================================================================

Ticks are computed from the DAG's timetable, whether or not there was a run at each of them: the interval of a missed
run is left to a backfill, and the next run does not include it.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from dp_operators.tasks.keys import TIMETABLED, DagRunFacts, partition_of
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.expressions.blocks import INTERVAL, BlockBy

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.budget import LedgerReader

Interval = tuple[dt.datetime, dt.datetime]


def blocks_of_run(
    blocks: tuple[str, ...], account: str | None, ledger: LedgerReader, context: Context
) -> tuple[str, ...]:
    """``blocks``, with ``interval`` replaced by the blocks of the run's interval.

    Raises:
        InvalidRequest: the run has no interval, or the account has no blocks that together cover it.
        LedgerUnavailable: the ledger cannot be reached.
    """
    from dp_operators.releasing import interval_blocks

    if blocks != (INTERVAL,) or account is None:
        return blocks
    run: DagRunFacts = context["dag_run"]
    timetable = getattr(context.get("dag"), "timetable", None)
    paying = ledger.account(account)
    partition = partition_of(run)
    if partition and paying.blocks is not None:
        interval = partition_interval(run, timetable)
        if interval is None or paying.blocks.by is BlockBy.VALUE:
            paying.blocks.require([partition])
            return (partition,)
        _require_over(interval[1])
        return interval_blocks(paying, *interval)
    return interval_blocks(paying, *(run_interval(run, timetable) or (None, None)))


def run_interval(run: DagRunFacts, timetable: Any) -> Interval | None:
    """The interval of a scheduled or backfilled run; None for any other run, and for a timetable without ticks.

    Raises:
        InvalidRequest: the timetable's ticks are not in UTC.
    """
    if getattr(run.run_type, "value", run.run_type) not in TIMETABLED:
        return None
    start, end = run.data_interval_start, run.data_interval_end
    if start and end and start != end:
        return start, end
    moment = end or run.logical_date
    before = moment and tick(timetable, moment, ahead=False)
    return (before, moment) if moment and before else None


def partition_interval(run: DagRunFacts, timetable: Any) -> Interval | None:
    """The interval of a partition of a cron timetable; None for a partition of any other origin.

    Raises:
        InvalidRequest: the timetable's ticks are not in UTC.
    """
    start = getattr(run, "partition_date", None)
    end = start and tick(timetable, start, ahead=True)
    return (start, end) if start and end else None


def tick(timetable: Any, moment: dt.datetime, *, ahead: bool) -> dt.datetime | None:
    """The next tick of a timetable after ``moment``, or the previous one; None for a timetable without regular ticks.

    Raises:
        InvalidRequest: the timetable's cron expression is in a time zone other than UTC, where days may have 23 or 25
            hours.
    """
    delta = _fact(timetable, "delta")
    if delta is not None:
        return moment + delta if ahead else moment - delta  # type: ignore[no-any-return]
    expression = _fact(timetable, "expression")
    if expression is None:
        return None
    zone = _fact(timetable, "timezone")
    zone = str(getattr(zone, "name", zone))
    if zone.upper() not in ("UTC", "ETC/UTC", "+00:00"):
        raise InvalidRequest(
            "blocks", f"interval, of a timetable in {zone}", "needs a timetable in UTC, because blocks are in UTC",
            "give the DAG's start date, or its timetable, the time zone UTC",
        )  # fmt: skip
    # imported here, because parsing a DAG does not need it
    from croniter import croniter  # type: ignore[import-untyped]

    ticks = croniter(expression, moment.astimezone(dt.UTC))
    nearest: dt.datetime = ticks.get_next(dt.datetime) if ahead else ticks.get_prev(dt.datetime)
    return nearest


def _fact(timetable: Any, name: str) -> Any:
    """An attribute of a timetable, whose name begins with an underscore before Airflow 3.2; None without one."""
    return getattr(timetable, name, None) or getattr(timetable, f"_{name}", None)


def _require_over(end: dt.datetime) -> None:
    if end > dt.datetime.now(dt.UTC):
        raise InvalidRequest(
            "blocks", f"interval, of a partition that ends at {end.isoformat()}",
            "must have ended, because rows that arrive later would never be released",
            "let the timetable run one tick later: run_offset=-1",
        )  # fmt: skip
