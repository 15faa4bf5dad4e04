"""Drivers in pods of Kubernetes, watched and ended through the hook of Airflow's Kubernetes provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from dp_operators.backends.providers import hook_of
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.spark_submit import ClusterSubmit
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.table_request import TableRequest

HOOK = "airflow.providers.cncf.kubernetes.hooks.kubernetes.KubernetesHook"
CONNECTION = "kubernetes_default"
"""The provider's default: without such a connection, it takes the pod's own account, or the default kubeconfig."""
_OVER = ("Succeeded", "Failed")
_MISSING = 404


@contextmanager
def unless_missing() -> Iterator[None]:
    """Ignore the API server's answer that there is no such object; other errors pass through."""
    try:
        yield
    except Exception as error:
        if getattr(error, "status", None) != _MISSING:
            raise


@dataclass(frozen=True, kw_only=True)
class KubernetesCluster(ClusterSubmit):
    """Starts the driver in a Kubernetes pod by ``spark-submit``; the pod's name keeps a second driver from starting.

    Attributes:
        connection: the connection of type ``kubernetes`` through which pods are watched and deleted.
    """

    kind: ClassVar[str] = "kubernetes"
    environment_prefix: ClassVar[str] = "spark.kubernetes.driverEnv"

    connection: str = CONNECTION

    def check(self, request: TableRequest) -> None:
        """Check that the provider is installed, besides what all backends behind ``spark-submit`` need.

        Raises:
            InvalidRequest: something is missing or cannot be used.
        """
        super().check(request)
        _ = self._hook

    @cached_property
    def _hook(self) -> Any:
        return hook_of(HOOK, extra="kubernetes", conn_id=self.connection)

    @property
    def namespace(self) -> str:
        """The namespace of the driver's pod."""
        return str(self.conf.get("spark.kubernetes.namespace", "default"))

    def handle(self, submission: Submission) -> Handle:
        """The handle of a run's application: the name of its driver's pod."""
        return Handle(backend=self.kind, id=submission.token, place=self.namespace)

    def _named(self, submission: Submission) -> dict[str, str]:
        return {
            "spark.kubernetes.driver.pod.name": submission.token,
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }

    def exists(self, handle: Handle) -> bool:
        """Whether the driver's pod is there."""
        return self._phase(handle) is not None

    def state(self, handle: Handle) -> RunState:
        """Whether the driver's pod still runs; a pod that was deleted does not."""
        phase = self._phase(handle)
        return RunState.ENDED if phase is None or phase in _OVER else RunState.RUNNING

    def end(self, handle: Handle) -> None:
        """Delete the driver's pod, and with it its executors."""
        with unless_missing():
            self._hook.core_v1_client.delete_namespaced_pod(name=handle.id, namespace=handle.place)

    def _phase(self, handle: Handle) -> str | None:
        pod = None
        with unless_missing():
            pod = self._hook.get_pod(handle.id, handle.place)
        return None if pod is None else str(pod.status.phase)
