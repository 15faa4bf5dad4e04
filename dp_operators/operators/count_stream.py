"""The operator that releases the steps of a private count stream."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from dp_operators.hooks.ledger import PrivacyLedgerHook
from dp_operators.links.release import AccountLink, ReportLink
from dp_operators.operators.application import ApplicationOperator
from dp_operators.operators.requests import whole_or_fields
from dp_operators.tasks.constants import is_constant
from dp_operators.tasks.events import StreamEvent
from dp_operators.tasks.intervals import partition_interval, run_interval
from dp_operators.tasks.keys import STREAM, deployment_name, partition_of, release_key
from dp_operators.tasks.metrics import count_event, count_stale
from spark_jobs.contract.completion import leaves_out
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request_documents import load_fields
from spark_jobs.contract.stream_request import StreamRequest, instant
from spark_jobs.contract.written import read_written

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from dp_operators.releasing.stream_attempts import AdvancedStream
    from spark_jobs.contract.store.stream_alarms import StreamAlarms


class CountStreamOperator(ApplicationOperator):
    """Releases, in order, every step of a count stream that has ended and is not released yet; the stream is paid once.

    The first run reserves the cost of all steps. Every run then releases the steps that have ended by the end of its
    interval: the data interval, the partition, or the time since the previous tick; a run without one, such as a manual
    or asset-triggered run, releases all steps that had ended when it was triggered. So runs may be late, repeated,
    skipped, cleared or backfilled, and two may run at once: each step is drawn once and published once.

    The task has the asset of the stream's folder as an outlet, whose event says how far the stream is and what the
    account has left; it has links to the report and to the account, and the metrics of releases.

    No data of the table passes through Airflow: the log shows public stages, and XCom gets ``{"uri", "key", "cost",
    "first", "released", "steps", "finished"}``: ``released`` steps are new, from number ``first`` on, and ``steps`` are
    released in all. With ``monitors``, XCom also gets ``alarms`` over all counts: the number of conditions ``in_force``
    and the ``newest`` alarms (``StreamAlarms``). ``StreamAlarmNotifier`` sends new alarms, and ``StreamAlarmSensor``
    waits for an alarm.

    Every parameter is templated. Give either ``request``, the whole request, or its fields as the other parameters.

    Args:
        account: the ledger account that pays.
        table: the table, with the fields of ``spark_jobs.contract.tables.TableSource``; its snapshot may differ between
            runs, everything else is fixed by the first one.
        time: the column of a row's time, in UTC.
        start: the first instant of the first step, with a time zone.
        step: the length of a step, such as ``1 hour``.
        steps: the number of steps; or ``end``, the instant at which the last step ends.
        end: see ``steps``.
        states: a column whose values are counted separately, and its public keys.
        method: how the counts are released, ``local_level`` (the default) or ``pegasus``, with or without options.
        max_per_step: the contribution bound: the most rows of a unit that are used in one step.
        monitors: conditions that are watched over every count, at each run.
        epsilon: the cost of the whole stream.
        neighbours, unit, where, output, blocks, title, record: as for ``ReleaseDiagnosticsOperator``.
        request: the whole request instead: a dictionary, or the path of a JSON or YAML file.
        until: an instant; steps that end later are left to later runs. By default, the end of the run's interval. An
            instant in the future means now.
        stream: the stream's name; by default the task's. Another name is another stream, which is paid for again.
        runner, master, spark_conn_id, conf, private_dir: as for ``ReleaseDiagnosticsOperator``.
        privacy_ledger_conn_id, deployment, allotment: as for ``ReleaseDiagnosticsOperator``.
        on_exhausted: what to do if the budget does not suffice for the stream when it is reserved: ``wait``, ``fail``
            or ``skip``; by default, the setting of the upstream ``PrivacyBudgetSensor``, or ``fail``.
        deferrable: as for ``ReleaseDiagnosticsOperator``.

    Raises:
        InvalidRequest: on construction, so that the DAG has an import error: a request of constants alone is invalid.
        AirflowFailException: a bad request, an exceeded budget, options that differ from those that were paid for, or
            a state that is lost or is not the one that the ledger recorded; not retried.
        AirflowSkipException, AirflowRescheduleException: an exceeded budget, if ``on_exhausted`` says so.
        AirflowException: the ledger cannot be reached, or the application failed; a retry continues from there.
    """

    template_fields: Sequence[str] = (*ApplicationOperator.template_fields, "until", "stream")
    operator_extra_links: Sequence[BaseOperatorLink] = (ReportLink(), AccountLink())

    def __init__(
        self,
        *,
        account: str | None = None,
        table: Mapping[str, Any] | None = None,
        time: str | None = None,
        start: str | None = None,
        step: str | None = None,
        steps: int | str | None = None,
        end: str | None = None,
        states: Mapping[str, Any] | None = None,
        method: str | Mapping[str, Any] | None = None,
        max_per_step: int | str | None = None,
        monitors: Sequence[Mapping[str, Any]] | None = None,
        epsilon: object = None,
        neighbours: str | None = None,
        unit: Mapping[str, Any] | None = None,
        where: str | None = None,
        output: str | None = None,
        blocks: str | Sequence[str] | None = None,
        title: str | None = None,
        record: str | None = None,
        request: str | Mapping[str, Any] | None = None,
        until: str | None = None,
        stream: str | None = None,
        runner: str = "local",
        master: str | None = None,
        spark_conn_id: str = "spark_default",
        conf: Mapping[str, Any] | None = None,
        private_dir: str | None = None,
        privacy_ledger_conn_id: str = PrivacyLedgerHook.default_conn_name,
        deployment: str | None = None,
        allotment: str | None = None,
        on_exhausted: Literal["wait", "fail", "skip"] | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        fields = {
            "account": account, "table": table, "time": time, "start": start, "step": step, "steps": steps, "end": end,
            "states": states, "method": method, "max_per_step": max_per_step, "monitors": monitors,
            "budget": None if epsilon is None else {"epsilon": epsilon}, "neighbours": neighbours, "unit": unit,
            "where": where, "output": output, "blocks": [blocks] if isinstance(blocks, str) else blocks,
            "title": title, "record": record,
        }  # fmt: skip
        whole = whole_or_fields(request, {name: value for name, value in fields.items() if value is not None})
        super().__init__(
            request=whole, runner=runner, master=master, spark_conn_id=spark_conn_id, conf=conf,
            private_dir=private_dir, privacy_ledger_conn_id=privacy_ledger_conn_id, deployment=deployment,
            allotment=allotment, on_exhausted=on_exhausted, deferrable=deferrable, **kwargs,
        )  # fmt: skip
        self.until = until
        self.stream = stream
        self.released: StreamEvent | None = None

    def check_request(self) -> None:
        """Check the request when the DAG is parsed, if it has no template; a file is read when the task runs."""
        if isinstance(self.request, Mapping) and is_constant(self.request) and not leaves_out(self.request):
            StreamRequest.parse(dict(self.request))

    def _published(self, event: StreamEvent, context: Context) -> dict[str, Any]:
        advanced = event.published
        if advanced.released:
            count_event(event)
            last = advanced.first + advanced.released - 1
            self.log.info("released steps %d to %d, report: %s/report.html", advanced.first, last, advanced.uri)
        return event.to_xcom()

    def _alarms(self, request: StreamRequest, advanced: AdvancedStream) -> StreamAlarms | None:
        """Make the report and the alarms anew if steps were released, log the alarms, and return them."""
        from dp_operators.releasing.stream_views import refresh_report, stream_alarms

        if advanced.released and not refresh_report(advanced.uri):
            self.log.warning("the report and alarms could not be made; the next run makes them, and no step needs them")
        alarms = stream_alarms(advanced.uri) if request.monitors else None
        if alarms is not None and alarms.in_force:
            self.log.warning("%d conditions of monitors hold at step %d", alarms.in_force, alarms.steps - 1)
            for alarm in alarms.begun_from(advanced.first):
                self.log.warning("alarm: %s", alarm.line())
        return alarms

    def _publish(self, context: Context, awaited: int) -> StreamEvent:
        from dp_operators.releasing import ChargedRequest, ReleaseKey, require_no_key_file, with_references
        from dp_operators.releasing.streams import advance_stream

        given = self.request
        fields = load_fields(given) if isinstance(given, str) else dict(given)
        require_no_key_file(fields)
        runner, hook = self._runner(), PrivacyLedgerHook(self.privacy_ledger_conn_id)
        task = release_key(context, deployment=deployment_name(self.deployment, hook))
        key = ReleaseKey(
            deployment=task.deployment,
            dag_id=task.dag_id,
            run=STREAM,
            task_id=self.stream or task.task_id,
            map_index=task.map_index,
        )
        due = due_instant(context, self.until)
        self.log.info("Advancing %s to %s", key, due.isoformat())
        with closing(hook.get_ledger()) as ledger:
            written = read_written(StreamRequest, with_references(fields, ledger))
            charged = ChargedRequest.of(written, ledger, key)
            advanced = advance_stream(
                charged,
                runner=runner,
                until=due,
                allotment=self.allotment or None,
                actor=f"airflow:{task.dag_id}.{task.task_id}",
                progress=self._progress,
                waiting=self._waiting(runner, awaited),
            )
            count_stale(charged.account, ledger)
            alarms = self._alarms(charged.request, advanced)
            self.released = StreamEvent.of(
                charged.request, advanced, ledger, connection=self.privacy_ledger_conn_id, alarms=alarms
            )
        return self.released


def due_instant(context: Context, until: str | None) -> dt.datetime:
    """The instant up to which a run releases steps; never in the future, where rows are still to come.

    Raises:
        InvalidRequest: ``until`` is not an instant, or the run's timetable has ticks outside UTC.
    """
    now = dt.datetime.now(dt.UTC)
    if until:
        return min(instant(until, field="until"), now)
    run = context["dag_run"]
    timetable = getattr(context.get("dag"), "timetable", None)
    interval = partition_interval(run, timetable) if partition_of(run) else run_interval(run, timetable)
    moment = interval[1] if interval else run.run_after
    if moment is None:
        raise InvalidRequest(
            "until",
            None,
            "is required for a run that has no data interval and no run_after",
            "give the moment up to which steps are released",
        )
    return min(moment, now)
