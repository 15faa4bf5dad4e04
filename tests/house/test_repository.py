"""What may lie in the repository, and what no product module may do."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
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
RANDOM_MODULES = {"random", "secrets", "numpy.random", "scipy.stats"}
NOISE = "spark_jobs/mechanisms/noise.py"
MODULE_LINES = 400
FUNCTION_LINES = 70


def texts() -> Iterator[tuple[Path, str]]:
    for path in tracked_files():
        try:
            yield path, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in product_modules():
        if "migrations" in path.parts:
            continue  # lists of statements, as alembic writes them
        yield path, ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def findings(pattern: re.Pattern[str], *, skip: Callable[[Path], bool] = lambda _: False) -> list[str]:
    return [
        f"{name_of(path)}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}"
        for path, text in texts()
        if not skip(path)
        for found in pattern.finditer(text)
    ]


def test_no_file_names_a_package_registry() -> None:
    assert findings(REGISTRY_HOST) == []


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


def test_no_assert_guards_the_product() -> None:
    guards = [f"{name_of(path)}:{node.lineno}" for path, tree in trees() for node in ast.walk(tree) if is_assert(node)]
    assert guards == []


def is_assert(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert)


def test_randomness_is_drawn_in_the_noise_module_alone() -> None:
    drawn = [
        f"{name_of(path)}:{line}: {what}"
        for path, tree in trees()
        if name_of(path) != NOISE
        for line, what in randomness(tree)
    ]
    assert drawn == []


def randomness(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Uses of a generator: numpy's, the standard library's, a distribution's ``rvs``, Spark's ``rand``."""
    calls = {"default_rng", "rvs", "rand", "randn", "RandomState", "urandom", "getrandbits", "shuffle"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in ("random", "numpy.random"))
        elif isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
            yield node.lineno, str(node.module)
        elif isinstance(node, ast.Attribute) and node.attr == "random" and isinstance(node.value, ast.Name):
            if node.value.id in ("np", "numpy"):
                yield node.lineno, "numpy.random"
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in calls:
                yield node.lineno, name


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
    assert list(randomness(ast.parse(source)))


def test_modules_and_functions_stay_short() -> None:
    long = [
        f"{name_of(path)}: {lines} lines"
        for path in product_modules()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES
    ]
    long += [
        f"{name_of(path)}:{node.lineno}: {node.name} has {size} lines"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        if (size := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert long == []


def test_no_exception_is_swallowed_in_silence() -> None:
    silent = [
        f"{name_of(path)}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")))
        and all(isinstance(statement, ast.Pass) for statement in node.body)
    ]
    assert silent == []


def test_types_of_arrays_have_one_module() -> None:
    types = {"NDArray[np.float64]", "NDArray[np.int64]", "NDArray[np.bool_]"}
    defining = {
        name_of(path)
        for path, tree in trees()
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value and ast.unparse(node.value) in types
    }
    assert defining == {"spark_jobs/arrays.py"}


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
