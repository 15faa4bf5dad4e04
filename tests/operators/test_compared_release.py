"""A distribution compared with an earlier release: by the operator and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk import DAG
from typer.testing import CliRunner

from dp_operators.budget import PrivacyLedger
from dp_operators.cli import app
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.operators.requests import read_request
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import Release
from tests.support.accounts import open_bound
from tests.support.airflow import make_context
from tests.support.earlier import AMOUNTS, KEY, TABLE, ecdf_release, released


@pytest.fixture
def ledger(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "fits", epsilon="3", table=TABLE, output=tmp_path / "releases")
    return airflow_ledger


def operator(output: Path, compare_with: Any, **fields: Any) -> ReleaseDiagnosticsOperator:
    given = {
        "account": "fits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v2"}},
        "diagnostics": [{**AMOUNTS, "compare_with": compare_with}],
        "epsilon": "0.5",
        "output": str(output),
    }
    return ReleaseDiagnosticsOperator(**{"task_id": "april", **given, **fields})


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.usefixtures("fake_application")
@pytest.mark.parametrize("form", ["xcom", "uri"])
def test_the_operator_compares_with_a_committed_release(ledger: PrivacyLedger, tmp_path: Path, form: str) -> None:
    uri = ecdf_release(ledger, str(tmp_path / "releases"), released())
    named: Any = {"xcom": {"uri": uri, "key": KEY, "cost": {"epsilon": "1"}}, "uri": uri}[form]
    done = operator(tmp_path / "releases", named).execute(make_context(task_id="april"))
    made = Release.from_json(Path(done["uri"], "release.json").read_bytes())
    held = made.request["diagnostics"][0]["compare_with"]
    assert held["released_by"] == KEY
    assert held["cdf"][-1] == 1
    assert ledger.remaining("fits").epsilon == pytest.approx(1.5), "the comparison itself costs nothing"
    # a retry compares with the same, so that it is the same request
    assert operator(tmp_path / "releases", named).execute(make_context(task_id="april")) == done


@pytest.mark.slow
@pytest.mark.usefixtures("fake_application")
@pytest.mark.parametrize("fault", ["not committed", "missing", "another grid", "another kind"])
def test_what_cannot_be_compared_ends_the_task_in_a_line_and_reserves_nothing(
    ledger: PrivacyLedger, tmp_path: Path, fault: str
) -> None:
    changes = {
        "not committed": {"commit": False},
        "another kind": {"results": {"roc_curve": {"auc": 0.5}}},
    }.get(fault, {})
    uri = ecdf_release(ledger, str(tmp_path / "releases"), released(), **changes)
    entry = {**AMOUNTS, "compare_with": f"{uri}-not" if fault == "missing" else uri}
    entry |= {"bounds": [0, 50]} if fault == "another grid" else {}
    told = {
        "not committed": "must be a release that this ledger has committed",
        "missing": r"must be a folder that holds release\.json",
        "another grid": "must be on the grid of this release",
        "another kind": "must hold a distribution function",
    }[fault]
    with pytest.raises(AirflowFailException, match=told) as failed:
        operator(tmp_path / "releases", None, diagnostics=[entry]).execute(make_context(task_id="april"))
    assert "\n" not in str(failed.value)
    assert [charge.release for charge in ledger.history("fits")] == [KEY]


def test_without_a_ledger_a_name_is_no_request(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="only the ledger can verify"):
        read_request(operator(tmp_path, {"release": "/releases/march"}).request)


def test_the_earlier_task_is_upstream(tmp_path: Path) -> None:
    with DAG("months", schedule=None):
        march = operator(tmp_path, None)
        april = operator(tmp_path, None, task_id="may", diagnostics=[{**AMOUNTS, "compare_with": march.output}])
    assert april.upstream_task_ids == {"april"}


def test_the_command_line_compares_with_a_committed_release(
    ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_operators.releasing.runners.check_snapshot", lambda request: None)  # there is no such lake
    uri = ecdf_release(ledger, str(tmp_path / "releases"), released())
    request = {
        "account": "fits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v2"}},
        "diagnostics": [{**AMOUNTS, "compare_with": uri}],
        "budget": {"epsilon": "0.5"},
        "output": str(tmp_path / "releases"),
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request))
    arguments = ["run", str(file), "--dry-run", "--ledger", f"sqlite:///{tmp_path / 'ledger.db'}"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "would charge epsilon 0.5 to fits, which has 2 left" in done.output
    file.write_text(json.dumps({**request, "diagnostics": [{**AMOUNTS, "compare_with": str(tmp_path)}]}))
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code != 0
    assert isinstance(refused.exception, InvalidRequest | SystemExit)
