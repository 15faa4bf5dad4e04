"""The runners with the real application and a real Spark: it starts, reads its request, and its answer comes back."""

from __future__ import annotations

import pytest

from dp_operators.releasing import LocalRunner, SparkSubmitRunner
from spark_jobs.application.java import java_home
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.layout import ApplicationStage
from tests.support.cluster import spark_cluster
from tests.support.release_lab import judge, make_request

pytestmark = pytest.mark.spark
CONNECTED = {"spark-submit": [pytest.mark.verify], "cluster": [pytest.mark.cluster, pytest.mark.verify]}


@pytest.fixture(params=["local", *[pytest.param(name, marks=marks) for name, marks in CONNECTED.items()]])
def runner(request, tmp_path):
    if request.param == "local":
        yield LocalRunner(master="local[1]", private_dir=tmp_path / "private")
        return
    if request.param == "cluster":
        with spark_cluster(tmp_path / "cluster") as cluster:
            environment = cluster.environment()
            yield SparkSubmitRunner(master=cluster.master, environment=environment, private_dir=tmp_path / "private")
        return
    yield SparkSubmitRunner(
        master="local[1]",
        conf={"spark.driver.memory": "600m", "spark.executorEnv.PEPPER": "a=b \\ c"},
        environment={"JAVA_HOME": str(java_home())},
        private_dir=tmp_path / "private",
    )


@pytest.mark.verify
def test_request_that_only_spark_can_refuse_is_refused_and_paid_back(lab, runner, tmp_path):
    """What a request needs to be refused on is a session: all of the way there and back is gone."""
    folder = tmp_path / "none" / "v1"
    folder.mkdir(parents=True)
    (folder / "part-0.orc").write_bytes(b"no ORC file, of whose footers only Spark reads anything")
    request = make_request(lab.output, table={"path": f"{tmp_path}/none", "snapshot": {"path_version": "v1"}})
    ledger = lab.ledger()
    output = lab.open_account("nothing", request.table.identity, form="orc")
    request = request.model_copy(update={"account": "nothing", "output": output})
    lines = []
    with pytest.raises(InvalidRequest, match="must contain only intact files"):
        lab.release(request=request, runner=runner, progress=lines.append)
    assert {ApplicationStage.STARTING, ApplicationStage.READING} <= set(lines)
    [charge] = ledger.history("nothing")
    assert charge.state == "void"
    judge(lab)
    [output] = (tmp_path / "private").iterdir()
    assert "Spark" in output.read_text()
    assert not any("Spark" in line for line in lines)
