"""Drivers in pods: the hook's calls are those of the Kubernetes provider, and pods those of its client."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest

from dp_operators.backends import kubernetes
from dp_operators.backends.kubernetes import KubernetesCluster
from dp_operators.releasing import Handle
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE
from tests.suites.backends import SECRET, SUBMISSION, BackendContract, Started
from tests.support.provider_hooks import autospecced, client_class
from tests.support.release_lab import make_request

SUBMIT = """
import json, os, sys
[path] = [word.partition("=")[2] for word in sys.argv if word.startswith("--properties-file=")]
settings = dict(line.split("=", 1) for line in open(path).read().splitlines())
if os.path.exists(os.path.join(os.environ["PROBE"], "fails")):
    sys.exit(1)
name = os.path.join(os.environ["PROBE"], settings["spark.kubernetes.driver.pod.name"] + ".json")
try:
    with open(name, "x") as file:
        json.dump({"argv": sys.argv[1:], "settings": settings, "environ": dict(os.environ)}, file)
except FileExistsError:
    sys.exit(1)
"""


class Pods:
    """The pods of a cluster, behind an instance of the provider's hook, and a ``spark-submit`` that makes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ended: dict[str, str | None] = {}
        self.hook = autospecced(kubernetes.HOOK)
        self.hook.get_pod.side_effect = self._get
        self.hook.core_v1_client = create_autospec(client_class("kubernetes.client.CoreV1Api"), instance=True)
        self.hook.core_v1_client.delete_namespaced_pod.side_effect = self._delete
        self.program = folder / "spark-submit"
        self.program.write_text(f"#!{sys.executable}\n{SUBMIT}")
        self.program.chmod(0o755)

    def _get(self, name: str, namespace: str) -> Any:
        assert namespace == "analytics"
        client = client_class("kubernetes.client.V1Pod").__module__ and __import__("kubernetes").client
        if (self.folder / "fails").exists():
            raise client.ApiException(status=503)
        if self.ended.get(name, "") is None or not (self.folder / f"{name}.json").exists():
            raise client.ApiException(status=404)
        return client.V1Pod(status=client.V1PodStatus(phase=self.ended.get(name, "Running")))

    def _delete(self, *, name: str, namespace: str) -> None:
        self._get(name, namespace)
        self.ended[name] = None

    def backend(self) -> KubernetesCluster:
        made = KubernetesCluster(
            master="k8s://https://cluster:6443",
            binary=str(self.program),
            conf={"spark.kubernetes.namespace": "analytics", "spark.kubernetes.container.image": "dp-spark"},
            application="local:///opt/launch.py",
            environment={"PROBE": str(self.folder)},
            private_dir=self.folder / "private",
        )
        made.__dict__["_hook"] = self.hook
        return made

    def started(self) -> list[Started]:
        read = [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"), key=os.path.getmtime)]
        prefix = "spark.kubernetes.driverEnv."
        return [
            Started(
                arguments=report["argv"][report["argv"].index("local:///opt/launch.py") + 1 :],
                variables={name.removeprefix(prefix): value for name, value in report["settings"].items()},
            )
            for report in read
        ]

    def end(self, handle: Handle) -> None:
        self.ended[handle.id] = "Succeeded"

    def end_all(self) -> None:
        self.ended = {path.stem: "Succeeded" for path in self.folder.glob("*.json")}

    def cut(self) -> None:
        (self.folder / "fails").touch()


class TestKubernetesCluster(BackendContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Pods:
        return Pods(tmp_path)

    def test_secret_reaches_the_driver_through_the_private_file_alone(self, place: Pods) -> None:
        place.backend().submit(SUBMISSION)
        [report] = [json.loads(path.read_text()) for path in place.folder.glob("*.json")]
        assert report["settings"][f"spark.kubernetes.driverEnv.{RUN_SECRET_VARIABLE}"] == SECRET.hex()
        assert report["settings"]["spark.kubernetes.submission.waitAppCompletion"] == "false"
        assert report["settings"]["spark.kubernetes.container.image"] == "dp-spark"
        assert SECRET.hex() not in "".join([*report["argv"], *report["environ"].values()])

    def test_hook_is_made_with_the_connection(self, place: Pods) -> None:
        backend = KubernetesCluster(master="k8s://https://cluster", connection="pods")
        assert backend._hook.conn_id == "pods"


def test_missing_provider_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, kubernetes.HOOK.rpartition(".")[0], None)
    backend = KubernetesCluster(master="k8s://https://cluster", binary="/bin/true", private_dir=tmp_path / "private")
    with pytest.raises(InvalidRequest) as refused:
        backend.check(make_request(str(tmp_path)))
    assert str(refused.value) == (
        "spark_conn_id: needs the provider of cncf.kubernetes; install airflow-provider-dp-diagnostics[kubernetes]"
    )
