"""Looks at an application by its kept handle alone, without the task and the connection that submitted it."""

from __future__ import annotations

from dp_operators.backends.databricks import DatabricksJobs
from dp_operators.backends.kubernetes import KubernetesCluster
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.clusters import StandaloneCluster, YarnCluster
from dp_operators.releasing.processes import PROCESS, ProcessGroups


def look_again(handle: Handle) -> RunState:
    """Whether the application still runs; unknown where only the task's own connection can tell."""
    if handle.backend == PROCESS:
        return ProcessGroups(grace=0).look(handle)
    if handle.backend == StandaloneCluster.kind:
        return StandaloneCluster(master="", rest=handle.place).look(handle)
    if handle.backend == YarnCluster.kind:
        return YarnCluster(resource_manager=handle.place).look(handle)
    if handle.backend == KubernetesCluster.kind:
        return KubernetesCluster(master="").look(handle)
    if handle.backend == DatabricksJobs.kind:
        return DatabricksJobs(connection=handle.place, application="", new_cluster={}).look(handle)
    return RunState.UNKNOWN
