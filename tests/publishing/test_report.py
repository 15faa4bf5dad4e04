import io
import re
from base64 import b64decode
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract.privacy import Budget
from spark_jobs.publishing import report, stamp
from spark_jobs.publishing.publication import report_part
from spark_jobs.publishing.rendering import Column, Rendering, Section
from spark_jobs.publishing.report import budget_bar, runs, visible
from tests.support import publications as made

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Outline(HTMLParser):
    """Every tag with its attributes, every text, and whether the tags nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data.strip())

    def attributes(self, name):
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def page_of(curve=None, **facts):
    release, files = made.publish({"roc_curve": curve or made.curve()}, facts=made.facts(**facts))
    return files["report.html"].decode(), release


@pytest.fixture(scope="module")
def page():
    return page_of()[0]


@pytest.fixture(scope="module")
def hostile():
    unit = {"column": made.HOSTILE, "max_rows": 2}
    label = {"column": made.HOSTILE, "positive": made.HOSTILE, "negative": made.HOSTILE + "!"}
    asked = made.request(
        title=made.HOSTILE,
        label=label,
        unit=unit,
        account=made.HOSTILE,
        blocks=[made.HOSTILE],
        # what a path may not hold at all is refused before
        table={
            "path": '/lake/</title></style><script>alert("x")</script>&\'"',
            "snapshot": {"path_version": "</p><script>1</script>"},
        },
    )
    return page_of(
        request=asked,
        key=made.HOSTILE,
        charge_id=made.HOSTILE,
        rules=(made.HOSTILE,),
        assumptions=(made.HOSTILE,),
        drawn_at=made.HOSTILE,
        versions={made.HOSTILE: made.HOSTILE},
        account=made.account(name=made.HOSTILE, block=made.HOSTILE),
    )[0]


def test_page_is_whole(page):
    outline = Outline(page)
    assert outline.open == []
    assert page.count("<h1") == 1
    assert outline.texts["h1"] == [made.request().title]
    assert "None" not in page
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).replace("dominant", "").split()


@pytest.mark.parametrize("which", ["page", "hostile"])
def test_page_asks_nothing_of_the_network_and_runs_nothing(which, request):
    text = request.getfixturevalue(which)
    outline = Outline(text)
    tags = {tag for tag, _ in outline.tags}
    assert tags.isdisjoint(
        {"script", "img", "iframe", "object", "embed", "link", "base", "form", "image", "foreignobject"}
    )
    assert not [name for _, attributes in outline.tags for name in attributes if name.startswith("on")]
    beside = {target for target in outline.attributes("href") if not target.startswith("data:text/csv;")}
    assert beside <= {"roc_curve.parquet", "roc_curve.svg", "roc_curve.png", "release.json"}
    assert all(target.startswith("#") for target in outline.attributes("xlink:href"))
    assert outline.attributes("src") == []
    styles = re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1)
    assert "url(" not in styles
    assert "@import" not in styles
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert "default-src 'none'" in text


def test_hostile_text_is_shown_as_text(hostile, page):
    outline, plain = Outline(hostile), Outline(page)
    assert outline.open == []
    assert outline.texts["h1"] == [visible(made.HOSTILE)]
    assert "49" not in outline.texts["h1"][0], "a template in a title is not run"
    assert {tag for tag, _ in outline.tags} <= {tag for tag, _ in plain.tags}
    assert "\u202e" not in hostile
    assert "\x00" not in hostile


def test_visible_keeps_what_people_write():
    assert visible("Größe, עברית, 👩‍⚕️, a\tb") == "Größe, עברית, 👩‍⚕️, a\tb"
    assert visible("a\x00b\u202ec\u2066") == "a�b�c�"


def test_ids_are_unique_and_references_resolve(page):
    outline = Outline(page)
    ids = outline.attributes("id")
    assert len(ids) == len(set(ids))
    wanted = set(outline.attributes("aria-labelledby"))
    wanted |= {target[1:] for target in outline.attributes("xlink:href")}
    wanted |= set(re.findall(r"url\(#([^)]+)\)", page))
    assert wanted
    assert wanted <= set(ids)


def test_plot_follows_the_page_and_is_described(page):
    plot = re.search(r"<svg.*?</svg>", page, re.DOTALL).group(0)
    assert "var(--curve)" in plot
    assert re.findall(r"#[0-9a-f]{6}\b", plot) == [], "a fixed colour would not follow the scheme"
    assert "font-family" not in plot
    described = [a["aria-label"] for _, a in Outline(page).tags if a.get("role") == "img"]
    assert any("ROC curve" in text and "AUC 0.688" in text for text in described)


def test_headline_and_table_show_the_released_values(page):
    curve = made.curve()
    low, high = curve.auc.interval
    assert f'<p class="number">{curve.auc.value:.3f}</p>' in page
    assert f"interval {low:.3f} to {high:.3f}" in page
    i = int(curve.fpr.searchsorted(0.2, side="right")) - 1
    row = re.search(r"at most 20 %</th>(.*?)</tr>", page, re.DOTALL).group(1)
    assert f"{100 * curve.tpr.value[i]:.1f}" in row
    assert f"{curve.thresholds[i]:.3f}" in row


def test_a_page_that_is_mailed_alone_still_gives_its_data():
    _, files = made.publish({"roc_curve": made.curve()}, facts=made.facts())
    outline = Outline(files["report.html"].decode())
    [link] = [attributes for tag, attributes in outline.tags if tag == "a" and "download" in attributes]
    content = b64decode(link["href"].partition("base64,")[2])
    table = pq.read_table(io.BytesIO(files["roc_curve.parquet"]))
    enclosed = pyarrow.csv.read_csv(io.BytesIO(content))
    assert enclosed.column_names == table.column_names
    for name in table.column_names:
        np.testing.assert_array_equal(*(part[name].to_numpy().astype(float) for part in (enclosed, table)))
    assert link["download"] == "roc_curve.csv"


def test_of_data_that_would_make_a_page_heavy_some_rows_are_in_it():
    rows = np.arange(120_000) / 7
    section = Section(title="Values", reading=())
    rendering = Rendering(columns={"value": Column(values=rows, meaning="a value")}, plots=(), section=section)
    part = report_part("ecdf", rendering, stamp.marks("NOT PRIVATE", "CHARGED"))
    [data] = part.data
    assert len(data.content) < 1.1 * report.MAX_ENCLOSED
    kept = pyarrow.csv.read_csv(io.BytesIO(data.content))["value"].to_numpy()
    np.testing.assert_array_equal(kept, rows[:: data.every])
    page = report.report_html(
        made.facts(), guarantee="differentially private", formal="", statement=(), marks=(), parts=(part,), files=()
    ).decode()
    assert 'download="NOT_PRIVATE_ecdf.csv">NOT_PRIVATE_ecdf.csv</a> (' in page
    assert f"one row in {data.every}; all are in ecdf.parquet)" in page


def test_page_shows_files_with_their_hashes():
    page, release = page_of()
    for entry in release.files:
        assert (entry.sha256 in page) == (entry.name != "report.html")


def test_budget_bar_is_the_ledgers():
    bar = budget_bar(made.account())
    assert bar.symbol == "ε"
    assert [(piece.value, piece.share) for piece in bar.pieces] == [
        ("0.25", Decimal("16.67")),
        ("1", Decimal("66.67")),
        ("0.25", Decimal("16.67")),
    ]
    assert bar.delta == ()


def test_budget_bar_counts_in_the_accounts_measure():
    rho = budget_bar(
        made.account(
            composition="zcdp",
            cap=Budget(epsilon=0, rho="0.5", delta="1e-6"),
            spent_before=Budget(epsilon=0, rho="0.4"),
            charged=Budget(epsilon=0, rho="0.1"),
            remaining=Budget(epsilon=0, rho=0),
        )
    )
    assert (rho.symbol, rho.cap) == ("ρ", "0.5")
    assert [piece.share for piece in rho.pieces] == [80, 20, 0]
    assert rho.delta == (), "nothing of it is spent"
    approximate = budget_bar(made.account(cap=Budget(epsilon="1.5", delta="1e-6")))
    assert approximate.delta[0] == ("cap", "10^-6")


def test_draft_shows_no_account():
    page, _ = page_of(draft=True)
    assert "No account paid for this draft" in page
    assert 'class="bar"' not in page


def test_account_names_the_allotment_that_paid():
    page, _ = page_of(account=made.account(allotment="research <team>"))
    assert "counts against its allotment <b>research &lt;team&gt;</b>." in page
    assert "counts against its allotment" not in page_of()[0]


def test_exponents_are_set_as_powers_and_nothing_else():
    assert runs("e^0.5 and 10^-6, x^2") == [
        ("e", False),
        ("0.5", True),
        (" and 10", False),
        ("-6", True),
        (", x^2", False),
    ]
    assert "".join(text for text, _ in runs(made.HOSTILE)) == made.HOSTILE
