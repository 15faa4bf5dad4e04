"""Runs of a DAG release the due steps of a stream: each once, in order, however the runs come."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk import DAG, timezone
from airflow.sdk.execution_time.context import OutletEventAccessors

from dp_operators.links.release import AccountLink, ReportLink
from dp_operators.operators.count_stream import CountStreamOperator, due_instant
from dp_operators.operators.outlets import release_asset
from dp_operators.releasing import Handle, RunState, Submission
from dp_operators.triggers.application import ApplicationTrigger
from spark_jobs.application.streams.report import write_report
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import PRIVATE
from spark_jobs.contract.store.objects import open_store
from tests.support.airflow import make_context, run_dag, states
from tests.support.dag_bags import needs_partitions
from tests.support.noises import Still
from tests.support.stream_lab import StreamLab, StreamRunner, judge_stream

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def hours(first: float, last: float) -> tuple[dt.datetime, dt.datetime]:
    return START + dt.timedelta(hours=first), START + dt.timedelta(hours=last)


@pytest.fixture
def lab(tmp_path: Path, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> StreamLab:
    """A ledger and a stream of 48 hours; tasks count what the lab says instead of starting Spark."""
    lab = StreamLab(tmp_path)
    connect("privacy_ledger_default", conn_type="privacy_ledger", extra={"path": str(tmp_path / "ledger.db")})
    monkeypatch.setattr("dp_operators.operators.application.make_runner", lambda *_, **__: lab.runner())
    # made by another process, which takes seconds; the tests of reports and of the example DAG make them
    monkeypatch.setattr("dp_operators.releasing.stream_views.refresh_report", lambda uri: uri == "")
    return lab


class Trusted(Still):
    """No noise, which the committer takes for private noise."""

    guarantee = PRIVATE


def operator(lab: StreamLab, **changes: Any) -> CountStreamOperator:
    given = lab.request.to_dict()
    fields = {name: given[name] for name in ("account", "table", "time", "start", "step", "steps", "output")}
    return CountStreamOperator(**{"task_id": "count", **fields, "epsilon": "1", **changes})


def run(lab: StreamLab, first: float, last: float, **changes: Any) -> dict[str, Any]:
    return operator(lab, **changes).execute(make_context(task_id="count", interval=hours(first, last)))


def due(**facts: Any) -> dt.datetime:
    context = make_context(interval=facts.pop("interval", None), **facts.pop("run", {}))
    vars(context["dag_run"]).update({"run_after": START + dt.timedelta(hours=9), **facts.pop("attributes", {})})
    return due_instant({**context, **facts.pop("context", {})}, facts.pop("until", None))


class TestDue:
    def test_a_run_with_an_interval_releases_to_its_end(self) -> None:
        assert due(interval=hours(2, 5)) == hours(2, 5)[1]

    @needs_partitions
    def test_a_partition_ends_with_the_next_tick(self) -> None:
        from airflow.sdk import CronPartitionTimetable

        dag = DAG(
            "d", schedule=CronPartitionTimetable("0 0 * * *", timezone="UTC"), start_date=timezone.datetime(2026, 1, 1)
        )
        facts = {"run": {"partition_key": "2026-01-02"}, "attributes": {"partition_date": START + dt.timedelta(days=1)}}
        assert due(**facts, context={"dag": dag}) == START + dt.timedelta(days=2)

    @pytest.mark.parametrize("run_type", ["manual", "asset_triggered"])
    def test_any_other_run_releases_what_had_ended_when_it_was_triggered(self, run_type: str) -> None:
        assert due(run={"run_type": run_type}) == START + dt.timedelta(hours=9)

    def test_an_instant_may_be_named(self) -> None:
        assert due(interval=hours(2, 5), until="2026-01-01T01:00:00+01:00") == START

    def test_nothing_is_released_before_it_has_ended(self) -> None:
        assert due(until="2999-01-01T00:00:00Z") <= dt.datetime.now(dt.UTC)
        assert due(interval=(START, dt.datetime(2999, 1, 1, tzinfo=dt.UTC))) <= dt.datetime.now(dt.UTC)

    def test_an_instant_without_a_time_zone_is_refused(self) -> None:
        with pytest.raises(InvalidRequest, match="until: "):
            due(until="2026-01-01 03:00")


class TestRuns:
    def test_each_run_releases_its_steps_and_the_first_pays_for_all(self, lab: StreamLab) -> None:
        first, second = run(lab, 0, 24), run(lab, 24, 48)
        assert (first["first"], first["released"], first["steps"], first["finished"]) == (0, 24, 24, False)
        assert (second["first"], second["released"], second["steps"], second["finished"]) == (24, 24, 48, True)
        assert first["cost"]["epsilon"] == "1"
        assert {first["key"], second["key"]} == {"airflow/visits/stream/count/-1"}
        assert first["uri"] == second["uri"]

    def test_a_late_run_catches_up_and_the_runs_it_overtook_find_nothing_due(self, lab: StreamLab) -> None:
        assert run(lab, 36, 48)["released"] == 48
        before = {path: path.read_bytes() for path in Path(lab.output).rglob("*") if path.is_file()}
        for first in (0, 12, 24, 36):
            again = run(lab, first, first + 12)
            assert (again["released"], again["steps"]) == (0, 48)
        assert before == {path: path.read_bytes() for path in Path(lab.output).rglob("*") if path.is_file()}

    def test_a_backfill_of_a_thousand_steps_is_one_task(self, lab: StreamLab, monkeypatch: pytest.MonkeyPatch) -> None:
        long = StreamLab(lab.folder, {"steps": 1000})
        runner = long.runner()
        monkeypatch.setattr("dp_operators.operators.application.make_runner", lambda *_, **__: runner)
        assert run(long, 999, 1000)["released"] == 1000
        assert runner.runs == [(0, 1000)]
        judge_stream_of(long, steps=1000)

    def test_a_run_that_was_skipped_is_made_up_for_by_the_next(self, lab: StreamLab) -> None:
        run(lab, 0, 12)
        assert run(lab, 24, 36)["released"] == 24

    def test_two_runs_at_once_release_each_step_once(self, lab: StreamLab) -> None:
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(run, lab, 0, 24) for _ in range(2)]
        assert [one.result()["steps"] for one in both] == [24, 24]
        manifests = sorted(Path(both[0].result()["uri"]).glob("steps/*.json"))
        assert [path.name for path in manifests] == ["000000000000.json"]

    def test_a_run_of_another_day_may_read_another_snapshot(self, lab: StreamLab) -> None:
        run(lab, 0, 24)
        table = {**lab.request.to_dict()["table"], "snapshot": {"path_version": "v2"}}
        assert run(lab, 24, 48, table=table)["finished"]

    def test_airflow_is_told_where_the_stream_is_and_what_is_left(
        self, lab: StreamLab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        counted: list[str] = []
        monkeypatch.setattr("dp_operators.tasks.metrics._incr", lambda name, **tag: counted.append(f"{name} {tag}"))
        task, events = operator(lab), OutletEventAccessors()
        assert task.outlets == [release_asset(lab.output)]
        context = make_context(task_id="count", interval=hours(0, 24))
        returned = task.execute({**context, "outlet_events": events})
        [extra] = [accessor.extra for accessor in events._dict.values()]
        assert {name: extra[name] for name in returned} == returned
        assert (extra["account"], extra["left"]["epsilon"], extra["share_left"]) == ("people", "2", "0.666667")
        assert ReportLink().get_link(task, ti_key=None) == f"file://{returned['uri']}/report.html"  # type: ignore[arg-type]
        assert "people" in AccountLink().get_link(task, ti_key=None)  # type: ignore[arg-type]
        assert counted == ["privacy.releases {'account': 'people'}"]
        with pytest.raises(AirflowFailException):
            run(lab, 24, 48, epsilon="0.5")
        assert counted[1:] == ["privacy.refusals {'reason': 'charge_conflict'}"]

    def test_alarms_of_every_count_are_returned_and_in_the_event(
        self, lab: StreamLab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "dp_operators.releasing.stream_views.refresh_report",
            lambda uri: write_report(open_store(uri), uri),
        )
        runner = lab.runner(noise=Trusted())
        monkeypatch.setattr("dp_operators.operators.application.make_runner", lambda *_, **__: runner)
        lab.counts[12:] = 0
        monitors = [{"kind": "low", "window": 6, "threshold": 60}]
        task, events = operator(lab, monitors=monitors), OutletEventAccessors()
        context = make_context(task_id="count", interval=hours(0, 24))
        returned = task.execute({**context, "outlet_events": events})
        assert (returned["alarms"]["in_force"], returned["alarms"]["watched"]) == (1, 1)
        assert returned["alarms"]["newest"][0]["condition"] == "below 60 in 6 steps"
        [extra] = [accessor.extra for accessor in events._dict.values()]
        assert extra["alarms"] == returned["alarms"]
        assert "alarms" not in run(lab, 0, 24, stream="without monitors")

    def test_another_name_is_another_stream(self, lab: StreamLab) -> None:
        assert run(lab, 0, 24)["key"] != run(lab, 0, 24, stream="again")["key"]

    def test_a_failed_application_is_retried(self, lab: StreamLab, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing() -> None:
            raise OSError("no space left")

        monkeypatch.setattr(
            "dp_operators.operators.application.make_runner", lambda *_, **__: StreamRunner(lab.counts, before=failing)
        )
        with pytest.raises((AirflowException, OSError)):
            run(lab, 0, 24)
        monkeypatch.setattr("dp_operators.operators.application.make_runner", lambda *_, **__: lab.runner())
        assert run(lab, 0, 24)["released"] == 24


@dataclass
class Cluster(StreamRunner):
    """A cluster whose applications end when ``finish`` is called."""

    waiting: dict[str, Submission] = field(default_factory=dict)

    elsewhere = True

    def submit(self, submission: Submission) -> Handle:
        self.waiting[str(submission.run)] = submission
        return Handle(backend="test", id=str(submission.run))

    def look(self, handle: Handle) -> RunState:
        return RunState.RUNNING if handle.id in self.waiting else RunState.ENDED

    def finish(self) -> None:
        for number in tuple(self.waiting):
            self.run(self.waiting.pop(number), lambda line: None)


def test_a_run_on_a_cluster_waits_without_a_worker(lab: StreamLab, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(counts=lab.counts)
    for module in ("operators.application", "tasks.runners"):
        monkeypatch.setattr(f"dp_operators.{module}.make_runner", lambda *_, **__: cluster)
    for day in (0, 1):
        context = make_context(task_id="count", interval=hours(24 * day, 24 * day + 24))
        task = operator(lab, deferrable=True)
        with pytest.raises(TaskDeferred) as deferred:
            task.execute(context)
        assert isinstance(deferred.value.trigger, ApplicationTrigger)
        run = deferred.value.trigger.application_run
        with pytest.raises(TaskDeferred) as again:  # a worker was lost, and the next attempt finds the application
            task.execute(context)
        assert again.value.trigger.serialize() == deferred.value.trigger.serialize()
        assert deferred.value.trigger._look() == RunState.RUNNING
        cluster.finish()
        returned = task.resume(context, {"run": run, "state": "ended"})
        assert (returned["first"], returned["released"]) == (24 * day, 24)
    assert cluster.runs == [(0, 24), (24, 48)]
    judge_stream_of(lab, steps=48)


def test_an_application_that_leaves_nothing_on_a_cluster_fails_the_task_and_a_retry_submits_another(
    lab: StreamLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(counts=lab.counts)
    for module in ("operators.application", "tasks.runners"):
        monkeypatch.setattr(f"dp_operators.{module}.make_runner", lambda *_, **__: cluster)
    context, task = make_context(task_id="count", interval=hours(0, 24)), operator(lab, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(context)
    cluster.waiting.clear()  # killed
    with pytest.raises(AirflowException, match="ended without the steps that are due"):
        task.resume(context, {"run": deferred.value.trigger.application_run, "state": "ended"})
    with pytest.raises(TaskDeferred):
        task.execute(context)
    assert len(cluster.waiting) == 1


class TestRefusals:
    def test_options_that_change_midway_are_refused_and_nothing_is_charged(self, lab: StreamLab) -> None:
        run(lab, 0, 24)
        with pytest.raises(AirflowFailException, match="request|key"):
            run(lab, 24, 48, epsilon="0.5")
        judge_stream_of(lab, steps=24)

    @pytest.mark.parametrize(("ending", "error"), [("skip", AirflowSkipException), ("fail", AirflowFailException)])
    def test_an_exhausted_budget_ends_the_task_as_it_says(self, lab: StreamLab, ending: Any, error: Any) -> None:
        for name in ("one", "two", "three"):
            run(lab, 0, 24, stream=name)
        with pytest.raises(error, match="people"):
            run(lab, 0, 24, stream="four", on_exhausted=ending)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"step": "7 fortnights"}, "step: "),
            ({"steps": 0}, "steps: "),
            ({"epsilon": "abc"}, "epsilon"),
            ({"method": {"kind": "nonesuch"}}, "method"),
            ({"runner": "cloud"}, "runner: got 'cloud'"),
            ({"on_exhausted": "cry"}, "on_exhausted"),
            ({"request": "stream.yaml"}, "request: got 'also account"),
        ],
    )
    def test_a_mistake_in_constants_is_an_import_error(self, lab: StreamLab, changes: Any, message: str) -> None:
        with pytest.raises(InvalidRequest, match=message):
            operator(lab, **changes)

    def test_a_template_is_checked_when_the_task_runs(self, lab: StreamLab) -> None:
        task = operator(lab, step="{{ params.step }}")
        task.request["step"] = "7 fortnights"
        with pytest.raises(AirflowFailException, match="step: "):
            task.execute(make_context(task_id="count", interval=hours(0, 24)))


def judge_stream_of(lab: StreamLab, *, steps: int) -> None:
    """As ``judge_stream``, for the stream of the task."""
    import tests.support.stream_lab as laboratory

    key, laboratory.KEY = laboratory.KEY, "airflow/visits/stream/count/-1"
    try:
        judge_stream(lab, steps=steps)
    finally:
        laboratory.KEY = key


@pytest.mark.airflow
@pytest.mark.usefixtures("airflow_database")
def test_runs_of_a_dag_release_a_day_each(lab: StreamLab) -> None:
    with DAG("days", schedule="@daily", start_date=timezone.datetime(2026, 1, 1), catchup=False) as dag:
        operator(lab, task_id="count")
    for day, released in ((2, 24), (2, 0)):
        outcome = run_dag(dag, logical_date=dt.datetime(2026, 1, day, tzinfo=dt.UTC))
        assert states(outcome) == {"count": "success"}
        [instance] = outcome.get_task_instances()
        assert instance.xcom_pull(task_ids="count")["released"] == released
