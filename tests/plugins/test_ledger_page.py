"""The page *Privacy budget* in a really started API server: who may see what, and what it looks like in a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.budget.tables.grants import grants
from dp_operators.plugins.pages import render
from tests.support.chromium import PHONE, browse
from tests.support.ledgers import commit, execute
from tests.support.live_api_server import LiveApiServer, live_api_server
from tests.support.postgres import PostgresServer
from tests.support.shown_ledger import KEY, fill, request_for

pytestmark = [pytest.mark.airflow, pytest.mark.postgres, pytest.mark.slow, pytest.mark.verify]

PAGE = "/privacy-ledger"
ROLES = {"olga": "op", "vera": "viewer"}
SPENT = {day: {"epsilon": epsilon, "delta": "0"} for day, epsilon in (("2026-11-20", "0"), ("2026-11-21", "0.875"))}
SNEAKY = "<script>document.title='x'</script>"


@pytest.fixture(scope="module")
def ledger(postgres_server: PostgresServer) -> Iterator[tuple[PrivacyLedger, str]]:
    """A ledger with two accounts, of which the role of one team may see one; and that role's URL."""
    url = postgres_server.create_database()
    ledger = PrivacyLedger(url)
    ledger.migrate()
    ledger.open_account("visits", epsilon="1", tables=["/lake/visits"], blocks="day(at)", actor="dora")
    ledger.open_account("others & co", epsilon="2")
    ledger.open_account("noisy", composition="zcdp", rho="0.5", delta="1e-6")
    done = ledger.reserve("visits", release=SNEAKY, epsilon="0.875", blocks="2026-11-21", actor="airflow:dag.task")
    commit(ledger, done.id, "ab")
    ledger.void(ledger.reserve("visits", release="given back", epsilon="0.125", blocks="2026-11-20").id)
    ledger.reserve("others & co", release="secret", epsilon="0.5")
    ledger.reserve("noisy", release="n", rho="0.125")
    execute(url, "CREATE ROLE visits_team LOGIN", *grants("visits_team", "view", account="visits"))
    yield ledger, url.replace("postgres@", "visits_team@")
    ledger.close()
    execute(url, "DROP OWNED BY visits_team", "DROP ROLE visits_team")
    postgres_server.drop_database(url)


@pytest.fixture(scope="module")
def server(ledger: tuple[PrivacyLedger, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApiServer]:
    owner, of_team = ledger
    urls = {
        "PRIVACY_LEDGER_DEFAULT": owner._database._url.render_as_string(hide_password=False),
        "LEDGER_OF_VISITS": of_team,
        "LEDGER_AWAY": "postgresql://127.0.0.1:1/none",
    }
    folder = tmp_path_factory.mktemp("server")
    urls["SHOWN_LEDGER"] = f"sqlite:///{folder}/shown.db"
    fill(urls["SHOWN_LEDGER"], folder / "releases")
    environment = {
        f"AIRFLOW_CONN_{name}": json.dumps({"conn_type": "privacy_ledger", "extra": {"url": url}})
        for name, url in urls.items()
    } | {"AIRFLOW_CONN_NOT_A_LEDGER": json.dumps({"conn_type": "http", "host": "example.org"})}
    with live_api_server(folder, roles=ROLES, environment=environment) as running:
        yield running


@pytest.fixture(scope="module")
def olga(server: LiveApiServer) -> str:
    return server.token("olga")


VERIFY = "/privacy_ledger_default/verify?account=visits&uri=%2Fetc%2Ffolder"
PATHS = ["/", "/privacy_ledger_default/", "/privacy_ledger_default/account?name=visits", "/no_such/", "/ledger_away/"]
PATHS += [VERIFY]


@pytest.mark.parametrize("path", PATHS)
def test_nobody_is_shown_anything_without_saying_who_they_are(server: LiveApiServer, path: str) -> None:
    for proof in ({}, {"token": "forged"}, {"cookie": "forged"}):
        status, body, _ = server.get(f"{PAGE}{path}", **proof)
        assert status in (401, 403)
        assert "<table" not in body


@pytest.mark.parametrize("path", PATHS[1:])
def test_user_who_may_not_read_the_connection_sees_no_ledger(server: LiveApiServer, path: str) -> None:
    status, body, _ = server.get(f"{PAGE}{path}", token=server.token("vera"))
    assert status == 403
    assert "there is no such ledger, or you may not read its connection" in unescape(body)
    assert body.startswith("<!doctype html>")


def test_user_without_connections_is_told_of_none(server: LiveApiServer) -> None:
    status, body, _ = server.get(f"{PAGE}/", token=server.token("vera"))
    assert status == 200
    assert "no ledger whose connection you may read" in body
    assert "privacy_ledger_default" not in body


@pytest.mark.parametrize("proof", ["token", "cookie"])
def test_user_who_may_read_the_connection_sees_the_accounts(server: LiveApiServer, olga: str, proof: str) -> None:
    proven = {proof: olga}
    assert 'href="privacy_ledger_default/"' in server.get(f"{PAGE}/", **proven)[1]
    status, body, headers = server.get(f"{PAGE}/privacy_ledger_default/", **proven)
    assert status == 200
    for shown in ("visits", "others &amp; co", "rho 0.375", "87%", "0.125", "2026-11-21", "one row of the table"):
        assert shown in body
    assert "<script" not in body
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert re.fullmatch("'nonce-[^' ]+'", policy["script-src"])
    assert headers["cache-control"] == "no-store"


def test_folder_that_is_not_the_accounts_is_not_verified(server: LiveApiServer, olga: str) -> None:
    status, body, _ = server.get(f"{PAGE}{VERIFY}", token=olga)
    assert status == 404
    assert "which has no folder for its releases yet" in body


def test_account_is_shown_with_its_charges_and_every_text_escaped(server: LiveApiServer, olga: str) -> None:
    status, body, _ = server.get(f"{PAGE}/privacy_ledger_default/account?name=visits", token=olga)
    assert status == 200
    assert SNEAKY not in body
    for shown in (
        "&lt;script&gt;",
        "committed",
        "void",
        "airflow:dag.task",
        "day(at)",
        "by dora",
        "file:///lake/visits",
    ):
        assert shown in body
    status, body, _ = server.get(f"{PAGE}/privacy_ledger_default/account?name=others%20%26%20co", token=olga)
    assert status == 200
    assert "secret" in body


def test_connection_of_a_team_shows_what_its_login_may_see(server: LiveApiServer, olga: str) -> None:
    status, body, _ = server.get(f"{PAGE}/ledger_of_visits/", token=olga)
    assert status == 200
    assert "visits" in body
    assert "others" not in body
    status, body, _ = server.get(f"{PAGE}/ledger_of_visits/account?name=others%20%26%20co", token=olga)
    assert status == 404
    assert "must be an open account" in body
    assert "secret" not in body


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/privacy_ledger_default/account?name=nobody", 404, "must be an open account"),
        ("/ledger_away/", 503, "cannot be used"),
        ("/not_a_ledger/", 404, "there is no such ledger, or you may not read its connection"),
        ("/no_such/", 404, "there is no such ledger"),
        ("/privacy_ledger_default/account", 422, "name"),
        ("/privacy_ledger_default/account?name=visits&state=gone", 422, "state"),
        ("/privacy_ledger_default/account?name=visits&text=%00", 422, "text"),
        ("/privacy_ledger_default/verify?account=visits&uri=http://[::1/x/y", 404, "must be a path or a URI"),
        ("/privacy_ledger_default/nothing", 404, "Not Found"),
        ("/privacy_ledger_default/release?account=visits&key=none", 404, "must be a release"),
        ("/privacy_ledger_default/file?account=visits&key=..%2F..%2Fetc&name=passwd", 404, "must be a release"),
    ],
)
def test_what_cannot_be_shown_is_told_in_one_line(
    server: LiveApiServer, olga: str, path: str, status: int, said: str
) -> None:
    found, body, _ = server.get(f"{PAGE}{path}", token=olga)
    assert (found, said in body, "Traceback" in body, "127.0.0.1" in body) == (status, True, False, False)
    assert body.startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/api/v1/ledgers", 200, {"ledgers": ["privacy_ledger_default"]}),
        ("/api/v1/no_such/accounts", 404, {"detail": "there is no such ledger, or you may not read its connection"}),
        ("/api/v1/privacy_ledger_default/charges?name=visits&limit=0", 422, None),
        ("/api/v1/privacy_ledger_default/account?name=nobody", 404, None),
        ("/api/v1/nothing", 404, {"detail": "Not Found"}),
    ],
)
def test_api_answers_in_json(server: LiveApiServer, olga: str, path: str, status: int, told: object) -> None:
    found, body, headers = server.get(f"{PAGE}{path}", token=olga)
    assert (found, headers["content-type"]) == (status, "application/json")
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
    assert told is None or json.loads(body) == told
    assert server.get(f"{PAGE}{path}")[0] in (401, 404)


def test_api_has_the_facts_of_the_pages(server: LiveApiServer, olga: str) -> None:
    def get(path: str, *, token: str = olga) -> tuple[int, dict[str, Any]]:
        status, body, _ = server.get(f"{PAGE}/api/v1/{path}", token=token)
        return status, json.loads(body)

    status, told = get("privacy_ledger_default/accounts")
    assert (status, [account["name"] for account in told["accounts"]]) == (200, ["noisy", "others & co", "visits"])
    assert get("ledger_of_visits/accounts")[1]["accounts"][0]["name"] == "visits"
    assert len(get("ledger_of_visits/accounts")[1]["accounts"]) == 1
    status, told = get("privacy_ledger_default/account?name=visits")
    assert (told["spent"], told["cap"]["epsilon"]) == (SPENT, "1")
    status, told = get("privacy_ledger_default/charges?name=visits")
    assert (told["number"], [charge["state"] for charge in told["charges"]]) == (2, ["void", "committed"])
    status, told = get("privacy_ledger_default/releases?name=visits&text=SCRIPT")
    assert (told["number"], told["charges"][0]["release"]) == (1, SNEAKY)
    assert get("privacy_ledger_default/accounts", token=server.token("vera"))[0] == 403


def test_charges_can_be_downloaded(server: LiveApiServer, olga: str) -> None:
    address = f"{PAGE}/privacy_ledger_default/charges.csv?name=visits&state=committed"
    status, body, headers = server.get(address, token=olga)
    assert (status, len(body.splitlines())) == (200, 2)
    assert headers["content-disposition"] == 'attachment; filename="charges.csv"'
    assert "private" not in headers["cache-control"]


def test_whoever_is_not_signed_in_is_led_to_the_login_page(server: LiveApiServer) -> None:
    status, body, headers = server.get(f"{PAGE}/privacy_ledger_default/")
    assert status == 401
    assert "/auth/login" in body
    assert headers["content-security-policy"].startswith("default-src 'none'")


def test_frozen_ledger_says_so(server: LiveApiServer, olga: str, ledger: tuple[PrivacyLedger, str]) -> None:
    ledger[0].freeze(reason="restored & unsure")
    try:
        for path in ("/privacy_ledger_default/", "/privacy_ledger_default/account?name=visits"):
            assert "is frozen: restored &amp; unsure" in server.get(f"{PAGE}{path}", token=olga)[1]
    finally:
        ledger[0].thaw(actor="dora", reason="tests")


def test_page_is_in_airflows_navigation(server: LiveApiServer, olga: str) -> None:
    status, body, _ = server.get("/api/v2/plugins", token=olga)
    assert status == 200
    [plugin] = [each for each in json.loads(body)["plugins"] if each["name"] == "privacy_ledger"]
    [view] = plugin["external_views"]
    assert (view["name"], view["href"]) == ("Privacy budget", "/privacy-ledger/")


@pytest.mark.parametrize("size", [(1280, 900), PHONE])
def test_page_reads_well_in_a_browser(server: LiveApiServer, olga: str, size: tuple[int, int], tmp_path: Path) -> None:
    with browse() as browser:
        page = browser.new_page()
        page.show(size=size)
        page.call("Network.setCookie", name="_token", value=olga, url=server.url)
        page.open(f"{server.url}{PAGE}/privacy_ledger_default/")
        assert page.evaluate("document.querySelector('h1').textContent") == "Accounts of privacy_ledger_default"
        assert page.evaluate("document.querySelectorAll('tbody tr').length") == 3
        page.evaluate("[...document.links].find(a => a.textContent == 'visits').click()")
        browser.wait_for("Page.loadEventFired", page=page)
        assert page.evaluate("document.title") == "visits: privacy budget"
        # no text of a user runs, nothing is fetched from elsewhere, and the style is the page's own
        assert all(request.startswith((server.url, "data:")) for request in page.requests)  # a browser's own icons
        assert page.complaints == []
        assert page.evaluate("getComputedStyle(document.querySelector('table')).borderCollapse") == "collapse"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        nodes = page.accessibility_tree()
        [chart] = [node for node in nodes if node["role"] in ("img", "image")]
        assert chart["name"].startswith("Left of the cap: 100% on")
        assert {"navigation", "main", "table", "row", "cell", "columnheader"} <= {node["role"] for node in nodes}


def test_release_and_price_are_shown_in_a_browser(server: LiveApiServer, olga: str) -> None:
    shown = f"{server.url}{PAGE}/shown_ledger"
    with browse() as browser:
        page = browser.new_page()
        page.show(size=PHONE, scheme="dark")
        page.call("Network.setCookie", name="_token", value=olga, url=server.url)
        page.open(f"{shown}/release?account=visits&key={quote(KEY, safe='')}")
        assert page.evaluate("[...document.images].map(image => image.naturalWidth > 0)") == [True]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.evaluate("[...document.links].find(a => a.textContent == 'The full report').click()")
        browser.wait_for("Page.loadEventFired", page=page)
        assert "ROC" in page.evaluate("document.body.textContent")
        assert page.complaints == []
        page.open(f"{shown}/cost")
        output = re.sub(r"^file://", "", json.loads(_account(server, olga))["outputs"][0])
        text = json.dumps(request_for(Path(output)).to_json())
        page.evaluate(f"document.querySelector('textarea').value = {text}; document.forms[0].submit()")
        browser.wait_for("Page.loadEventFired", page=page)
        assert page.evaluate("document.querySelector('h2').textContent") == "epsilon 0.5"
        assert page.complaints == []


def test_link_to_the_task_leaves_airflows_frame(server: LiveApiServer, olga: str) -> None:
    """Airflow's sandbox allows no navigation of the page around the frame."""
    facts = dict.fromkeys(("state", "cost", "counts", "release", "blocks", "at", "actor", "allotment", "published"), "")
    html = render(
        "release.html.j2", connection="c", account="a", charge=facts, charge_id="1", ended="",
        run=f"{PAGE}/", published=None, unread="", nonce="n", figures=(),
    )  # fmt: skip
    with browse() as browser:
        page = browser.new_page()
        page.call("Network.setCookie", name="_token", value=olga, url=server.url)
        page.open(f"{server.url}/api/v2/version")
        page.evaluate(f"""
            const frame = document.createElement("iframe");
            frame.sandbox = "allow-scripts allow-same-origin allow-forms allow-downloads";
            frame.srcdoc = {json.dumps(html)};
            document.body.append(frame);
        """)
        ready = "document.querySelector('iframe')?.contentDocument?.querySelector('script') != null"
        end = time.monotonic() + 60
        while not page.evaluate(ready) and time.monotonic() < end:
            time.sleep(0.1)
        page.evaluate("document.querySelector('iframe').contentDocument.querySelector('a[target]').click()")
        browser.wait_for("Page.loadEventFired", page=page)
        assert page.evaluate("location.pathname") == f"{PAGE}/"


def _account(server: LiveApiServer, token: str) -> str:
    return server.get(f"{PAGE}/api/v1/shown_ledger/account?name=visits", token=token)[1]


def test_page_follows_airflows_dark_mode_in_its_frame(server: LiveApiServer, olga: str) -> None:
    with browse() as browser:
        page = browser.new_page()
        page.call("Network.setCookie", name="_token", value=olga, url=server.url)
        for theme, dark in (("light", False), ("dark", True)):
            page.open(f"{server.url}/")
            page.evaluate(f"localStorage.setItem('theme', '{theme}')")
            page.open(f"{server.url}/plugin/privacy-budget{PAGE}/shown_ledger/account?name=visits")
            ready = "document.querySelector('iframe')?.contentDocument?.querySelector('h1')?.textContent"
            end = time.monotonic() + 60
            while page.evaluate(ready) != "Account visits" and time.monotonic() < end:
                time.sleep(0.2)
            query = "document.querySelector('iframe').contentWindow.matchMedia('(prefers-color-scheme: dark)').matches"
            assert page.evaluate(query) is dark


def test_other_processes_of_airflow_load_the_plugin_without_a_web_framework(tmp_path: Path) -> None:
    script = (
        "import sys; from airflow import plugins_manager as known; known.ensure_plugins_loaded(); "
        "plugins = known._get_plugins()[0] if hasattr(known, '_get_plugins') else known.plugins; "
        "names = [each.name for each in plugins]; "
        "print('privacy_ledger' in names, 'dp_operators.plugins.app' in sys.modules)"
    )
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True, timeout=120
    )
    assert said.stdout.split()[-2:] == ["True", "False"]
