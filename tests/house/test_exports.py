"""Packages export their public names, import nothing before one is used, and the reference lists all of them."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from spark_jobs.lazy import lazy_exports
from tests.support.repository import ROOT, product_modules

LAZY = sorted(
    ".".join(path.relative_to(ROOT).parent.parts)
    for path in product_modules()
    if path.name == "__init__.py" and "lazy_exports" in path.read_text()
)
HEAVY = ("airflow", "great_expectations", "matplotlib", "numpy", "opendp", "pandas", "pydantic", "pyspark", "scipy")
HEAVY += ("sklearn", "sqlalchemy")
IMPORTED = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_packages_of_the_reference_are_lazy() -> None:
    rooms = ("budget", "operators", "sensors", "hooks", "triggers", "notifications")
    spark = ("contract", "statistics", "mechanisms", "diagnostics")
    assert {f"dp_operators.{room}" for room in rooms} | {f"spark_jobs.{room}" for room in spark} <= set(LAZY)


def imported(*packages: str) -> set[str]:
    command = [sys.executable, "-c", IMPORTED, *packages]
    return set(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())


@pytest.mark.slow
def test_importing_a_package_imports_nothing_heavy() -> None:
    assert imported(*LAZY) & set(HEAVY) == set()
    assert {"numpy", "scipy"} <= imported("spark_jobs.diagnostics.roc_curve")


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_what_a_package_exports(package: str) -> None:
    stub = ast.parse((ROOT / package.replace(".", "/") / "__init__.pyi").read_text())
    names = []
    for node in stub.body:
        assert isinstance(node, ast.ImportFrom)
        assert f"{node.module}.".startswith(f"{package}.")
        assert all(alias.asname == alias.name for alias in node.names)  # a mark of what is exported, for mypy --strict
        names += [alias.name for alias in node.names]
    assert sorted(names) == importlib.import_module(package).__all__
    source = ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text())
    defined = {node.name for node in source.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert defined == set()  # type checkers read the stub alone


SLOW = [pytest.param(each, marks=[pytest.mark.slow]) if each.startswith("dp_operators") else each for each in LAZY]
"""Some of these import Airflow."""


@pytest.mark.parametrize("package", SLOW)
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__all__
    for name in module.__all__:
        value = getattr(module, name)
        assert vars(module)[name] is value
        assert getattr(value, "__module__", package).startswith(package.partition(".")[0])
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'Nonesuch'"):
        _ = module.Nonesuch


def test_names_are_imported_when_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "lazy_example"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    origins = {"lazy_example.one": "A as A, B as B", "lazy_example": "one as one", "lazy_example.two": "C as C"}
    stub = "\n".join(f"from {module} import {names}" for module, names in origins.items())
    (folder / "__init__.pyi").write_text(stub)
    (folder / "one.py").write_text("A, B = 1, 2\n")
    (folder / "two.py").write_text("raise ImportError('why')\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("lazy_example")
    attribute, names, public = lazy_exports("lazy_example")
    assert public == ["A", "B", "C", "one"]
    assert "lazy_example.one" not in sys.modules
    assert attribute("A") == 1
    assert package.A == 1
    assert attribute("one") is sys.modules["lazy_example.one"]
    assert {"A", "B", "C", "__name__"} <= set(names())
    with pytest.raises(ImportError, match="why"):
        attribute("C")
    with pytest.raises(AttributeError, match="module 'lazy_example' has no attribute 'D'"):
        attribute("D")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """The script that writes the reference page."""
    specification = importlib.util.spec_from_file_location("python_reference", ROOT / "docs" / "python_reference.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_reference_lists_every_exported_name(reference: ModuleType) -> None:
    text = reference.PAGE.read_text()
    assert set(reference.BLOCK.sub(r"\2", text).split()) >= set(LAZY)
    assert reference.page(text) == text, "out of date: run `python docs/python_reference.py`"
    line = next(line for line in text.splitlines() if line.startswith("| [`ScoreCounts`]"))
    assert reference.page(text.replace(line, "")) == text


@pytest.mark.slow
@pytest.mark.parametrize("package", LAZY)
def test_every_exported_name_says_what_it_is(reference: ModuleType, package: str) -> None:
    names = importlib.import_module(package).__all__
    assert [name for name in names if len(reference.summary(package, name).split()) < 2] == []
