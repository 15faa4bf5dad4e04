"""A driver on a real standalone cluster: started by the master's REST server, looked at, and ended there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dp_operators.releasing import RunState
from dp_operators.releasing.clusters import StandaloneCluster
from spark_jobs.application.java import java_home
from spark_jobs.contract import InvalidRequest
from tests.suites.backends import SUBMISSION, eventually
from tests.support.cluster import LOOPBACK, kill_group, wait_for
from tests.support.release_lab import Lab, judge, make_request

pytestmark = [pytest.mark.cluster, pytest.mark.verify, pytest.mark.slow]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A master with its REST server and a worker; Spark allows no shared secret beside that server."""
    (tmp_path / "conf").mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "JAVA_HOME": str(java_home()),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_CONF_DIR": str(tmp_path / "conf"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=true -Dspark.master.rest.port=0",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        log = tmp_path / f"{name}.log"
        command = ["spark-class", f"org.apache.spark.deploy.{name.lower()}.{name}", *arguments, "--webui-port", "0"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        started.append(process)
        return process, log

    try:
        master = start("Master", "--host", LOOPBACK, "--port", "0")
        port = wait_for(r"Starting Spark master at spark://127\.0\.0\.1:(\d+)", *master)
        rest = wait_for(r"REST server for submitting applications on \S+ with port (\d+)", *master)
        url = f"spark://{LOOPBACK}:{port}"
        folder = tmp_path / "work"
        worker = start("Worker", "--host", LOOPBACK, "--work-dir", str(folder), "--cores", "2", "--memory", "3g", url)
        wait_for(r"(Successfully registered with master)", *worker)
        yield StandaloneCluster(
            master=url,
            rest=f"http://{LOOPBACK}:{rest}",
            conf={"spark.driver.memory": "1g", "spark.executor.memory": "512m", "spark.cores.max": "1"},
        )
    finally:
        for process in started:
            kill_group(process)


def test_driver_is_seen_until_it_is_ended_by_its_handle(backend: StandaloneCluster, tmp_path: Path) -> None:
    script = tmp_path / "sleeps.py"
    script.write_text("import time\ntime.sleep(600)\n")
    sleeping = replace(backend, application=str(script))
    backend.check(make_request(str(tmp_path)))
    handle = sleeping.submit(SUBMISSION)
    time.sleep(5)
    assert backend.look(handle) is RunState.RUNNING
    assert backend.look(replace(handle, id="driver-unknown")) is RunState.UNKNOWN
    backend.kill(handle)
    eventually(lambda: backend.look(handle) is RunState.ENDED, 60)
    backend.kill(handle)


def test_request_that_only_spark_can_refuse_is_refused_by_a_driver_on_the_cluster(
    lab: Lab, backend: StandaloneCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "none" / "v1"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_bytes(b"no Parquet file")
    request = make_request(lab.output, table={"path": f"{tmp_path}/none", "snapshot": {"path_version": "v1"}})
    output = lab.open_account("nothing", request.table.identity)
    request = request.model_copy(update={"account": "nothing", "output": output})
    with pytest.raises(InvalidRequest, match="must contain only intact files"):
        lab.release(request=request, runner=backend)
    assert "Launching executor" in (tmp_path / "Master.log").read_text(), "the driver has used the cluster"
    ledger = lab.ledger()
    assert [charge.state for charge in ledger.history("nothing")] == ["void"]
    ledger.close()
    judge(lab)
