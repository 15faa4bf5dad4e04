"""The permission for the pages under Airflow's FAB auth manager, in a really started API server.

FAB's provider is not in the lock file. With it, for instance in an environment of its own:

    pip install pytest apache-airflow-providers-fab -e "./spark_jobs[spark]" -e .
    python -m pytest tests/plugins/test_fab_permission.py
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.chromium import browse
from tests.support.code_blocks import code_blocks
from tests.support.live_api_server import LiveApiServer, live_api_server
from tests.support.repository import ROOT
from tests.support.shown_ledger import fill

HAS_FAB = importlib.util.find_spec("airflow.providers.fab") is not None
pytestmark = [
    pytest.mark.airflow,
    pytest.mark.slow,
    pytest.mark.verify,
    pytest.mark.timeout(
        1800
    ),  # each of Airflow's processes takes a quarter of a minute to import FAB, alone on a machine
    pytest.mark.skipif(not HAS_FAB, reason="NOT TESTED UNDER FAB: apache-airflow-providers-fab is not installed"),
]
MANAGER = "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager"
USERS = {"olga": "Op", "vera": "Viewer", "rita": "Budget reader"}
PAGE = "/privacy-ledger/privacy_ledger_default"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApiServer]:
    folder = tmp_path_factory.mktemp("fab")
    ledger = f"sqlite:///{folder}/ledger.db"
    fill(ledger, folder / "releases")
    environment = {
        "AIRFLOW__CORE__AUTH_MANAGER": MANAGER,
        "AIRFLOW__PRIVACY_DIAGNOSTICS__PAGE_PERMISSION": "Privacy budget",
        "AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": json.dumps({"conn_type": "privacy_ledger", "extra": {"url": ledger}}),
        "AIRFLOW_CONN_SECOND_LEDGER": json.dumps({"conn_type": "privacy_ledger", "extra": {"url": ledger}}),
    }
    with live_api_server(folder, roles=USERS, environment=environment, prepare=add_users) as running:
        yield running


ADD_USERS = """
import json, sys
with get_application_builder() as builder:
    for user, has in json.loads(sys.argv[1]).items():
        role, password = builder.sm.find_role(has), f"password of {user}"
        assert builder.sm.add_user(user, "A", "B", f"{user}@example.org", role, password=password)
"""


def add_users(env: dict[str, str]) -> None:
    """FAB's own users; the reader's role is made by the program that the documentation shows."""
    [role] = [block for block in code_blocks(ROOT / "docs/reference/airflow.md") if block.title == "budget_role.py"]
    command = [sys.executable, "-c", role.code + ADD_USERS, json.dumps(USERS)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_reader_sees_the_pages_of_the_named_ledger_alone(server: LiveApiServer) -> None:
    token = server.token("rita")
    for path in ("/", "/account?name=visits"):
        assert server.get(f"{PAGE}{path}", token=token)[0] == 200
    assert server.get("/privacy-ledger/api/v1/privacy_ledger_default/accounts", token=token)[0] == 200
    assert server.get("/privacy-ledger/second_ledger/", token=token)[0] == 403
    assert server.get("/api/v2/connections", token=token)[0] == 403


def test_others_see_what_their_rights_on_connections_show(server: LiveApiServer) -> None:
    for user, status in (("olga", 200), ("vera", 403)):
        for ledger in ("privacy_ledger_default", "second_ledger"):
            assert server.get(f"/privacy-ledger/{ledger}/", token=server.token(user))[0] == status
    assert server.get(f"{PAGE}/")[0] == 401
    assert "/auth/login" in server.get(f"{PAGE}/")[1]


def test_reader_signs_in_and_reads_in_a_browser(server: LiveApiServer) -> None:
    with browse() as browser:
        page = browser.new_page()
        page.open(f"{server.url}{PAGE}/")
        page.evaluate("[...document.links].find(link => link.href.includes('login')).click()")
        browser.wait_for("Page.loadEventFired", page=page)
        fields = "document.querySelector('#username').value = 'rita'; document.querySelector('#password').value = "
        page.evaluate(f"{fields}'password of rita'; document.querySelector('form[name=login]').submit()")
        browser.wait_for("Page.loadEventFired", page=page)
        page.open(f"{server.url}{PAGE}/account?name=visits")
        assert page.evaluate("document.querySelector('h1').textContent") == "Account visits"
