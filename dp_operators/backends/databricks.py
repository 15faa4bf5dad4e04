"""Runs of Databricks jobs, submitted, looked at and ended through the hook of Airflow's Databricks provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dp_operators.backends.providers import hook_of
from dp_operators.releasing.backends import Handle, RemoteBackend, RunState
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from airflow.sdk import Connection

HOOK = "airflow.providers.databricks.hooks.databricks.DatabricksHook"
EXTRA = "dp_diagnostics"
"""The extra of a connection that says how to run the application; the others are the provider's."""
REQUIRED, OPTIONAL = ("application", "new_cluster"), ("libraries",)


@dataclass(frozen=True, kw_only=True)
class DatabricksJobs(RemoteBackend):
    """Runs the application as a one-time job run, on a new cluster of its own.

    Databricks takes a token with a submission: the same run, submitted again, is the run of the first time. The run's
    secret is among the environment variables of its cluster: whoever may see the cluster's specification is inside the
    privacy boundary.

    Attributes:
        connection: the connection of type ``databricks``.
        application: where Databricks reads ``spark_jobs/submit/launch.py``: a path of the workspace, a volume or a URI.
        new_cluster: the specification of the cluster, with its machines, memory and Spark version.
        libraries: what is installed on it; ``spark_jobs`` must be, or be in its image.
        conf: Spark settings, which override those of ``new_cluster``.
    """

    kind: ClassVar[str] = "databricks"

    connection: str
    application: str
    new_cluster: Mapping[str, Any] = field(repr=False)
    libraries: tuple[Mapping[str, Any], ...] = ()
    conf: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, connection: Connection, *, conf: Mapping[str, Any]) -> Self:
        """The backend of a connection.

        Raises:
            InvalidRequest: its extra does not say how to run the application.
        """
        extra = connection.extra_dejson.get(EXTRA)
        given: dict[str, Any] = extra if isinstance(extra, dict) else {}
        known = set(given)
        if not set(REQUIRED) <= known <= {*REQUIRED, *OPTIONAL}:
            raise InvalidRequest(
                f"connection {connection.conn_id}",
                requirement=f"must have the extra {EXTRA} with {' and '.join(REQUIRED)}, and at most libraries besides",
                remedy="add it to the connection",
            )
        libraries = tuple(given.get("libraries", ()))
        return cls(
            connection=str(connection.conn_id),
            application=given["application"],
            new_cluster=given["new_cluster"],
            libraries=libraries,
            conf=conf,
        )

    @cached_property
    def _hook(self) -> Any:
        return hook_of(HOOK, extra="databricks", databricks_conn_id=self.connection)

    def check(self, request: TableRequest) -> None:
        """Check that the provider is installed.

        Raises:
            InvalidRequest: it is not.
        """
        _ = self._hook

    def start(self, submission: Submission) -> Handle:
        """Submit the run, or get the one that was submitted with its token."""
        run = self._hook.submit_run(self._document(submission))
        return Handle(backend=self.kind, id=str(run), place=self.connection)

    def _document(self, submission: Submission) -> dict[str, Any]:
        cluster = {
            **self.new_cluster,
            "spark_conf": {
                **self.new_cluster.get("spark_conf", {}),
                **{name: str(value) for name, value in self.conf.items()},
            },
            "spark_env_vars": {**self.new_cluster.get("spark_env_vars", {}), **submission.variables()},
        }
        task = {
            "task_key": "release",
            "max_retries": 0,  # a retry is the task's, under another run of the ledger
            "new_cluster": cluster,
            "libraries": list(self.libraries),
            "spark_python_task": {"python_file": self.application, "parameters": submission.arguments()},
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
