"""What the operators that run the Spark application have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dp_operators.configuration import default_deferrable
from dp_operators.operators.application_secrets import application_secrets
from dp_operators.operators.exhausted import budget_may_be_exhausted
from dp_operators.operators.outlets import record_event, with_release_outlets
from dp_operators.sensors.budget import require_on_exhausted
from dp_operators.tasks.errors import as_airflow_errors
from dp_operators.tasks.metrics import refusals_counted
from dp_operators.tasks.rendering import TextTemplates
from dp_operators.tasks.runners import check_runner, make_runner
from dp_operators.triggers.application import ApplicationTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from dp_operators.releasing import Backend, Waiting


class ApplicationOperator(TextTemplates):
    """Runs the Spark application for a request that an account pays for; the base of releases and of streams.

    Args:
        request: the fields of the request, or the path of its file.
        others: the parameters of ``ReleaseDiagnosticsOperator`` that do not belong to the request.

    Raises:
        InvalidRequest: a constant is wrong for all values of the templates.
    """

    template_fields: Sequence[str] = (
        "request",
        "runner",
        "master",
        "spark_conn_id",
        "conf",
        "private_dir",
        "privacy_ledger_conn_id",
        "deployment",
        "allotment",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {"request": "json", "conf": "json"}
    ui_color = "#dfe9f5"

    def __init__(
        self,
        *,
        request: str | Mapping[str, Any],
        runner: str,
        master: str | None,
        spark_conn_id: str,
        conf: Mapping[str, Any] | None,
        private_dir: str | None,
        privacy_ledger_conn_id: str,
        deployment: str | None,
        allotment: str | None,
        on_exhausted: str | None,
        deferrable: bool | None,
        **kwargs: Any,
    ) -> None:
        if not self._created_by_mapping:  # Airflow knows the outlets of mapped tasks from `partial`
            given = kwargs.get("outlets", (kwargs.get("default_args") or {}).get("outlets"))
            kwargs["outlets"] = with_release_outlets(given, request)
        super().__init__(**kwargs)
        # one attribute holds all fields, because `label` and `output` are attributes of every Airflow task
        self.request = request
        if not self._created_by_mapping:
            self.check_request()
            check_runner(runner, master=master, conf=conf)
        if on_exhausted is not None:
            require_on_exhausted(on_exhausted)
        self.runner = runner
        self.master = master
        self.spark_conn_id = spark_conn_id
        self.conf = conf
        self.private_dir = private_dir
        self.privacy_ledger_conn_id = privacy_ledger_conn_id
        self.deployment = deployment
        self.allotment = allotment
        self.on_exhausted = on_exhausted
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        self._ended = False

    @property
    def _created_by_mapping(self) -> bool:
        """Whether a mapped task created this operator at run time, so that errors are raised in ``execute``."""
        return bool(getattr(self, "_BaseOperator__from_mapped", False))

    def check_request(self) -> None:
        """Check the constants of the request when the DAG is parsed; a file is read when the task runs.

        Raises:
            InvalidRequest: a constant is wrong for all values of the templates.
        """
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish what is due, or return what an earlier attempt of this task has published."""
        return self._attempt(context, awaited=0)

    def resume(self, context: Context, event: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Continue the release when the trigger reports that the application has ended."""
        return self._attempt(context, awaited=int((event or {}).get("run", 0)))

    def _attempt(self, context: Context, *, awaited: int) -> dict[str, Any]:
        from dp_operators.releasing import ApplicationRuns

        try:
            with as_airflow_errors(), budget_may_be_exhausted(self, context, self.on_exhausted), refusals_counted():
                event = self._publish(context, awaited)
        except ApplicationRuns as running:
            self.log.info("%s; the triggerer looks at it, and this task goes on when it has ended", running)
            self.defer(
                trigger=ApplicationTrigger(
                    runner=self.runner,
                    spark_conn_id=self.spark_conn_id,
                    handle=asdict(running.handle),
                    run=running.run,
                ),
                method_name="resume",
            )
        record_event(event, self.outlets, context)
        return self._published(event, context)

    def _publish(self, context: Context, awaited: int) -> Any:
        """Publish, and say what was published; ``awaited`` is the number of the run that the task has waited for.

        Raises:
            ApplicationRuns: the application runs elsewhere, and the task is to wait without its worker.
        """
        raise NotImplementedError

    def _published(self, event: Any, context: Context) -> dict[str, Any]:
        """Count and log what was published, and return what XCom gets."""
        raise NotImplementedError

    def on_kill(self) -> None:
        """End the application; its charge stays reserved, and the next attempt continues from what is stored."""
        self._ended = True

    def _runner(self) -> Backend:
        from dp_operators.releasing.runners import ProcessRunner

        runner = make_runner(
            self.runner,
            master=self.master,
            spark_conn_id=self.spark_conn_id,
            conf=self.conf,
            private_dir=self.private_dir,
        )
        if not isinstance(runner, ProcessRunner) or runner.elsewhere:
            return runner
        return replace(runner, environment={**runner.environment, **application_secrets()})

    def _waiting(self, runner: Backend, awaited: int) -> Waiting:
        from dp_operators.releasing import Waiting

        if self.deferrable and not runner.elsewhere:
            self.log.info("the driver runs on this machine: the task is not deferred, but waits for it in its slot")
        return Waiting(here=not self.deferrable, awaited=awaited, stopped=lambda: self._ended)

    def _progress(self, line: str) -> None:
        self.log.info("%s", line)
