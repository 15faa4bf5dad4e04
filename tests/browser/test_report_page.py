"""The report as a browser shows it: small and large, light and dark, printed, and to a screen reader."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from spark_jobs.application.streams.report import write_report
from spark_jobs.contract.store.objects import LocalStore
from tests.support import publications as made
from tests.support.chromium import CONTRASTS, DESKTOP, PHONE, Page, browse
from tests.support.report_pages import ENTRIES, report_page
from tests.support.stream_files import publish_stream
from tests.support.streams import of_hierarchy

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TABLET = (768, 1024)

SMALLEST_TEXTS = """
[...document.querySelectorAll('.plot svg, .small svg')].map(svg => {
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const texts = [...svg.querySelectorAll('text')].filter(text => !text.closest('.probe'));
  return scale * Math.min(...texts.map(text => parseFloat(getComputedStyle(text).fontSize)));
})
"""
"""The size of the smallest text of every picture with text, in pixels; without what is shown for pointers."""

BOX = """
(() => { const r = document.querySelector('%s').getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()
"""


@dataclass(frozen=True, kw_only=True)
class Reports:
    """The folders of some published releases, by name."""

    root: Path

    def uri(self, name: str) -> str:
        return (self.root / name / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    with browse() as found:
        yield found


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    root = tmp_path_factory.mktemp("reports")
    hostile = made.request(title=made.HOSTILE + "W" * 80, label={"column": "W" * 200, "positive": made.HOSTILE})
    for name, curve, facts in (
        ("charged", made.curve(), made.facts()),
        ("seeded", made.seeded(made.curve()), made.facts(draft=True)),
        ("undefined", made.undefined_curve(), made.facts()),
        ("hostile", made.curve(), made.facts(request=hostile, rules=(made.HOSTILE,))),
    ):
        (root / name).mkdir()
        for file, content in made.publish({"roc_curve": curve}, facts=facts)[1].items():
            (root / name / file).write_bytes(content)
    stream = of_hierarchy(steps=240, title=made.HOSTILE.replace("\x00", "") + "W" * 80)
    publish_stream(root / "stream", stream, np.random.default_rng(1).poisson(30, (150, 4)), parts=2)
    write_report(LocalStore(), str(root / "stream"))
    return Reports(root=root)


@pytest.fixture
def page(browser) -> Page:
    return browser.new_page()


NAMES = ("charged", "seeded", "undefined", "hostile", "stream")


@pytest.mark.parametrize("name", NAMES)
def test_page_loads_without_requests_or_complaints(page, reports, name):
    page.show()
    page.open(reports.uri(name))
    assert page.requests == [reports.uri(name)]
    assert page.complaints == []


@pytest.mark.parametrize("rows", [4000, 0], ids=["rows", "no rows"])
@pytest.mark.parametrize("name", ENTRIES)
def test_the_page_of_a_kind_is_as_the_others(page, tmp_path, name, rows):
    """Opened once, as it takes a second to make one: silent, no wider than any screen, with contrast, and named."""
    path = tmp_path / "report.html"
    path.write_bytes(report_page(name, rows=rows))
    page.show()
    page.open(path.as_uri())
    assert (page.requests, page.complaints) == ([path.as_uri()], [])
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for scheme in ("light", "dark"):
        page.show(scheme=scheme)
        contrasts = page.evaluate(CONTRASTS)
        assert len(contrasts) > 60
        assert [(text, round(ratio, 2)) for text, ratio in contrasts if ratio < 4.5] == [], scheme
    for size in (DESKTOP, TABLET, PHONE):
        page.show(size=size)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        smallest = page.evaluate(SMALLEST_TEXTS)
        assert smallest
        assert min(smallest) >= 7.5
    tree = page.accessibility_tree()
    assert all(node["name"] for node in tree if node["role"] in ("image", "img", "link", "region", "heading"))
    assert page.complaints == []


def test_effect_sizes_of_a_residual_plot_are_read_before_its_tests(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(report_page("residual_plot"))
    for size in (DESKTOP, PHONE):
        page.show(size=size)
        page.open(path.as_uri())
        places = page.evaluate(
            "['.headline .number', '.headline .interval', '.headline .measures', '.story > p', '.story > .measures']"
            ".map(selector => document.querySelector(selector).getBoundingClientRect().top)"
        )
        assert places == sorted(places)


def test_a_script_that_slipped_in_would_not_run(page, reports, tmp_path):
    text = (reports.root / "charged" / "report.html").read_text()
    slipped = tmp_path / "report.html"
    slipped.write_text(text.replace("<main>", "<main><script>document.title = 'run'</script><img src='x.png'>"))
    page.open(slipped.as_uri())
    assert page.evaluate("document.title") != "run"
    assert page.complaints, "the browser reports what the policy held back, so the test above can fail"


@pytest.mark.parametrize("size", [DESKTOP, TABLET, PHONE])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_wider_than_the_screen(page, reports, name, size):
    page.show(size=size)
    page.open(reports.uri(name))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["charged", "seeded", "undefined", "stream"])
def test_all_text_has_contrast(page, reports, name, scheme):
    page.show(scheme=scheme)
    page.open(reports.uri(name))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = page.evaluate(CONTRASTS)
    assert len(found) > 60
    assert [(text, round(ratio, 2)) for text, ratio in found if ratio < 4.5] == []


def test_the_schemes_differ(page, reports):
    page.show(scheme="dark")
    page.open(reports.uri("charged"))
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.show(scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark


def test_text_in_the_plot_is_legible_on_a_phone(page, reports):
    page.show(size=PHONE)
    page.open(reports.uri("charged"))
    heights = page.evaluate(
        "[...document.querySelectorAll('.plot svg g[id] text')].map(t => t.getBoundingClientRect().height)"
    )
    assert len(heights) > 10
    scale = page.evaluate("document.querySelector('.plot svg').getBoundingClientRect().width") / (4.7 * 72)
    assert 9 * scale >= 8


def test_pointing_at_the_plot_reads_a_cut_off(page, reports):
    page.show()
    page.open(reports.uri("charged"))
    shown = (
        "[...document.querySelectorAll('.probe > g')].filter(g => getComputedStyle(g).visibility === 'visible').length"
    )
    x, y, width, height = page.evaluate(BOX % ".plot svg")
    assert page.evaluate(shown) == 0
    page.hover(x + width * 0.5, y + height * 0.5)
    assert page.evaluate(shown) == 1


def test_small_pictures_of_a_stream_stand_beside_each_other(page, reports):
    for size, columns in ((DESKTOP, 4), (PHONE, 2)):
        page.show(size=size)
        page.open(reports.uri("stream"))
        tops = page.evaluate("[...document.querySelectorAll('.multiples')].at(-1).children.length")
        lines = page.evaluate(
            "new Set([...[...document.querySelectorAll('.multiples')].at(-1).children]"
            ".map(e => e.getBoundingClientRect().y)).size"
        )
        assert (tops, lines) == (4, 4 // columns)
    tree = page.accessibility_tree()
    headings = {node["name"] for node in tree if node["role"] == "heading"}
    assert {"Sums over each day", "Jumps and drops", "Every count by itself", "What the stream cost"} <= headings
    images = [node["name"] for node in tree if node["role"] in ("image", "img")]
    assert sum(name.startswith("The last 120 estimates") for name in images) == 6
    assert all(node["name"] for node in tree if node["role"] in ("image", "img", "link", "region", "heading"))


def test_a_screen_reader_is_told_the_same(page, reports):
    page.show()
    page.open(reports.uri("charged"))
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    tree = page.accessibility_tree()
    headings = [node["name"] for node in tree if node["role"] == "heading"]
    assert headings[0] == made.request().title
    assert {"ROC curve", "What is promised, and to whom", "What the budget was and is"} <= set(headings)
    images = [node["name"] for node in tree if node["role"] in ("image", "img")]
    assert any(name.startswith("ROC curve from lower left") for name in images)
    assert any(re.search(r"This release ε = 1, Left ε = 0.25, of 1.5", name) for name in images)
    assert sum(node["role"] == "rowheader" for node in tree) >= 14
    assert all(node["name"] for node in tree if node["role"] in ("image", "img", "link", "region", "heading"))


def test_the_mark_is_on_every_screen_and_every_printed_page(page, reports):
    page.show()
    page.open(reports.uri("seeded"))
    mark = BOX % ".watermark"
    assert page.evaluate(mark) == [0, 0, *DESKTOP]
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert page.evaluate(mark) == [0, 0, *DESKTOP]
    assert page.evaluate("getComputedStyle(document.querySelector('.watermark')).pointerEvents") == "none"
    seeded = page.pdf()
    assert seeded.startswith(b"%PDF")
    assert page.evaluate("getComputedStyle(document.querySelector('.watermark')).position") == "fixed"


def test_print_opens_what_is_folded_and_leaves_out_what_is_for_pointers(page, reports):
    page.show(scheme="dark")
    page.open(reports.uri("charged"))
    seen = "[...document.querySelectorAll('details > :last-child')].map(e => e.checkVisibility())"
    assert page.evaluate(seen) == [False] * 4
    page.show(media="print", scheme="dark")
    assert page.evaluate(seen) == [True] * 4
    assert page.evaluate("getComputedStyle(document.querySelector('.probe')).display") == "none"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)", (
        "dark is for screens"
    )
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) <= 5
