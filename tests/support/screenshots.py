"""The pictures of the documentation, taken in Chromium of what really runs: ``python -m tests.support.screenshots``.

Pages of Airflow are those of an API server on loopback, whose ledger has an account with a past. The report is made
from the demo's table, and the stream's from counts of made-up arrivals, with real noise.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from PIL import Image

from examples.demo import lake
from spark_jobs.application.draft import draft
from spark_jobs.application.run import measure
from spark_jobs.application.streams.report import write_report
from spark_jobs.contract.options import ScoreCells
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.mechanisms.noise import SecureNoise
from spark_jobs.statistics import ScoreCounts
from tests.support.chromium import Page, browse
from tests.support.ledgers import new_ledger
from tests.support.live_airflow import live_airflow
from tests.support.live_api_server import LiveApiServer, live_api_server
from tests.support.repository import ROOT
from tests.support.shown_ledger import KEY, fill, request_for
from tests.support.stream_files import publish_stream
from tests.support.streams import a_stream

WIDTH, COLOURS = 1280, 256
USER = "dora"
APPROVAL = """
from airflow.sdk import DAG

from dp_operators.operators import ReleaseDiagnosticsOperator, RequestMoreBudgetOperator, VerifyReleaseOperator

with DAG("yearly_report", schedule=None):
    ask = RequestMoreBudgetOperator(
        task_id="more_budget",
        account="readmissions",
        epsilon="2",
        reason="The yearly report compares four wards, and what is left pays for one of them",
    )
    release = ReleaseDiagnosticsOperator(task_id="release", request="/requests/readmissions.yaml")
    ask >> release >> VerifyReleaseOperator(task_id="verify", release=release.output)
"""
EXPECTED = {"rows": "45000", "positive_rate": "0.06", "auc": "0.8"}


def take(page: Page, name: str, height: int, *, folder: Path) -> None:
    """Save what is in view in few colours, as pages have few."""
    taken = page.screenshot(folder / f"{name}.png", whole=False)
    image = Image.open(io.BytesIO(taken.read_bytes())).convert("RGB")
    image.crop((0, 0, image.width, min(height, image.height))).quantize(COLOURS, dither=Image.Dither.NONE).save(
        taken, optimize=True
    )


def wait(page: Page, ready: str) -> None:
    """Wait until an expression is true, and what it shows is drawn."""
    end = time.monotonic() + 120
    while not page.evaluate(ready):
        if time.monotonic() > end:
            raise TimeoutError(ready)
        time.sleep(0.3)
    time.sleep(1.5)


def _as_written(fields: dict[str, Any]) -> str:
    """A request as somebody would write it: without the fields that are left out."""

    def stated(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: stated(entry) for name, entry in value.items() if entry is not None}
        return [stated(entry) for entry in value] if isinstance(value, list) else value

    return json.dumps(stated(fields), indent=2)


def of_airflow(page: Page, server: LiveApiServer, asked: str, folder: Path) -> None:
    """Pages of the ledger in Airflow's frame; ``asked`` is the request whose price is asked for."""
    page.call("Network.setCookie", name="_token", value=server.token(USER), url=server.url)
    inside = "document.querySelector('iframe')?.contentDocument"

    def open_in_frame(path: str, heading: str, *, theme: str, height: int) -> None:
        page.show(size=(WIDTH, height), scheme=theme)
        page.open(f"{server.url}/")
        page.evaluate(f"localStorage.setItem('theme', '{theme}')")
        page.open(f"{server.url}/plugin/privacy-budget/privacy-ledger/privacy_ledger_default{path}")
        wait(page, f"{inside}?.querySelector('h1')?.textContent.startsWith('{heading}') ?? false")

    for name, theme in (("account-page", "light"), ("account-page-dark", "dark")):
        open_in_frame("/account?name=visits", "Account visits", theme=theme, height=620)
        take(page, name, 620, folder=folder)
    open_in_frame(f"/release?account=visits&key={quote(KEY, safe='')}", "Release", theme="light", height=1000)
    take(page, "release-page", 1000, folder=folder)
    open_in_frame("/cost", "What would it cost", theme="dark", height=1000)
    fields = "".join(f"d.querySelector('[name={name}]').value = '{value}';" for name, value in EXPECTED.items())
    page.evaluate(
        f"d = {inside}; d.querySelector('textarea').value = {json.dumps(asked)}; {fields} d.forms[0].submit()"
    )
    wait(page, f"{inside}?.querySelector('section[role=status]') != null")
    take(page, "cost-page", 1000, folder=folder)


def of_approval(page: Page, root: Path, folder: Path) -> None:
    """A question about a higher cap that a real scheduler has asked, and nobody has answered yet."""
    ledger = new_ledger(root / "ledger.db")
    ledger.open_account("readmissions", epsilon="1")
    ledger.reserve("readmissions", release="airflow/yearly_report/2025/release/-1", epsilon="0.75")
    ledger.close()
    connection = json.dumps({"conn_type": "privacy_ledger", "extra": {"path": str(root / "ledger.db")}})
    variables = {"AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": connection}
    with live_airflow(root, {"yearly_report.py": APPROVAL}, variables) as airflow:
        airflow.wait("the DAG is known", lambda: airflow.call("GET", "dags")["dags"])
        run = airflow.call("POST", "dags/yearly_report/dagRuns", {"logical_date": None})["dag_run_id"]
        airflow.wait("the task waits", lambda: airflow.call("GET", "dags/~/dagRuns/~/hitlDetails")["hitl_details"])
        page.call("Network.setCookie", name="_token", value=airflow.token, url=airflow.url)
        page.show(size=(WIDTH, 800))
        page.open(f"{airflow.url}/dags/yearly_report/runs/{quote(run, safe='')}/tasks/more_budget/required_actions")
        wait(page, "[...document.querySelectorAll('button')].some(button => button.textContent.startsWith('Approve'))")
        take(page, "approval-page", 800, folder=folder)


def write_roc_report(folder: Path) -> Path:
    """The report of a ROC curve of the demo's table."""
    rows, model = lake.person_years().iloc[lake.FITTED_ROWS :], lake.load_model()
    linear = model["intercept"] + sum(rows[name] * weight for name, weight in model["coefficients"].items())
    counts = ScoreCounts.from_arrays(rows["any_visit"].to_numpy(), 1 / (1 + np.exp(-linear.to_numpy())))
    fields: dict[str, Any] = {
        "account": "rand-hie",
        "table": {"path": "/lake/person_years", "snapshot": {"path_version": "v1"}},
        "label": "any_visit",
        "model": model,
        "diagnostics": ["roc_curve"],
        "budget": {"epsilon": "0.2"},
        "title": "Any visit to a doctor within the year",
    }
    request = ReleaseRequest.parse(fields)
    drawn = measure(request, {ScoreCells(): counts}, charge_id="c", noise=SecureNoise())
    return _write(folder, draft(request, drawn, key="demo", rules=())[1])


def write_stream_report(folder: Path) -> Path:
    """The report of four weeks of hourly counts with a daily rhythm, a shift and a gap."""
    hours = np.arange(28 * 24)
    rate = 60 + 45 * np.sin((hours % 24 - 7) / 24 * 2 * np.pi) + 25 * (hours >= 18 * 24)
    rate[400:406] = 0
    arrivals = np.random.default_rng(1).poisson(np.maximum(rate, 0))[:, None]
    request = a_stream(steps=len(hours), budget={"epsilon": "0.2"}, title="Arrivals at the emergency room")
    publish_stream(folder, request, arrivals, parts=4, noise=SecureNoise())
    write_report(LocalStore(), str(folder))
    return folder / "report.html"


def _write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / "report.html"


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as made, browse() as browser:
        root, page = Path(made), browser.new_page()
        reports: tuple[tuple[str, Callable[[Path], Path], int], ...] = (
            ("report", write_roc_report, 860),
            ("stream-report", write_stream_report, 900),
        )
        for name, write, height in reports:
            page.show(size=(1180, height))
            page.open(write(root / name).as_uri())
            take(page, name, height, folder=folder)
        url = f"sqlite:///{root}/ledger.db"
        fill(url, root / "releases")
        connection = json.dumps({"conn_type": "privacy_ledger", "extra": {"url": url}})
        variables = {"AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": connection}
        with live_api_server(root, roles={USER: "admin"}, environment=variables) as server:
            of_airflow(page, server, _as_written(request_for(root / "releases").to_dict()), folder)
        (root / "approval").mkdir()
        of_approval(page, root / "approval", folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
