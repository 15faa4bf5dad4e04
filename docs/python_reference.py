"""Writes the lists of ``reference/python.md`` from what the packages export: ``python docs/python_reference.py``."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import typing
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

DOCS = Path(__file__).parent
PAGE = DOCS / "reference" / "python.md"
OPTIONS = "spark_jobs.contract.options"
BLOCK = re.compile(r"(<!-- exports of ([\w.]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def sources() -> griffe.GriffeLoader:
    """The product's source, read and not run, for the docstrings of constants too."""
    loader = griffe.GriffeLoader(search_paths=[DOCS.parent])
    for package in ("spark_jobs", "dp_operators"):
        loader.load(package)
    loader.resolve_aliases(implicit=True, external=False)
    return loader


@cache
def shown_elsewhere() -> frozenset[str]:
    """The full names that other pages document."""
    pages = (page.read_text() for page in DOCS.rglob("*.md") if page != PAGE)
    return frozenset(name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE))


def summary(package: str, name: str) -> str:
    """The first sentence of a public name's docstring; empty if it has none."""
    docstring = sources().modules_collection[f"{package}.{name}"].docstring
    paragraph = " ".join(docstring.value.split("\n\n")[0].split()) if docstring else ""
    sentence = re.split(r"(?<=[.:;]) (?=[A-Z`])", paragraph)[0].rstrip(".:;")
    return sentence.replace("``", "`").replace("|", "\\|")


def exports(package: str) -> str:
    """A table of a package's public names, then the documentation of each that no other page has."""
    module = importlib.import_module(package)
    rows, shown = [], []
    for name in module.__all__:
        value = getattr(module, name)
        path = f"{package}.{name}"
        if not isinstance(value, ModuleType):
            canonical = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
            path = canonical if canonical in shown_elsewhere() else path
        rows.append(f"| [`{name}`][{path}] | {summary(package, name)} |")
        if path not in shown_elsewhere():
            members = "\n    options:\n      members: false" if isinstance(value, ModuleType) else ""
            shown.append(f"::: {path}{members}")
    table = "\n".join(["| name | what it is |", "|---|---|", *rows])
    return "\n\n".join([table, *shown])


def kinds() -> str:
    """A table of the kinds of diagnostics, with the class of their settings and of their result."""
    package = importlib.import_module("spark_jobs.diagnostics")
    rows = []
    for name in package.__all__:
        diagnostic: Any = getattr(getattr(package, name), "DIAGNOSTIC", None)
        if diagnostic is not None:
            options = (base for base in diagnostic.call.__mro__ if base.__module__.startswith(OPTIONS))
            settings = next(options).__name__
            result = typing.get_type_hints(inspect.unwrap(diagnostic.summarise))["return"].__name__
            rows.append(
                f"| [`{name}`][{package.__name__}.{name}] | `{settings}` | [`{result}`][{package.__name__}.{result}] |"
            )
    return "\n".join(["| kind | settings | result |", "|---|---|---|", *rows])


def page(text: str) -> str:
    """The page with its lists written anew."""

    def block(match: re.Match[str]) -> str:
        begin, package, end = match.groups()
        return f"{begin}\n{kinds() if package == 'kinds' else exports(package)}\n\n{end}"

    return BLOCK.sub(block, text)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
