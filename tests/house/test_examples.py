"""The examples in docstrings give the results that they state."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.support.repository import ROOT

MODULES = sorted(
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for package in ("dp_operators", "spark_jobs")
    for file in (ROOT / package).rglob("*.py")
    if "    >>> " in file.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_are_true(module: str) -> None:
    results = doctest.testmod(importlib.import_module(module))

    assert results.attempted > 0
    assert results.failed == 0
