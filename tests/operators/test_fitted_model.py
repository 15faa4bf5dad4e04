"""A model that an earlier release fitted: by the operator and on the command line, and only if the ledger knows it."""

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
from dp_operators.operators.requests import read_request, request_fields
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.release import Release
from tests.support.accounts import open_bound
from tests.support.airflow import make_context
from tests.support.fitted import KEY, LOGISTIC, fitted_release

TABLE = "/lake/visits"


@pytest.fixture
def ledger(airflow_ledger: PrivacyLedger, tmp_path: Path) -> PrivacyLedger:
    open_bound(airflow_ledger, "fits", epsilon="3", table=TABLE, output=tmp_path / "releases")
    return airflow_ledger


def operator(output: Path, **fields: Any) -> ReleaseDiagnosticsOperator:
    given = {
        "account": "fits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "label": "any_visit",
        "diagnostics": "roc_curve",
        "epsilon": "0.5",
        "output": str(output),
    }
    return ReleaseDiagnosticsOperator(**{"task_id": "diagnose", **given, **fields})


@pytest.mark.slow
@pytest.mark.usefixtures("fake_application")
@pytest.mark.parametrize("form", ["xcom", "release", "folder", "manifest"])
@pytest.mark.sampled
def test_the_operator_takes_the_model_of_a_committed_release(ledger: PrivacyLedger, tmp_path: Path, form: str) -> None:
    uri = fitted_release(ledger, str(tmp_path / "releases"))
    model: Any = {
        "xcom": {"uri": uri, "key": KEY, "cost": {"epsilon": "1", "delta": "0", "rho": None}},
        "release": {"release": uri, "kind": "logistic"},
        "folder": uri,
        "manifest": f"{uri}/release.json",
    }[form]
    done = operator(tmp_path / "releases", model=model).execute(make_context(task_id="diagnose"))
    made = Release.from_json(Path(done["uri"], "release.json").read_bytes())
    assert made.request["model"] == {**LOGISTIC, "categorical": {}, "fitted_by": KEY, "release": f"file://{uri}"}
    assert ledger.remaining("fits").epsilon == pytest.approx(1.5)
    # a retry takes the same model, so that it is the same request
    again = operator(tmp_path / "releases", model=model).execute(make_context(task_id="diagnose"))
    assert again == done


@pytest.mark.usefixtures("fake_application")
def test_a_release_that_was_not_committed_ends_the_task_and_reserves_nothing(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    uri = fitted_release(ledger, str(tmp_path / "releases"), commit=False)
    with pytest.raises(AirflowFailException, match="must be a release that this ledger has committed") as failed:
        operator(tmp_path / "releases", model=uri).execute(make_context(task_id="diagnose"))
    assert "\n" not in str(failed.value)
    assert [charge.release for charge in ledger.history("fits")] == [KEY]


@pytest.mark.slow
@pytest.mark.usefixtures("fake_application")
def test_a_dry_run_looks_the_model_up(ledger: PrivacyLedger, tmp_path: Path) -> None:
    uri = fitted_release(ledger, str(tmp_path / "releases"))
    told = operator(tmp_path / "releases", model={"release": uri}, dry_run=True).execute(make_context())
    assert told["account"] == "fits"
    with pytest.raises(AirflowFailException, match=r"must be a folder that holds release\.json"):
        operator(tmp_path / "releases", model={"release": f"{uri}-not"}, dry_run=True).execute(make_context())


def test_without_a_ledger_a_reference_is_no_request(tmp_path: Path) -> None:
    fields = operator(tmp_path, model={"release": "/releases/x"}).request
    assert request_fields(fields)["model"] == {"release": "/releases/x"}
    with pytest.raises(InvalidRequest, match="model"):
        read_request(fields)


def test_a_bad_request_is_refused_before_the_ledger_is_asked(tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="must be one of"):
        operator(tmp_path, model=LOGISTIC, diagnostics="no such", _airflow_from_mapped=True).execute(make_context())


def test_a_fitting_task_is_upstream_of_what_takes_its_output(tmp_path: Path) -> None:
    with DAG("fits", schedule=None):
        fit = operator(tmp_path, model=LOGISTIC, task_id="fit")
        diagnose = operator(tmp_path, model=fit.output)
    assert diagnose.upstream_task_ids == {"fit"}


def test_the_command_line_takes_the_model_of_a_committed_release(
    ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_operators.releasing.runners.check_snapshot", lambda request: None)  # there is no such lake
    uri = fitted_release(ledger, str(tmp_path / "releases"))
    request = {
        "account": "fits",
        "table": {"path": TABLE, "snapshot": {"path_version": "v1"}},
        "label": "any_visit",
        "model": {"release": uri},
        "diagnostics": ["roc_curve"],
        "budget": {"epsilon": "0.5"},
        "output": str(tmp_path / "releases"),
    }
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request))
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    done = CliRunner().invoke(app, ["run", str(file), "--dry-run", "--ledger", url])
    assert done.exit_code == 0, done.output
    assert "would charge epsilon 0.5 to fits, which has 2 left" in done.output
    file.write_text(json.dumps({**request, "model": {"release": str(tmp_path)}}))
    refused = CliRunner().invoke(app, ["run", str(file), "--dry-run", "--ledger", url])
    assert refused.exit_code != 0
    assert isinstance(refused.exception, InvalidRequest | SystemExit)
