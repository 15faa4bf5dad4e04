"""Two Airflow deployments on one ledger, of either kind: their DAGs of one name are two, and one budget is one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

from dp_operators.budget import PrivacyLedger
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.releasing import LocalRunner
from tests.support.accounts import open_bound
from tests.support.airflow import make_context

TABLE = "/lake/visits"


@pytest.fixture
def shared(
    ledger_url: str, tmp_path: Path, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrivacyLedger]:
    """One ledger behind the connections of two deployments, and an application that is a stand-in."""
    for name in ("north", "south"):
        connect(f"ledger_{name}", conn_type="privacy_ledger", extra={"url": ledger_url, "deployment": name})
    found = PrivacyLedger(ledger_url)
    open_bound(found, "visits", epsilon="2", table=TABLE, output=tmp_path / "releases")
    monkeypatch.setattr(
        "dp_operators.operators.application.make_runner",
        lambda *_, **__: LocalRunner(
            command=(sys.executable, "-m", "tests.support.fake_application"), private_dir=tmp_path / "private"
        ),
    )
    monkeypatch.setattr("dp_operators.release_check.check_release", lambda release, read: None)
    yield found
    found.close()


def released(place: str, tmp_path: Path, **fields: Any) -> dict[str, Any]:
    given = {
        "account": "visits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "label": "any_visit",
        "model": {"kind": "columns", "score": "score", "basis": "public"},
        "diagnostics": "roc_curve",
        "epsilon": "1",
        "output": str(tmp_path / "releases"),
        "privacy_ledger_conn_id": f"ledger_{place}",
    }
    return ReleaseDiagnosticsOperator(task_id="release", **{**given, **fields}).execute(make_context())


@pytest.mark.slow
@pytest.mark.sampled
def test_same_dag_in_two_deployments_is_two_releases_of_one_budget(shared: PrivacyLedger, tmp_path: Path) -> None:
    first = [released(name, tmp_path) for name in ("north", "south")]
    assert len({found["uri"] for found in first}) == 2
    assert [charge.release.split("/")[0] for charge in shared.history("visits")] == ["north", "south"]
    assert [released(name, tmp_path) for name in ("north", "south")] == first
    assert shared.remaining("visits").epsilon == 0
    with pytest.raises(AirflowFailException, match="account visits has 0 of 2 left"):
        released("north", tmp_path, deployment="third")
    assert shared.verification().findings == ()


@pytest.mark.slow
@pytest.mark.verify
def test_race_of_two_deployments_for_the_last_budget_has_one_winner(shared: PrivacyLedger, tmp_path: Path) -> None:
    shared.reserve("visits", release="earlier", epsilon="1")

    def attempt(name: str) -> str:
        try:
            return str(released(name, tmp_path)["uri"])
        except AirflowException as refused:
            return type(refused).__name__

    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(attempt, ("north", "south")))
    assert sum("AirflowFailException" in each for each in found) == 1
    assert shared.remaining("visits").epsilon == 0
    assert shared.verification().findings == ()


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.sampled
def test_allotments_keep_deployments_out_of_each_others_way(shared: PrivacyLedger, tmp_path: Path) -> None:
    for name in ("north", "south"):
        shared.allot("visits", name, epsilon="1")
    released("north", tmp_path, allotment="north")
    with pytest.raises(AirflowFailException, match="sub-budget north in account visits has 0 of 1 left"):
        released("north", tmp_path, allotment="north", deployment="north, again")
    released("south", tmp_path, allotment="south")
