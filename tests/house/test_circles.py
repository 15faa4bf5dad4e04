"""No product module imports itself through others, be it inside a function or for type checking alone."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from tests.support.repository import ROOT, product_modules
from tests.support.rooms import Graph, imports


def circle(graph: Mapping[str, Set[str]]) -> list[str]:
    """One circle of imports, from a module back to it; empty if there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []


@pytest.mark.slow
def test_no_module_imports_itself_through_others() -> None:
    graph = imports(ROOT, product_modules())
    assert len(graph) > 300
    assert "spark_jobs.contract.errors" in graph["spark_jobs.contract.request"]
    assert circle(graph) == []


MODULES = {"__init__": "", "low": "", "middle": "from package import low\n", "top": "import package.middle\n"}


@pytest.mark.parametrize(
    "upwards",
    [
        "import package.top\n",
        "from package import top\n",
        "from package.top import thing as other\n",
        "from . import top\n",
        "from .top import thing\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package.top import Thing\n",
        "def late():\n    from package.top import thing\n    return thing\n",
    ],
)
def test_a_circle_is_found_however_it_is_closed(tmp_path: Path, upwards: str) -> None:
    def graph_of(modules: Mapping[str, str]) -> Graph:
        for name, text in modules.items():
            path = tmp_path / "package" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return imports(tmp_path, tuple(tmp_path.rglob("*.py")))

    assert circle(graph_of(MODULES)) == []
    around = circle(graph_of({**MODULES, "low": upwards}))
    assert around[0] == around[-1]
    assert set(around) == {"package.low", "package.middle", "package.top"}


@pytest.mark.parametrize("stub", [False, True])
def test_a_package_that_exports_what_imports_it_is_a_circle(tmp_path: Path, stub: bool) -> None:
    (tmp_path / "package").mkdir()
    exporting, part = tmp_path / "package" / "__init__.py", tmp_path / "package" / "part.py"
    exporting.write_text("", encoding="utf-8")
    export = exporting.with_suffix(".pyi") if stub else exporting
    export.write_text("from package.part import thing\nLIMIT = 3\n", encoding="utf-8")
    part.write_text("from package import LIMIT\n", encoding="utf-8")
    assert set(circle(imports(tmp_path, (exporting, part)))) == {"package", "package.part"}
