"""Every page of the plugin in a browser: on a phone and a desktop, light and dark, for eyes and for screen readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from spark_jobs.contract.store.layout import release_folder
from tests.support.chromium import CONTRASTS, DESKTOP, PHONE, Page, browse
from tests.support.live_api_server import LiveApiServer, live_api_server
from tests.support.shown_ledger import KEY, fill

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1800)]

LEDGER = "/privacy-ledger/privacy_ledger_default"
UNNAMED = """
[...document.querySelectorAll("input:not([type=hidden]), select, textarea")].filter(field => !field.labels.length)
.concat([...document.querySelectorAll("table:not(:has(caption)), img:not([alt])")])
.concat([...document.querySelectorAll("th:not([scope])")])
.concat([...document.querySelectorAll("a, button")].filter(place => !place.textContent.trim()))
.map(element => element.outerHTML)
"""
"""What a screen reader could not name."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("accessible")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[LiveApiServer]:
    url = f"sqlite:///{folder}/ledger.db"
    fill(url, folder / "releases")
    connection = json.dumps({"conn_type": "privacy_ledger", "extra": {"url": url}})
    variables = {"AIRFLOW_CONN_PRIVACY_LEDGER_DEFAULT": connection}
    with live_api_server(folder, roles={"olga": "op"}, environment=variables) as running:
        yield running


@pytest.fixture(scope="module")
def page(server: LiveApiServer) -> Iterator[Page]:
    with browse() as browser:
        page = browser.new_page()
        page.call("Network.setCookie", name="_token", value=server.token("olga"), url=server.url)
        yield page


PAGES = {
    "ledgers": "/privacy-ledger/",
    "accounts": f"{LEDGER}/",
    "account": f"{LEDGER}/account?name=visits",
    "account of blocks": f"{LEDGER}/account?name=clinics%20%26%20wards",
    "release": f"{LEDGER}/release?account=visits&key={quote(KEY, safe='')}",
    "cost": f"{LEDGER}/cost",
    "verify": f"{LEDGER}/verify?account=visits&uri=",
    "failure": f"{LEDGER}/account?name=nobody",
}


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_read_it(page: Page, server: LiveApiServer, folder: Path, name: str) -> None:
    release = quote(release_folder(str(folder / "releases"), KEY), safe="") if name == "verify" else ""
    for size, scheme in ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"), (PHONE, "dark")):
        page.show(size=size, scheme=scheme)
        page.open(f"{server.url}{PAGES[name]}{release}")
        page.evaluate("document.querySelectorAll('details').forEach(folded => folded.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        texts = page.evaluate(CONTRASTS)
        assert len(texts) >= 2
        assert [(text, round(ratio, 2)) for text, ratio in texts if ratio < 4.5] == []
    assert all(request.startswith((server.url, "data:")) for request in page.requests)
    assert [line for line in page.complaints if "404" not in line] == []  # the page of a failure has its status
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate("[document.documentElement.lang, document.querySelectorAll('h1, main').length]") == ["en", 2]
    assert page.evaluate("document.title")


def test_what_somebody_could_not_read_is_noticed(page: Page, server: LiveApiServer) -> None:
    page.show()
    page.open(f"{server.url}{PAGES['ledgers']}")
    page.evaluate("""
        document.querySelector("main").append(document.createElement("img"), document.createElement("select"));
        document.querySelector("h1").style.color = "oklch(.8 .02 250)";
    """)
    assert len(page.evaluate(UNNAMED)) == 2
    assert [text for text, ratio in page.evaluate(CONTRASTS) if ratio < 4.5] == ["Privacy budget"]
