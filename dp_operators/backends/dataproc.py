"""Batches of Google's Dataproc, submitted, watched and ended through the hook of Airflow's Google provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dp_operators.backends.providers import ProviderBackend
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.submissions import Submission

_OVER = ("SUCCEEDED", "FAILED", "CANCELLED")
_EXISTS = 409


@dataclass(frozen=True, kw_only=True)
class DataprocBatches(ProviderBackend):
    """Runs the application as a serverless batch; Dataproc refuses a second batch with the same name.

    ``application`` is the URI of ``spark_jobs/submit/launch.py``; ``region`` is where it runs; ``image`` is the
    container image, which holds ``spark_jobs``; ``version`` is the runtime's; ``environment`` is the batch's
    ``environment_config``, such as its service account and network.
    """

    kind: ClassVar[str] = "dataproc"
    connection_type: ClassVar[str] = "google_cloud_platform"
    hook: ClassVar[str] = "airflow.providers.google.cloud.hooks.dataproc.DataprocHook"
    parameter: ClassVar[str] = "gcp_conn_id"
    extra: ClassVar[str] = "dataproc"
    required: ClassVar[Mapping[str, type]] = {"application": str, "project": str, "region": str, "image": str}
    optional: ClassVar[Mapping[str, type]] = {"version": str, "environment": dict}
    environment_prefix: ClassVar[str] = "spark.dataproc.driverEnv"

    def start(self, submission: Submission) -> Handle:
        """Create the batch, unless this run's exists."""
        region = self.settings["region"]
        parent = f"projects/{self.settings['project']}/locations/{region}"
        name = f"{parent}/batches/{submission.token}"
        request = {
            "parent": parent,
            "batch": self._document(submission),
            "batch_id": submission.token,
            "request_id": submission.token.removeprefix("dp-"),  # of at most 40 letters and digits
        }
        client = self._hook.get_batch_client(region)
        try:
            # not by the hook's own method, which logs what is submitted
            client.create_batch(request=request)
        except Exception as error:
            if getattr(error, "code", None) != _EXISTS:
                raise
            client.get_batch(request={"name": name})  # raises if it was another conflict
        return Handle(backend=self.kind, id=name, place=self.connection)

    def _document(self, submission: Submission) -> dict[str, Any]:
        runtime = {"container_image": self.settings["image"], "properties": self.spark_settings(submission)}
        version = {"version": self.settings["version"]} if "version" in self.settings else {}
        return {
            "pyspark_batch": {
                "main_python_file_uri": self.settings["application"],
                "args": submission.arguments(),
            },
            "runtime_config": {**version, **runtime},
            "environment_config": self.settings.get("environment", {}),
        }

    def state(self, handle: Handle) -> RunState:
        """Whether the batch has reached a terminal state."""
        return RunState.ENDED if self._batch(handle).state.name in _OVER else RunState.RUNNING

    def end(self, handle: Handle) -> None:
        """Cancel the batch's operation."""
        batch = self._batch(handle)
        if batch.state.name not in _OVER:
            self._client(handle).cancel_operation(request={"name": batch.operation})

    def _batch(self, handle: Handle) -> Any:
        return self._client(handle).get_batch(request={"name": handle.id})

    def _client(self, handle: Handle) -> Any:
        region = handle.id.split("/")[3]
        return self._hook.get_batch_client(region)
