"""The words of the product: standard terms in names, one meaning for each public class, and sentences read once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.repository import ROOT, name_of, product_modules, tracked_files

ROOMS = ("benchmarks", "dags", "dp_operators", "examples", "spark_jobs")
"""The folders whose names are checked."""

RETIRED_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        ample asked chosen drowned each faint faults found hardly heard held judge judged kin least look looking looks
        made most placing said say says seen settle settled settles settling standing tell telling tells tidy told
        warmed witness witnesses
        """,
    )
)
"""Words that no name of the product has; the field has a term for each thing that they named."""

TERMS = {
    "at_least": "the comparison >=",
    "at_most": "the comparison <=, and what is an upper limit",
    "least_squares": "the method of statistics",
    "held_out": "rows or tables kept for a test, as everywhere in statistics",
    "settled_at": "a column of the ledger's schema",
    "look": "the verb of a backend that asks whether an application still runs",
    "bounds_found": "a field of released results, which manifests and report pages contain",
}
"""Names, or parts of them, that stay although they contain a retired word, each with the reason."""

SHARED_CLASS_NAMES = {"Call": "the signature of ``release`` in every diagnostic's package, which nothing imports"}
"""Public classes that several modules define under one name, each with the reason."""

RETIRED_PHRASES = re.compile(
    r"""
    where\ the\ noise\ comes\ from | \btold\ apart | \btells?\ (\w+\ )?apart | \bits\ kin\b | \btold\ as\b
    | \bNone\ if\ there\ is\ none | \bthat\ (is|are)\ none\b | \blooks?\ at\ the\ data | \bthe\ noise\ knows
    | \btold\ (rightly|wrongly) | \bis\ heard\b | \bbear\w*\ witness | \bif\ of\ nothing
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Phrases that had to be read twice."""


def bound_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every name that a module binds, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield name, node.lineno


def retired_words(name: str) -> set[str]:
    """The retired words in a name, of snake case or camel case, apart from ``TERMS``."""
    words = "_".join(re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)).lower()
    for term in TERMS:
        words = re.sub(rf"(?:^|(?<=_)){term}(?=_|$)", "", words)
    return RETIRED_WORDS.intersection(words.split("_"))


def retired_names(text: str) -> list[str]:
    """The bound names of a module that have a retired word, as ``line: name``."""
    return [f"{line}: {name}" for name, line in bound_names(ast.parse(text)) if retired_words(name)]


def repeated_classes(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Names of public classes that several modules define, with these modules."""
    places = defaultdict(list)
    for place, text in texts.items():
        for name in re.findall(r"^class ([a-zA-Z]\w*)", text, re.MULTILINE):
            places[name].append(place)
    return {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED_CLASS_NAMES}


def retired_phrases(text: str) -> list[str]:
    """The retired phrases in a text, also where a phrase runs over the end of a line."""
    joined = re.sub(r"\s*\n\s*(?:#+ )?", " ", text)
    return [found[0] for found in RETIRED_PHRASES.finditer(joined)]


def prose() -> Iterator[tuple[Path, str]]:
    """The product's modules, its README and its documentation."""
    for path in tracked_files():
        parts = path.relative_to(ROOT).parts
        source = path.suffix == ".py" and parts[0] in ("spark_jobs", "dp_operators", "dags", "examples")
        if source or (path.suffix == ".md" and (parts[0] == "docs" or parts == ("README.md",))):
            yield path, path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_names_have_no_retired_words(room: str) -> None:
    modules = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(ROOT / room)]
    assert modules
    offences = {name_of(path): retired_names(path.read_text(encoding="utf-8")) for path in modules}
    assert not {name: names for name, names in offences.items() if names}


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "class Witness: ...",
        "def settleCharge(): ...",
        "def f(*, LEAST_ROWS): ...",
        "async def told_rightly(): ...",
        "self.bounds_chosen = 1",
        "for each in range(3): ...",
        "import numpy as tidy",
        "held_out_and_found = 1",
        "match x:\n    case [seen, *_]: ...",
    ],
)
def test_a_retired_word_in_a_name_is_reported(text: str) -> None:
    assert len(retired_names(text)) == 1


@pytest.mark.parametrize(
    "text", ["foundation = 1", "least_squares(x)", "def least_squares_fit(HELD_OUT): ...", "madeira = 0"]
)
def test_terms_and_longer_words_are_not_reported(text: str) -> None:
    assert retired_names(text) == []


def test_every_term_that_stays_is_still_used() -> None:
    names = " ".join(path.read_text(encoding="utf-8").lower() for path in tracked_files() if path.suffix == ".py")
    assert [term for term in TERMS if term not in names] == []


def test_public_classes_have_names_of_their_own() -> None:
    assert repeated_classes({name_of(path): path.read_text(encoding="utf-8") for path in product_modules()}) == {}


def test_a_class_name_that_is_used_twice_is_reported() -> None:
    texts = {
        "a.py": "class Draft: ...\nclass _Part: ...",
        "b.py": "class Draft: ...\nclass _Part: ...",
        "c.py": "Draft = 1",
    }
    assert repeated_classes(texts) == {"Draft": ["a.py", "b.py"]}


@pytest.mark.slow
def test_prose_has_no_retired_phrases() -> None:
    offences = {name_of(path): retired_phrases(text) for path, text in prose()}
    assert len(offences) > 300
    assert not {name: phrases for name, phrases in offences.items() if phrases}


@pytest.mark.parametrize(
    "text",
    [
        "noise: where the noise comes from.",
        "Two models are told\n    apart by it.",
        "# sizes that a grid can tell\n# apart",
        "``soft_fail`` and its kin are refused",
        "The charge; None if there is none.",
        "Refuse a private folder that is none.",
        "This looks at the data twice.",
        "rho, told as an epsilon at a delta",
    ],
)
def test_a_retired_phrase_is_reported(text: str) -> None:
    assert len(retired_phrases(text)) == 1
