"""Runs of Databricks jobs, submitted, watched and ended through the hook of Airflow's Databricks provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dp_operators.backends.providers import ProviderBackend
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.submissions import Submission


@dataclass(frozen=True, kw_only=True)
class DatabricksJobs(ProviderBackend):
    """Runs the application as a one-time job run, on a new cluster of its own.

    Each submission has an idempotency token: submitting the same run again returns the run that exists.

    ``application`` is where Databricks reads ``spark_jobs/submit/launch.py``: a path of the workspace, a volume or a
    URI. ``new_cluster`` is the specification of the cluster, with its machines, image and Spark version, and
    ``libraries`` lists what is installed on it; ``spark_jobs`` must be in these libraries or in the image.
    """

    kind: ClassVar[str] = "databricks"
    connection_type: ClassVar[str] = "databricks"
    hook: ClassVar[str] = "airflow.providers.databricks.hooks.databricks.DatabricksHook"
    parameter: ClassVar[str] = "databricks_conn_id"
    extra: ClassVar[str] = "databricks"
    required: ClassVar[Mapping[str, type]] = {"application": str, "new_cluster": dict}
    optional: ClassVar[Mapping[str, type]] = {"libraries": list}

    def start(self, submission: Submission) -> Handle:
        """Submit the run, or get the one that was submitted with its token."""
        run = self._hook.submit_run(self._document(submission))
        return Handle(backend=self.kind, id=str(run), place=self.connection)

    def _document(self, submission: Submission) -> dict[str, Any]:
        specification = self.settings["new_cluster"]
        conf = {name: str(value) for name, value in self.conf.items()}
        cluster = {
            **specification,
            "spark_conf": {**specification.get("spark_conf", {}), **conf},
            "spark_env_vars": {**specification.get("spark_env_vars", {}), **submission.variables()},
        }
        task = {
            "task_key": "release",
            "max_retries": 0,  # a retry is the task's, under another run of the ledger
            "new_cluster": cluster,
            "libraries": self.settings.get("libraries", []),
            "spark_python_task": {
                "python_file": self.settings["application"],
                "parameters": submission.arguments(),
            },
        }
        return {
            "run_name": f"dp-diagnostics-{submission.charge_id}",
            "idempotency_token": submission.token,
            "tasks": [task],
        }

    def state(self, handle: Handle) -> RunState:
        """Whether the run has reached a terminal state."""
        return RunState.ENDED if self._hook.get_run_state(int(handle.id)).is_terminal else RunState.RUNNING

    def end(self, handle: Handle) -> None:
        """Cancel the run."""
        self._hook.cancel_run(int(handle.id))
