"""DAGs and requests of the documentation are what they are said to be: on README's account they run as printed."""

from __future__ import annotations

import datetime as dt
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.operators.dag_files import DagFile
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from dp_operators.operators.requests import request_fields
from dp_operators.releasing import complete
from spark_jobs.contract.preflight import preflight
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.written import read_written
from tests.support.airflow import make_context
from tests.support.code_blocks import code_blocks
from tests.support.repository import ROOT

README, YOUR_DAG, DOMAINS = ROOT / "README.md", ROOT / "docs/how-to/your-dag.md", ROOT / "docs/how-to/domains.md"
REFERENCE = ROOT / "docs/reference/request.md"


def opened(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> PrivacyLedger:
    """A ledger in which the account of a page's command is open."""
    url = f"sqlite:///{folder}/ledger.db"
    monkeypatch.setenv("DP_LEDGER_URL", url)
    lines = [
        line
        for block in code_blocks(page)
        if block.language == "bash"
        for line in block.code.replace("\\\n", " ").splitlines()
        if line.startswith("dp-budget open customers")
    ]
    assert run(app, ["migrate"]) == 0
    assert run(app, shlex.split(lines[0])[1:]) == 0
    return PrivacyLedger(url)


def tasks_of(page: Path, monkeypatch: pytest.MonkeyPatch) -> list[ReleaseDiagnosticsOperator]:
    """The release tasks for the account `customers` in the DAGs that a page prints."""
    entered: list[DAG] = []
    monkeypatch.setattr(DAG, "__enter__", lambda dag, enter=DAG.__enter__: (entered.append(dag), enter(dag))[1])
    for block in code_blocks(page):
        if block.language == "python" and "with DAG(" in block.code and '"customers"' in block.code:
            exec(compile(block.code, f"{page.name}:{block.line}", "exec"), {})
    releases = [task for dag in entered for task in dag.tasks if isinstance(task, ReleaseDiagnosticsOperator)]
    # a decorated function returns the rest of its request when it runs
    whole = [task for task in releases if isinstance(task.request, dict) and "diagnostics" in task.request]
    return [task for task in whole if task.request.get("account") == "customers"]


def written_in(page: Path) -> list[dict[str, Any]]:
    """The requests for the account `customers` that a page shows as YAML."""
    shown = [yaml.safe_load(block.code) for block in code_blocks(page) if block.language == "yaml"]
    whole = [DagFile.parse(data).request if "request" in data else data for data in shown if isinstance(data, dict)]
    return [data for data in whole if data.get("account") == "customers"]


@pytest.mark.parametrize("page", [README, YOUR_DAG], ids=lambda page: page.name)
def test_dags_of_a_page_fit_the_account_of_readme(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = opened(README, tmp_path, monkeypatch)
    tasks = tasks_of(page, monkeypatch)
    assert tasks
    for task in tasks:
        context = make_context()
        context["dag_run"].run_after = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
        task.render_template_fields(context)
        request = complete(read_written(ReleaseRequest, request_fields(task.request)), ledger)
        preflight(request)
        assert (request.unit.column, request.output) == ("customer", "s3://releases/churn")


@pytest.mark.parametrize(("page", "account"), [(REFERENCE, README), (YOUR_DAG, README), (DOMAINS, DOMAINS)])
def test_requests_of_a_page_fit_the_account_that_is_opened(
    page: Path, account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(account, tmp_path, monkeypatch)
    shown = written_in(page)
    assert shown
    for fields in shown:
        preflight(complete(read_written(ReleaseRequest, request_fields(fields)), ledger))
