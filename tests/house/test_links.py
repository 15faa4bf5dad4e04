"""Links within the documentation lead to pages and headings that there are; the glossary's terms are in use."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from markdown.extensions.toc import slugify

from tests.support.repository import ROOT, name_of, tracked_files

DOCS = ROOT / "docs"
GLOSSARY = DOCS / "reference" / "glossary.md"
PAGES = [path for path in tracked_files() if path.suffix == ".md" and path.is_relative_to(DOCS)]
ENTRY = re.compile(r"^`(?P<term>[^`]+)` \{ #(?P<anchor>[\w-]+) \}\n:   (?P<text>.*(?:\n    .*)*)", re.MULTILINE)
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def links_of(text: str) -> list[str]:
    """The targets of a page's links and pictures that lie in the repository."""
    return re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)", CODE.sub("", text))


@cache
def anchors_of(page: Path) -> frozenset[str]:
    """What a link may name behind ``#``: headings, and ids that are written out."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.M | re.S), re.MULTILINE)
    plain = [re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading) for heading in headings]
    return frozenset(slugify(heading, "-") for heading in plain) | frozenset(re.findall(r"\{ #([\w-]+) \}", text))


def broken(page: Path, text: str) -> list[str]:
    """The links of a page with this text that lead nowhere."""
    missing = []
    for link in links_of(text):
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.is_file() or (anchor and path.suffix == ".md" and anchor not in anchors_of(path)):
            missing.append(link)
    return missing


def test_links_lead_somewhere() -> None:
    assert {name_of(page): links for page in PAGES if (links := broken(page, page.read_text()))} == {}


def test_broken_links_are_noticed() -> None:
    page = DOCS / "index.md"
    assert broken(page, "[a](nowhere.md), [b](#no-such-heading), ![c](images/none.png)") == [
        "nowhere.md",
        "#no-such-heading",
        "images/none.png",
    ]
    assert broken(page, "[a](reference/request.md#fields), `[b](nowhere.md)`, [c](https://example.org)") == []


def entries() -> list[re.Match[str]]:
    """The glossary's entries."""
    return list(ENTRY.finditer(GLOSSARY.read_text()))


def test_glossary_is_in_order_and_says_each_term_in_a_sentence() -> None:
    terms = [entry["term"] for entry in entries()]
    assert len(terms) > 40
    assert len(terms) == GLOSSARY.read_text().count("\n:   ")
    assert terms == sorted(terms, key=str.casefold)
    for entry in entries():
        sentence, more = entry["text"].rsplit("\n", 1)
        assert re.fullmatch(r"[A-Z][^\n]*(?:\n[^\n]*)*[^.]\.", sentence), entry["term"]
        assert ". " not in sentence, entry["term"]
        assert re.fullmatch(r"    \[More\]\([^)]+\)", more), entry["term"]


def test_terms_of_the_glossary_are_used_and_linked() -> None:
    texts = {page: page.read_text() for page in [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md"] if page != GLOSSARY}
    everything = "\n".join(texts.values()).casefold()
    assert [entry["term"] for entry in entries() if entry["term"].casefold() not in everything] == []
    assert sum("glossary.md" in text for text in texts.values()) >= 5
