"""What the operators that run the Spark application have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

from dp_operators.operators.application_secrets import application_secrets
from dp_operators.operators.outlets import with_release_outlets
from dp_operators.operators.runners import check_runner, make_runner
from dp_operators.sensors.budget import require_on_exhausted

if TYPE_CHECKING:
    from dp_operators.releasing import Backend


class ApplicationOperator(BaseOperator):
    """Runs the Spark application for a request that an account pays for; the base of releases and of streams.

    Args:
        request: the fields of the request, or the path of its file.
        others: as for ``ReleaseDiagnosticsOperator``.

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

    def on_kill(self) -> None:
        """End the application; its charge stays reserved, and the next attempt goes on from what is stored."""
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

    def _progress(self, line: str) -> None:
        self.log.info("%s", line)
