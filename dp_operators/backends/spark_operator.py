"""Resources of the Spark operator on Kubernetes, through the hook of Airflow's Kubernetes provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dp_operators.backends.kubernetes import HOOK, unless_missing
from dp_operators.backends.providers import ProviderBackend
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.submissions import Submission

RESOURCE = {"group": "sparkoperator.k8s.io", "version": "v1beta2", "plural": "sparkapplications"}
_OVER = ("COMPLETED", "FAILED")
_EXISTS = 409


@dataclass(frozen=True, kw_only=True)
class SparkOperator(ProviderBackend):
    """Runs the application as a ``SparkApplication``; while it exists, no second one can have its name.

    ``image`` holds ``spark_jobs``; ``application`` is the script's path in it (``local://...``); ``spark_version`` is
    the image's version of Spark. ``driver`` and ``executor`` are further fields of the pods in the resource's own form,
    such as ``serviceAccount``. The operator starts the application once and never again.
    """

    kind: ClassVar[str] = "spark_operator"
    connection_type: ClassVar[str] = "kubernetes"
    hook: ClassVar[str] = HOOK
    parameter: ClassVar[str] = "conn_id"
    extra: ClassVar[str] = "kubernetes"
    required: ClassVar[Mapping[str, type]] = {"application": str, "image": str, "spark_version": str}
    optional: ClassVar[Mapping[str, type]] = {"namespace": str, "driver": dict, "executor": dict}
    environment_prefix: ClassVar[str] = "spark.kubernetes.driverEnv"

    def start(self, submission: Submission) -> Handle:
        """Create the resource, unless this run's exists."""
        namespace = str(self.settings.get("namespace") or self._hook.get_namespace() or "default")
        body = self._document(submission)
        try:
            # not by the hook's own method, which logs what the API server answers
            self._hook.custom_object_client.create_namespaced_custom_object(**RESOURCE, body=body, namespace=namespace)
        except Exception as error:
            if getattr(error, "status", None) != _EXISTS:
                raise
        return Handle(backend=self.kind, id=f"{namespace}/{submission.token}", place=self.connection)

    def _document(self, submission: Submission) -> dict[str, Any]:
        return {
            "apiVersion": f"{RESOURCE['group']}/{RESOURCE['version']}",
            "kind": "SparkApplication",
            "metadata": {"name": submission.token},
            "spec": {
                "type": "Python",
                "pythonVersion": "3",
                "mode": "cluster",
                "sparkVersion": self.settings["spark_version"],
                "image": self.settings["image"],
                "mainApplicationFile": self.settings["application"],
                "arguments": submission.arguments(),
                # a retry is the task's, under another run of the ledger
                "restartPolicy": {"type": "Never"},
                "driver": self.settings.get("driver", {}),
                "executor": self.settings.get("executor", {}),
                "sparkConf": self.spark_settings(submission),
            },
        }

    def state(self, handle: Handle) -> RunState:
        """Whether the application still runs, as the operator reports; a deleted resource counts as ended."""
        resource = None
        with unless_missing():
            resource = self._hook.get_custom_object(**RESOURCE, **_named(handle))
        if resource is None:
            return RunState.ENDED
        state = resource.get("status", {}).get("applicationState", {}).get("state", "")
        if state == "UNKNOWN":
            return RunState.UNKNOWN
        return RunState.ENDED if state in _OVER else RunState.RUNNING

    def end(self, handle: Handle) -> None:
        """Delete the resource, and with it the driver's pod and its executors."""
        with unless_missing():
            self._hook.delete_custom_object(**RESOURCE, **_named(handle))


def _named(handle: Handle) -> dict[str, str]:
    namespace, name = handle.id.split("/")
    return {"namespace": namespace, "name": name}
