"""A driver on a real standalone cluster: started by the master's REST server, looked at, and ended there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dp_operators.releasing import RunState
from dp_operators.releasing.clusters import StandaloneCluster
from spark_jobs.contract import InvalidRequest
from tests.suites.backends import SUBMISSION, eventually
from tests.support.release_lab import Lab, judge, make_request
from tests.support.rest_master import rest_master

pytestmark = [pytest.mark.cluster, pytest.mark.verify, pytest.mark.slow]


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with rest_master(tmp_path) as running:
        yield running.backend()


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


@pytest.mark.soak
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
