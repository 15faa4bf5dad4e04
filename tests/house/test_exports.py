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
    tree = ast.parse((ROOT / package.replace(".", "/") / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name  # a mark of what is exported, for mypy --strict
            seen[alias.name] = alias.name if node.module == package else str(node.module).removeprefix(f"{package}.")
    mapping = next(node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    exported = {name: module for module, names in ast.literal_eval(mapping).items() for name in names.split()}
    assert seen == exported


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
    (folder / "one.py").write_text("A, B = 1, 2\n")
    (folder / "two.py").write_text("raise ImportError('why')\n")
    monkeypatch.syspath_prepend(tmp_path)
    package = importlib.import_module("lazy_example")
    attribute, names, public = lazy_exports("lazy_example", {"one": "A B one", "two": "C"})
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
