"""Drivers on a standalone cluster or on YARN, whose state is read, and which are ended, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import requests

from dp_operators.releasing.backends import Handle, RemoteBackend, RunState
from dp_operators.releasing.spark_submit import LAUNCH, ClusterSubmit, properties
from dp_operators.releasing.submissions import Submission
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.table_request import TableRequest

TIMEOUT_SECONDS = 10.0


def call(method: str, url: str, *, document: Mapping[str, Any] | None = None, auth: Any = None) -> Any:
    """Call a server over HTTP, and return the JSON document of its answer.

    Raises:
        OSError: the server cannot be reached, or refuses.
    """
    response = requests.request(method, url, json=document, auth=auth, timeout=TIMEOUT_SECONDS)
    response.raise_for_status()
    try:
        return response.json()
    except ValueError:
        raise OSError(f"{url} answers with no JSON document") from None


@dataclass(frozen=True, kw_only=True)
class StandaloneCluster(RemoteBackend):
    """Runs the driver on a worker of a standalone cluster; the REST server of its master starts the driver.

    ``spark-submit`` refuses Python drivers on such a cluster; the REST server does not, and no Spark is needed on this
    machine. The master must have ``spark.master.rest.enabled``; protect its port, by ``spark.master.rest.filters`` or a
    network of its own, because whoever reaches it runs programs, and sees the run's secret.

    Attributes:
        master: the master's URL, ``spark://HOST:PORT``.
        rest: URL of the master's REST server.
        conf: Spark settings of the application.
        application: path of the script on the workers.
    """

    kind: ClassVar[str] = "standalone"
    idempotent: ClassVar[bool] = False

    master: str
    rest: str
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    application: str = str(LAUNCH)

    def check(self, request: TableRequest) -> None:
        """Check the settings, and that the master's REST server answers.

        Raises:
            InvalidRequest: a setting is not a Spark setting, or the server cannot be reached.
        """
        properties(self.conf)
        try:
            requests.get(f"{self.rest}/v1/submissions/status/none", timeout=TIMEOUT_SECONDS)
        except OSError:
            raise InvalidRequest(
                "deploy_mode", f"cluster, with master {self.master}", f"needs the master's REST server at {self.rest}",
                "set spark.master.rest.enabled for the master, or use client mode",
            ) from None  # fmt: skip

    def start(self, submission: Submission) -> Handle:
        """Ask the master to start the driver."""
        answer = call("POST", f"{self.rest}/v1/submissions/create", document=self._document(submission))
        if not answer.get("success"):
            raise OSError("the master refused the application")
        return Handle(backend=self.kind, id=str(answer["submissionId"]), place=self.rest)

    def _document(self, submission: Submission) -> dict[str, Any]:
        settings = {name: str(value) for name, value in self.conf.items()}
        name = f"dp-diagnostics-{submission.charge_id}"
        return {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": "",
            "appResource": "",
            # the way to start Python that Spark's own documentation of this server gives
            "mainClass": "org.apache.spark.deploy.SparkSubmit",
            # which takes settings from its own command line, while those below make the driver's JVM
            "appArgs": [
                f"--master={self.master}",
                f"--name={name}",
                *(f"--conf={setting}={value}" for setting, value in settings.items()),
                self.application,
                *submission.arguments(),
            ],
            "environmentVariables": submission.variables(),
            "sparkProperties": {
                "spark.master": self.master,
                "spark.app.name": name,
                "spark.submit.deployMode": "cluster",
                "spark.driver.supervise": "false",
                "spark.jars": "",
                **settings,
            },
        }

    def state(self, handle: Handle) -> RunState:
        """Whether the driver still runs, as its master says."""
        state = call("GET", f"{self.rest}/v1/submissions/status/{handle.id}").get("driverState")
        if state in ("SUBMITTED", "RUNNING", "RELAUNCHING"):
            return RunState.RUNNING
        return RunState.ENDED if state in ("FINISHED", "KILLED", "FAILED", "ERROR") else RunState.UNKNOWN

    def end(self, handle: Handle) -> None:
        """Ask the master to end the driver."""
        call("POST", f"{self.rest}/v1/submissions/kill/{handle.id}")


@dataclass(frozen=True, kw_only=True)
class YarnCluster(ClusterSubmit):
    """Runs the driver in YARN's application master, and finds the application by its tag.

    Attributes:
        resource_manager: URL of the resource manager's web address.
        kerberos: whether the resource manager requires Kerberos, for which ``requests-kerberos`` must be installed.
    """

    kind: ClassVar[str] = "yarn"
    environment_prefix: ClassVar[str] = "spark.yarn.appMasterEnv"

    master: str = "yarn"
    resource_manager: str
    kerberos: bool = False

    def handle(self, submission: Submission) -> Handle:
        """The handle of a run's application: its tag."""
        return Handle(backend=self.kind, id=submission.token, place=self.resource_manager)

    def _named(self, submission: Submission) -> dict[str, str]:
        tags = [tag for tag in (self.conf.get("spark.yarn.tags"), submission.token) if tag]
        return {
            "spark.yarn.tags": ",".join(tags),
            "spark.yarn.submit.waitAppCompletion": "false",
            "spark.yarn.maxAppAttempts": "1",  # a retry is the task's, under another run of the ledger
        }

    def exists(self, handle: Handle) -> bool:
        """Whether YARN knows an application with the tag."""
        return bool(self._applications(handle))

    def state(self, handle: Handle) -> RunState:
        """Whether an application with the tag still runs."""
        states = {application["state"] for application in self._applications(handle)}
        if not states:
            return RunState.UNKNOWN
        return RunState.ENDED if states <= {"FINISHED", "FAILED", "KILLED"} else RunState.RUNNING

    def end(self, handle: Handle) -> None:
        """End every application with the tag."""
        for application in self._applications(handle):
            if application["state"] not in ("FINISHED", "FAILED", "KILLED"):
                url = f"{self._apps}/{application['id']}/state"
                call("PUT", url, document={"state": "KILLED"}, auth=self._auth())

    def _applications(self, handle: Handle) -> list[dict[str, Any]]:
        answer = call("GET", f"{self._apps}?applicationTags={handle.id}", auth=self._auth())
        return list((answer.get("apps") or {}).get("app") or [])

    @property
    def _apps(self) -> str:
        url = self.resource_manager if "://" in self.resource_manager else f"http://{self.resource_manager}"
        return f"{url.rstrip('/')}/ws/v1/cluster/apps"

    def _auth(self) -> Any:
        if not self.kerberos:
            return None
        from requests_kerberos import HTTPKerberosAuth

        return HTTPKerberosAuth()

    def check(self, request: TableRequest) -> None:
        """Check that the resource manager can be reached, and what all backends behind ``spark-submit`` need.

        Raises:
            InvalidRequest: something is missing or cannot be used.
        """
        super().check(request)
        try:
            self._auth()
        except ImportError:
            raise InvalidRequest("principal", None, "needs requests-kerberos", "install it beside Airflow") from None
