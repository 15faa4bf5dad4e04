"""No product module imports itself through others, be it inside a function or for type checking alone."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Mapping, Set
from pathlib import Path

import pytest

from tests.support.repository import ROOT, product_modules

Graph = dict[str, set[str]]


def imports(root: Path, files: tuple[Path, ...]) -> Graph:
    """Each module with the modules among ``files`` that it names in an import, wherever in its text.

    ``from package import name`` is an import of ``package.name`` if that is a module, else of ``package``. That an
    import also runs the ``__init__`` of the packages above is left aside.
    """
    modules = {module_name(path.relative_to(root)): path for path in files}
    return {name: named(path, name, modules.keys()) - {name} for name, path in modules.items()}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def named(path: Path, name: str, modules: Set[str]) -> set[str]:
    """Those of ``modules`` that the module ``name`` imports."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    imported = set()
    # what a package exports stands in its stub
    texts = [one.read_text(encoding="utf-8") for one in (path, path.with_suffix(".pyi")) if one.exists()]
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (above, node.module) if part)
            inner = (f"{source}.{alias.name}" for alias in node.names)
            imported |= {each if each in modules else source for each in inner}
    return imported & modules


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
