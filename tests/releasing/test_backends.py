"""Each backend that needs no provider of Airflow keeps the contract of backends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dp_operators.releasing import Handle, LocalRunner, SparkSubmitRunner
from dp_operators.releasing.clusters import StandaloneCluster, YarnCluster
from dp_operators.releasing.spark_connect import SparkConnectRunner
from dp_operators.releasing.spark_submit import LAUNCH
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE
from tests.suites.backends import SECRET, SUBMISSION, BackendContract, Started, eventually
from tests.support.http_places import Master, ResourceManager

SLEEPER = """
import json, os, sys, time
report = {"argv": sys.argv[1:], "environ": dict(os.environ)}
path = os.path.join(os.environ["PROBE"], str(os.getpid()))
with open(path + ".new", "w") as file:
    json.dump(report, file)
os.rename(path + ".new", path + ".json")
while not os.path.exists(os.path.join(os.environ["PROBE"], "end")):
    time.sleep(0.02)
"""

HANDING_OVER = """
import json, os, sys, urllib.request
[path] = [word.partition("=")[2] for word in sys.argv if word.startswith("--properties-file=")]
settings = open(path).read()
with open(os.path.join(os.environ["PROBE"], f"{os.getpid()}.json"), "w") as file:
    json.dump({"argv": sys.argv[1:], "settings": settings, "environ": dict(os.environ)}, file)
if os.path.exists(os.path.join(os.environ["PROBE"], "fails")):
    sys.exit(1)
[tags] = [line.partition("=")[2] for line in settings.splitlines() if line.startswith("spark.yarn.tags=")]
urllib.request.urlopen(os.environ["MANAGER"], json.dumps(tags).encode(), timeout=30)
"""


def script(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


class ProcessPlace:
    """This machine; the application is a script that waits to be ended."""

    def __init__(self, folder: Path, *, submitted: bool) -> None:
        self.folder = folder
        self.submitted = submitted
        self.program = script(folder / "spark-submit", SLEEPER)

    def backend(self) -> LocalRunner | SparkSubmitRunner:
        given = {"environment": {"PROBE": str(self.folder)}, "private_dir": self.folder / "private", "grace": 5.0}
        if self.submitted:
            return SparkSubmitRunner(master="spark://host:7077", binary=self.program, **given)
        return LocalRunner(command=[self.program], **given)

    def started(self) -> list[Started]:
        read = [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]
        argv = [report["argv"] for report in read]
        before = str(LAUNCH)
        return [
            Started(
                arguments=words[words.index(before) + 1 :] if before in words else words, variables=report["environ"]
            )
            for words, report in zip(argv, read, strict=True)
        ]

    def end(self, handle: Handle) -> None:
        self.end_all()

    def end_all(self) -> None:
        (self.folder / "end").touch()

    def cut(self) -> None:
        raise AssertionError("this machine is always there")


class TestLocalProcess(BackendContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[ProcessPlace]:
        place = ProcessPlace(tmp_path, submitted=False)
        yield place
        place.end_all()


class ConnectPlace(ProcessPlace):
    """This machine with a server of Spark Connect, to which the application's process talks."""

    def backend(self) -> SparkConnectRunner:
        environment = {"PROBE": str(self.folder)}
        private, remote = self.folder / "private", "sc://server:15002/;token=key-of-the-server"
        return SparkConnectRunner(
            remote=remote, command=[self.program], environment=environment, private_dir=private, grace=5.0
        )


class TestSparkConnect(BackendContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[ConnectPlace]:
        place = ConnectPlace(tmp_path, submitted=False)
        yield place
        place.end_all()

    def test_servers_token_is_in_the_environment_of_the_application_alone(self, place: ConnectPlace) -> None:
        backend = place.backend()
        handle = backend.submit(SUBMISSION)
        eventually(lambda: len(place.started()) == 1)
        [started] = place.started()
        assert started.variables["SPARK_REMOTE"].endswith(";token=key-of-the-server")
        assert "key-of-the-server" not in "".join([repr(backend), str(handle), *started.arguments])
        backend.kill(handle)


class TestSparkSubmitOnThisMachine(BackendContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[ProcessPlace]:
        place = ProcessPlace(tmp_path, submitted=True)
        yield place
        place.end_all()


class MasterPlace:
    """A standalone master's REST server."""

    def __init__(self) -> None:
        self.master = Master()

    def backend(self) -> StandaloneCluster:
        return StandaloneCluster(
            master="spark://host:7077", rest=self.master.server.url, conf={"spark.driver.memory": "1g"}
        )

    def started(self) -> list[Started]:
        return [
            Started(
                arguments=asked["appArgs"][asked["appArgs"].index(str(LAUNCH)) + 1 :],
                variables=asked["environmentVariables"],
            )
            for asked in self.master.created
        ]

    def end(self, handle: Handle) -> None:
        self.master.drivers[handle.id] = "FINISHED"

    def end_all(self) -> None:
        self.master.drivers = dict.fromkeys(self.master.drivers, "FINISHED")

    def cut(self) -> None:
        self.master.server.close()


class TestStandaloneCluster(BackendContract):
    @pytest.fixture
    def place(self) -> MasterPlace:
        return MasterPlace()

    def test_settings_and_script_reach_the_master(self, place: MasterPlace) -> None:
        place.backend().submit(SUBMISSION)
        [asked] = place.master.created
        assert asked["appArgs"][:2] == ["--master=spark://host:7077", "--name=dp-diagnostics-c1"]
        assert asked["appArgs"][2:4] == ["--conf=spark.driver.memory=1g", str(LAUNCH)]
        assert asked["sparkProperties"]["spark.driver.memory"] == "1g"
        assert asked["sparkProperties"]["spark.driver.supervise"] == "false"


class YarnPlace:
    """A resource manager, and a ``spark-submit`` that hands applications to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manager = ResourceManager()
        self.program = script(folder / "spark-submit", HANDING_OVER)

    def backend(self) -> YarnCluster:
        return YarnCluster(
            resource_manager=self.manager.server.url,
            binary=self.program,
            conf={"spark.yarn.tags": "team"},
            application="local:///opt/launch.py",
            environment={"PROBE": str(self.folder), "MANAGER": f"{self.manager.server.url}{self.manager.SUBMITTED}"},
            private_dir=self.folder / "private",
        )

    def reports(self) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"), key=os.path.getmtime)]

    def started(self) -> list[Started]:
        made = []
        for report in self.reports():
            words, prefix = report["argv"], "spark.yarn.appMasterEnv."
            pairs = [line.split("=", 1) for line in report["settings"].splitlines()]
            made.append(
                Started(
                    arguments=words[words.index("local:///opt/launch.py") + 1 :],
                    variables={name.removeprefix(prefix): value for name, value in pairs if name.startswith(prefix)},
                )
            )
        return made

    def end(self, handle: Handle) -> None:
        self.end_all()

    def end_all(self) -> None:
        for application in self.manager.applications.values():
            application["state"] = "FINISHED"

    def cut(self) -> None:
        (self.folder / "fails").touch()
        self.manager.server.close()


class TestYarnCluster(BackendContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> YarnPlace:
        return YarnPlace(tmp_path)

    def test_secret_reaches_the_driver_through_the_private_file_alone_which_is_removed(self, place: YarnPlace) -> None:
        place.backend().submit(SUBMISSION)
        [report] = place.reports()
        assert f"spark.yarn.appMasterEnv.{RUN_SECRET_VARIABLE}={SECRET.hex()}\n" in report["settings"]
        assert "spark.yarn.submit.waitAppCompletion=false\n" in report["settings"]
        assert "spark.yarn.maxAppAttempts=1\n" in report["settings"]
        assert f"spark.yarn.tags=team,{SUBMISSION.token}\n" in report["settings"]
        assert SECRET.hex() not in "".join([*report["argv"], *report["environ"].values()])
        assert not list((place.folder / "private").glob("*.conf"))
        assert "--deploy-mode=cluster" in report["argv"]
        assert "PYSPARK_DRIVER_PYTHON" not in report["environ"] or "PYSPARK_DRIVER_PYTHON" in os.environ

    def test_application_that_was_not_accepted_is_an_error(self, place: YarnPlace) -> None:
        (place.folder / "fails").touch()
        with pytest.raises(OSError, match="spark-submit failed"):
            place.backend().submit(SUBMISSION)


def test_standalone_master_without_its_rest_server_is_refused_before_the_charge(tmp_path: Path) -> None:
    from tests.support.release_lab import make_request

    place = MasterPlace()
    place.backend().check(make_request(str(tmp_path)))
    place.cut()
    with pytest.raises(InvalidRequest, match="deploy_mode: got 'cluster, with master spark://host:7077'; needs the"):
        place.backend().check(make_request(str(tmp_path)))
