"""The built documentation, read from files: its menu, its search, its versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.test_docs import fetched, site_hooks
from tests.support.chromium import DESKTOP, PHONE, Page, browse
from tests.support.repository import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.verify]
VERSION = site_hooks().version(ROOT)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all versions, with this one built and an earlier one that had fewer pages."""
    folder = tmp_path_factory.mktemp("built") / "site"
    mkdocs = [str(Path(sys.executable).parent / "mkdocs"), "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(mkdocs, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    shutil.copytree(folder / VERSION, folder / "0.0.9", ignore=shutil.ignore_patterns("tutorial.html"))
    site_hooks().list_versions(folder)
    return folder


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browse() as browser:
        yield browser.new_page()


def wait(page: Page, expression: str) -> object:
    end = time.monotonic() + 240  # a busy machine takes a minute to index the pages
    while True:
        try:
            if found := page.evaluate(expression):
                return found
        except AssertionError as left:
            if "Inspected target navigated" not in str(left):
                raise
        assert time.monotonic() < end, expression
        time.sleep(0.1)


def test_site_asks_no_other_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 10
    assert {name.name: hosts for name in pages if (hosts := fetched(name.read_text()))} == {}


@pytest.mark.parametrize("name", ["index.html", "how-to/production.html", "explanation/mechanisms/roc-curve.html"])
def test_menu_names_everything_once(site: Path, page: Page, name: str) -> None:
    page.show(size=DESKTOP)
    page.open(f"file://{site}/{VERSION}/{name}")
    shown = "[...document.querySelectorAll('.md-nav--primary a.md-nav__link')].filter(a => a.checkVisibility())"
    titles = page.evaluate(f"{shown}.map(a => a.textContent.trim().replace(/\\s+/g, ' '))")
    targets = page.evaluate(f"{shown}.map(a => a.href)")
    assert len(titles) > 50
    assert [title for title, times in Counter(titles).items() if times > 1] == []
    assert [target for target, times in Counter(targets).items() if times > 1] == []


def found_by(page: Page, site: Path, query: str) -> list[str]:
    """The pages that a search finds, best first."""
    page.show(size=DESKTOP)
    page.open(f"file://{site}/{VERSION}/index.html")
    page.evaluate("document.querySelector('[data-md-component=search-query]').focus()")
    page.call("Input.insertText", text=query)
    links = "[...document.querySelectorAll('.md-search-result__link')].map(a => a.href)"
    # the page may have bound its field after the text was there, and then waits for a key
    key = "document.querySelector('[data-md-component=search-query]').dispatchEvent(new KeyboardEvent('keyup'))"
    wait(page, f"{key} && {links}.length > 0")
    shown = page.evaluate(links)
    assert all(link.startswith(f"file://{site}/{VERSION}/") for link in shown)
    assert page.complaints == []
    assert all(request.startswith(("file:", "data:")) for request in page.requests)
    return [link.removeprefix(f"file://{site}/{VERSION}/").partition("?")[0].partition("#")[0] for link in shown]


def test_search_finds_a_page_from_files(site: Path, page: Page) -> None:
    assert "how-to/production.html" in found_by(page, site, "exclusively create")


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("gate on AUC", "how-to/figures.html"),
        ("constraints", "how-to/two-packages.html"),
        ("DPIA", "how-to/impact-assessment.html"),
        ("moved table", "how-to/moved-tables.html"),
        ("pandas", "how-to/without-airflow.html"),
    ],
)
def test_search_leads_to_what_helps_to_do_it_first(site: Path, page: Page, query: str, first: str) -> None:
    assert found_by(page, site, query)[0] == first


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_versions_are_offered_and_lead_to_the_same_page_where_it_is(
    site: Path, page: Page, size: tuple[int, int]
) -> None:
    page.show(size=size)
    page.open(f"file://{site}/index.html")
    wait(page, f"location.pathname.endsWith('/{VERSION}/index.html')")
    for name, there in (("how-to/production.html", "how-to/production.html"), ("tutorial.html", "index.html")):
        page.open(f"file://{site}/{VERSION}/{name}")
        wait(page, "document.querySelector('select.versions')?.checkVisibility() === true")
        offered = "[...document.querySelector('select.versions').options].map(each => [each.text, each.selected])"
        assert page.evaluate(offered) == [[VERSION, True], ["0.0.9", False]]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        change = "c = document.querySelector('select.versions'); c.value = c.options[1].value; c.onchange()"
        page.evaluate(f"setTimeout(() => {{ {change} }})")  # it answers before the page is left
        wait(page, f"location.pathname.endsWith('/0.0.9/{there}')")


def test_newest_version_is_the_one_with_the_largest_number(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.2.1"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").touch()
    site_hooks().list_versions(tmp_path)
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()
