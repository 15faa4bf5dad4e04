"""The operator of a federation's server serves what its administrator has registered, and nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import FEDERATIONS_VARIABLE, Registration
from spark_jobs.federation.exchange import Silo
from tests.support.federated import SERVERS, SILOS, prepare

pytestmark = [pytest.mark.airflow]


def operators(folder: Path, monkeypatch: pytest.MonkeyPatch, **agreed: object):
    """An operator for each server, of its own name, and the silos."""
    from dp_operators.operators import FederationServerOperator

    agreement, keys = prepare(folder, **agreed)
    monkeypatch.setenv(FEDERATIONS_VARIABLE, str(folder))
    for name in SERVERS:
        registration = Registration(agreement=agreement, receipts=str(folder / "receipts" / name))
        (folder / f"{name}.json").write_text(registration.model_dump_json())
    (folder / "silo.json").write_text(Registration(agreement=agreement, account="a").model_dump_json())
    tasks = {
        name: FederationServerOperator(task_id=name, federation=name, poll_seconds=0.01)
        for name in (*SERVERS, "silo", "nobody")
    }
    silos = [Silo(agreement=agreement, keys=keys[name], silo=name, poll_seconds=0.01) for name in SILOS]
    return tasks, silos, agreement


def test_servers_serve_until_all_silos_have_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, silos, agreement = operators(tmp_path, monkeypatch)
    with ThreadPoolExecutor(5) as pool:
        served = [pool.submit(tasks[name].execute, {}) for name in SERVERS]
        for ended in [pool.submit(silo.end, "a draw") for silo in silos]:
            ended.result()
    assert [run.result() for run in served] == [{"agreement": agreement.sha256, "sums": 0}] * 2


def test_a_release_that_ends_without_a_result_fails_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    tasks, _, _ = operators(tmp_path, monkeypatch, wait_seconds=0.05)
    with pytest.raises(AirflowFailException, match="silo north has sent nothing within 0.05 seconds"):
        tasks["one"].execute({})


@pytest.mark.parametrize(
    ("name", "message"),
    [("nobody", "must be one that the administrator"), ("silo", "must be registered for a server")],
)
def test_only_what_is_registered_for_a_server_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    tasks, _, _ = operators(tmp_path, monkeypatch)
    with pytest.raises(AirflowFailException, match=message):
        tasks[name].execute({})


def test_a_release_operator_names_a_federation() -> None:
    from dp_operators.operators import RocCurveOperator

    fields = {
        "account": "a", "table": {"path": "/lake/t", "snapshot": {"path_version": "v1"}}, "output": "/releases",
        "label": "y", "model": {"kind": "columns", "score": "s", "basis": "public"}, "epsilon": "1",
    }  # fmt: skip
    task = RocCurveOperator(task_id="roc", federation="hospitals", **fields)
    assert task.build_request().federation.name == "hospitals"
    with pytest.raises(InvalidRequest, match="federation"):
        RocCurveOperator(task_id="wrong", federation="Not a name", **fields)
