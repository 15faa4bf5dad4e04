"""Job runs of Amazon EMR Serverless, submitted, watched and ended through the hook of Airflow's Amazon provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dp_operators.backends.providers import ProviderBackend
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.submissions import Submission

_OVER = ("SUCCESS", "FAILED", "CANCELLED")
_UNKEPT = {"managedPersistenceMonitoringConfiguration": {"enabled": False}}
"""By default the service keeps what the driver prints, which may quote rows, for a month."""


@dataclass(frozen=True, kw_only=True)
class EmrServerless(ProviderBackend):
    """Runs the application as a job run of an EMR Serverless application.

    Each submission has an idempotency token: submitting the same run again returns the job run that exists.

    ``application_id`` names the EMR application, which defines the image; ``execution_role`` is the ARN of the role
    that reads the table and writes the output; ``application`` is the URI of ``spark_jobs/submit/launch.py``;
    ``monitoring`` says where logs go, in EMR's own form (``monitoringConfiguration``); by default no logs are kept.
    """

    kind: ClassVar[str] = "emr_serverless"
    connection_type: ClassVar[str] = "aws"
    hook: ClassVar[str] = "airflow.providers.amazon.aws.hooks.emr.EmrServerlessHook"
    parameter: ClassVar[str] = "aws_conn_id"
    extra: ClassVar[str] = "emr"
    required: ClassVar[Mapping[str, type]] = {"application": str, "application_id": str, "execution_role": str}
    optional: ClassVar[Mapping[str, type]] = {"monitoring": dict}
    environment_prefix: ClassVar[str] = "spark.emr-serverless.driverEnv"

    def start(self, submission: Submission) -> Handle:
        """Start the job run, or get the one that was started with its token."""
        defaults = {"classification": "spark-defaults", "properties": self.spark_settings(submission)}
        run = self._hook.conn.start_job_run(
            applicationId=self.settings["application_id"],
            clientToken=submission.token,
            executionRoleArn=self.settings["execution_role"],
            name=f"dp-diagnostics-{submission.charge_id}",
            jobDriver={
                "sparkSubmit": {
                    "entryPoint": self.settings["application"],
                    "entryPointArguments": submission.arguments(),
                }
            },
            configurationOverrides={
                "applicationConfiguration": [defaults],
                "monitoringConfiguration": self.settings.get("monitoring", _UNKEPT),
            },
            mode="BATCH",
            retryPolicy={"maxAttempts": 1},  # a retry is the task's, under another run of the ledger
        )
        return Handle(backend=self.kind, id=f"{run['applicationId']}/{run['jobRunId']}", place=self.connection)

    def state(self, handle: Handle) -> RunState:
        """Whether the job run has reached a terminal state."""
        run = self._hook.conn.get_job_run(**_names(handle))["jobRun"]
        return RunState.ENDED if run["state"] in _OVER else RunState.RUNNING

    def end(self, handle: Handle) -> None:
        """Cancel the job run; EMR refuses to cancel one that has ended."""
        if self.state(handle) is RunState.RUNNING:
            self._hook.conn.cancel_job_run(**_names(handle))


def _names(handle: Handle) -> dict[str, str]:
    application, run = handle.id.split("/")
    return {"applicationId": application, "jobRunId": run}
