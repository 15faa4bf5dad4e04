"""The backends by the types of their connections, and the state of an application from its stored handle alone."""

from __future__ import annotations

from collections.abc import Mapping

from dp_operators.backends.databricks import DatabricksJobs
from dp_operators.backends.dataproc import DataprocBatches
from dp_operators.backends.emr_serverless import EmrServerless
from dp_operators.backends.kubernetes import KubernetesCluster
from dp_operators.backends.providers import ProviderBackend
from dp_operators.backends.spark_operator import SparkOperator
from dp_operators.releasing.backends import Handle, RunState
from dp_operators.releasing.clusters import StandaloneCluster, YarnCluster
from dp_operators.releasing.processes import PROCESS, ProcessGroups

PROVIDERS: tuple[type[ProviderBackend], ...] = (DatabricksJobs, DataprocBatches, EmrServerless, SparkOperator)
BY_TYPE: Mapping[str, type[ProviderBackend]] = {backend.connection_type: backend for backend in PROVIDERS}
"""The backends behind hooks of other providers, by the types of their connections."""
_BY_KIND = {backend.kind: backend for backend in PROVIDERS}


def look_again(handle: Handle) -> RunState:
    """Whether the application of a stored handle still runs; unknown if only the task's own connection could tell."""
    if handle.backend == PROCESS:
        return ProcessGroups(grace=0).look(handle)
    if handle.backend == StandaloneCluster.kind:
        return StandaloneCluster(master="", rest=handle.place).look(handle)
    if handle.backend == YarnCluster.kind:
        return YarnCluster(resource_manager=handle.place).look(handle)
    if handle.backend == KubernetesCluster.kind:
        return KubernetesCluster(master="").look(handle)
    if handle.backend in _BY_KIND:
        return _BY_KIND[handle.backend](connection=handle.place).look(handle)
    return RunState.UNKNOWN
