"""What may lie in the repository, and what no product module may do."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.repository import ROOT, name_of, product_modules, tracked_files

# Written in parts, so that these patterns do not find themselves.
REGISTRY_HOST = re.compile(
    "|".join(
        [
            r"py" + r"pi\.org",
            r"python" + r"hosted\.org",
            r"registry\." + r"npmjs",
            r"deb\." + r"debian",
            r"repo1?\.maven" + r"\.(?:org|apache)",
            r"conda\.ana" + r"conda",
            r"--(?:extra-)?index-" + r"url",
        ]
    )
)
MACHINE_PATH = re.compile(
    "|".join(
        [
            r"(?<![\w.-])/" + r"work/(?:main|shared)",
            r"(?<![\w.-])/" + r"home/(?!spark\b|airflow\b)\w",
            r"(?<![\w.-])/" + r"Users/\w",
            r"(?<![\w.-])/" + r"root/",
        ]
    )
)
MODULE_LINES = 400
FUNCTION_LINES = 70


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked_files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture


def findings(pattern: re.Pattern[str], *, skip: Callable[[Path], bool] = lambda _: False) -> list[str]:
    return [
        f"{name_of(path)}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}"
        for path, text in texts()
        if not skip(path)
        for found in pattern.finditer(text)
    ]


def test_no_file_names_a_package_registry() -> None:
    assert findings(REGISTRY_HOST) == []


@pytest.mark.slow
def test_no_file_holds_a_path_of_a_machine() -> None:
    assert findings(MACHINE_PATH) == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (REGISTRY_HOST, "https://py" + "pi.org/simple"),
        (REGISTRY_HOST, "--extra-index-" + "url x"),
        (MACHINE_PATH, "'/home/" + "someone/lake'"),
        (MACHINE_PATH, "file at /" + "work/main/x"),
    ],
)
def test_patterns_find_what_they_are_for(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)


def asserts(nodes: list[ast.AST]) -> Iterator[int]:
    """Assertions, which ``python -O`` leaves out."""
    return (node.lineno for node in nodes if isinstance(node, ast.Assert))


def randomness(nodes: list[ast.AST]) -> Iterator[int]:
    """Uses of a generator: numpy's, the standard library's, a distribution's ``rvs``, Spark's ``rand``."""
    calls = {"default_rng", "rvs", "rand", "randn", "RandomState", "urandom", "getrandbits", "shuffle"}
    for node in nodes:
        match node:
            case ast.Import() if {"random", "numpy.random"} & {alias.name for alias in node.names}:
                yield node.lineno
            case ast.ImportFrom(module="random" | "numpy.random"):
                yield node.lineno
            case ast.Attribute(attr="random", value=ast.Name(id="np" | "numpy")):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in calls:
                yield node.lineno


def long_functions(nodes: list[ast.AST]) -> Iterator[int]:
    """Functions of more lines than are read at once."""
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return (node.lineno for node in functions if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES)


def silent_handlers(nodes: list[ast.AST]) -> Iterator[int]:
    """Handlers of any exception that do nothing."""
    for node in nodes:
        match node:
            case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException"), body=[ast.Pass()]):
                yield node.lineno


def array_types(nodes: list[ast.AST]) -> Iterator[int]:
    """Definitions of the types of arrays."""
    types = {"NDArray[np.float64]", "NDArray[np.int64]", "NDArray[np.bool_]"}
    for node in nodes:
        match node:
            case ast.Assign(value=ast.Subscript() as value) | ast.AnnAssign(value=ast.Subscript() as value):
                if ast.unparse(value) in types:
                    yield node.lineno


RULES: dict[Callable[[list[ast.AST]], Iterator[int]], set[str]] = {
    asserts: set(),
    randomness: {"spark_jobs/mechanisms/noise.py"},
    long_functions: set(),
    silent_handlers: set(),
    array_types: {"spark_jobs/arrays.py"},
}
"""What no product module has, and the modules that have it by right."""


@cache
def lines_against_rules() -> dict[Callable[[list[ast.AST]], Iterator[int]], dict[str, list[int]]]:
    """By rule, the modules that have what it finds, with the lines; each module is parsed once for all rules."""
    against: dict[Callable[[list[ast.AST]], Iterator[int]], dict[str, list[int]]] = {rule: {} for rule in RULES}
    for path in product_modules():
        if "migrations" in path.parts:
            continue  # lists of statements, as alembic writes them
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))))
        for rule, by_module in against.items():
            if lines := list(rule(nodes)):
                by_module[name_of(path)] = lines
    return against


@pytest.mark.parametrize("rule", RULES)
def test_product_modules_keep_the_rule(rule: Callable[[list[ast.AST]], Iterator[int]]) -> None:
    against = lines_against_rules()[rule]
    assert {name: lines for name, lines in against.items() if name not in RULES[rule]} == {}
    assert against.keys() >= RULES[rule]


def test_modules_stay_short() -> None:
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in product_modules()}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from numpy.random import default_rng",
        "import numpy as np\nx = np.random.laplace()",
        "import os\nx = os.urandom(8)",
        "from scipy.stats import norm\nx = norm.rvs()",
    ],
)
def test_randomness_is_found(source: str) -> None:
    assert list(randomness(list(ast.walk(ast.parse(source)))))


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (asserts, "assert x"),
        (long_functions, "def f():\n" + "    x\n" * FUNCTION_LINES),
        (silent_handlers, "try:\n    f()\nexcept Exception:\n    pass"),
        (silent_handlers, "try:\n    f()\nexcept:\n    pass"),
        (array_types, "FloatArray = NDArray[np.float64]"),
        (array_types, "FloatArray: TypeAlias = NDArray[np.float64]"),
    ],
)
def test_what_is_against_a_rule_is_found(rule: Callable[[list[ast.AST]], Iterator[int]], source: str) -> None:
    assert list(rule(list(ast.walk(ast.parse(source)))))


def test_import_contracts_hold() -> None:
    lint_imports = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint_imports), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_dags_import_airflow_and_the_operators_alone() -> None:
    allowed = set(sys.stdlib_module_names) | {"airflow", "dp_operators", "examples", "__future__"}
    foreign = [
        f"{name_of(path)}:{node.lineno}: {module}"
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] == "dags"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for module in imported(node)
        if module.partition(".")[0] not in allowed
    ]
    assert foreign == []


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [str(node.module)]
    return []


def test_every_test_folder_mirrors_a_room() -> None:
    rooms = {path.parent.name for path in product_modules()} | {"spark_jobs", "dp_operators"}
    whole = {"audit", "cluster", "dags", "demo", "house", "support", "suites", "benchmarks", "browser", "upgrade"}
    folders = {
        path.relative_to(ROOT).parts[1]
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] == "tests" and len(path.relative_to(ROOT).parts) > 2
    }
    assert folders
    # two rooms are called checks: the release's own tests say so in their folder's name
    assert {folder.partition("_")[0] for folder in folders} <= rooms | whole


def test_secrets_and_environments_are_not_tracked() -> None:
    names = {name_of(path) for path in tracked_files()}
    assert not {name for name in names if re.search(r"(^|/)\.env$|\.pem$|(^|/)id_rsa|\.db$|\.sqlite3?$", name)}


def test_scripts_of_the_images_import_what_there_is():
    scripts = [path for path in tracked_files() if path.is_relative_to(ROOT / "docker") and path.suffix in ("", ".py")]
    imports = [
        (script.name, node.module, name.name)
        for script in scripts
        if "python" in (text := script.read_text(encoding="utf-8")).split("\n")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(("dp_operators", "spark_jobs"))
        for name in node.names
    ]
    assert imports
    missing = [one for one in imports if not hasattr(importlib.import_module(one[1]), one[2])]
    assert not missing
