"""The rooms of the product: their lines, imports against their order, modules that nothing calls.

``python -m tests.support.rooms [COMMIT]`` prints lines by room; of a commit, if one is named.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from tests.support.repository import ROOT, lines_of, product_modules, tracked_files

Graph = dict[str, set[str]]

FLOORS = (
    "spark_jobs.arrays spark_jobs.lazy spark_jobs.numeric_threads",
    "spark_jobs.contract",
    "spark_jobs.wording",
    "spark_jobs.score_grid spark_jobs.tables spark_jobs.embedded spark_jobs.checks spark_jobs.publishing",
    "spark_jobs.statistics spark_jobs.mechanisms",
    "spark_jobs.papers",
    "spark_jobs.diagnostics",
    "spark_jobs.federation",
    "spark_jobs.application",
    "spark_jobs.forecast",
    "spark_jobs.commands",
    "spark_jobs.submit",
    "dp_operators.configuration dp_operators.task_settings dp_operators.get_provider_info",
    "dp_operators.budget",
    "dp_operators.releasing dp_operators.hooks",
    "dp_operators.backends dp_operators.release_check dp_operators.plugins",
    "dp_operators.tasks",
    "dp_operators.triggers dp_operators.links dp_operators.lineage dp_operators.notifications",
    "dp_operators.sensors",
    "dp_operators.operators",
    "dp_operators.decorators dp_operators.policies",
    "dp_operators.commands",
)
"""From the lowest to the highest: a room imports rooms of lower floors alone."""
COMMANDS = {
    "asked_release", "cli", "command_tools", "doctor", "dry_run", "many_requests", "profile_command", "release_order",
    "run_command", "set_up", "set_up_command", "sql_command", "stream_commands",
}  # fmt: skip
"""The modules of ``dp-budget`` beside its package's rooms."""
CALLED_BY_USERS = {
    "dp_operators.policies": "from airflow_local_settings.py",
    "spark_jobs.mechanisms.streams.window_filter": "in Python, of released counts: the sums of the page on streams",
}
CALLED_BY_FOLDER = ("dp_operators.budget.tables.migrations.",)
"""What alembic finds in a folder."""


def room(module: str) -> str:
    """The room of a module: ``spark_jobs.tables``. What is run from a command line is in ``commands``."""
    top, *inner = module.split(".")
    if not inner:
        return top
    return f"{top}.commands" if inner[-1] == "__main__" or inner[0] in COMMANDS else f"{top}.{inner[0]}"


def module_name(path: Path) -> str:
    """A file's name in imports; its path is relative to the root."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(root: Path, files: Iterable[Path]) -> Graph:
    """Each module with the modules among ``files`` that it names in an import, wherever in its text.

    ``from package import name`` is an import of ``package.name`` if that is a module, else of ``package``. What a
    package exports by its stub it imports. That an import also runs the ``__init__`` of the packages above is left
    aside.
    """
    modules = {module_name(path.relative_to(root)): path for path in files}
    return {
        name: {source for path_ in (path, path.with_suffix(".pyi")) if path_.exists()
               for source in _of_modules(_named(path_, name), modules.keys())} - {name}
        for name, path in modules.items()
    }  # fmt: skip


def callers(root: Path, files: Iterable[Path]) -> Graph:
    """Each module with the modules that import it or something of it, or have its name in a string.

    That a package exports a name is no call: whoever imports the name from the package calls its module.
    """
    modules = {module_name(path.relative_to(root)): path for path in files}
    exported = {
        (package, name): source
        for package, path in modules.items()
        if path.stem == "__init__" and path.with_suffix(".pyi").exists()
        for source, name in _named(path.with_suffix(".pyi"), package)
    }
    graph: Graph = {name: set() for name in modules}
    for name, path in modules.items():
        pairs = [(exported.get(pair, pair[0]), pair[1]) for pair in _named(path, name)]
        strings = {part for text in _strings(path) for part in (text.partition(":")[0], text.rpartition(".")[0])}
        for source in _of_modules(pairs, modules.keys()) | (strings & modules.keys()):
            if source != name:
                graph[source].add(name)
    return graph


def _named(path: Path, name: str) -> list[tuple[str, str]]:
    """Pairs of what a module imports from where; ("package.module", "") of ``import package.module``."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    pairs = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            pairs += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (above, node.module) if part)
            pairs += [(source, alias.name) for alias in node.names]
    return pairs


def _of_modules(pairs: Iterable[tuple[str, str]], modules: Set[str]) -> set[str]:
    return {inner if (inner := f"{source}.{name}") in modules else source for source, name in pairs} & modules


def _strings(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def arrows_up(graph: Mapping[str, Set[str]], floors: tuple[str, ...] = FLOORS) -> list[str]:
    """Imports of a room on the same or a higher floor, of a module in another room."""
    height = {name: level for level, names in enumerate(floors) for name in names.split()}
    between = ((name, source) for name in graph for source in graph[name] if room(name) != room(source))
    return sorted(
        f"{name} -> {source}"
        for name, source in between
        if "." in name and "." in source and height[room(name)] <= height[room(source)]
    )


def without_caller(root: Path, files: Iterable[Path]) -> list[str]:
    """Modules that no other module of the product calls, and that are no entrance.

    Entrances: packages, commands, what ``setup.cfg`` names, pages of kinds, which are found by their name, the public
    names of the Airflow side, which DAGs import, and ``CALLED_BY_USERS``.
    """
    paths = {module_name(path.relative_to(root)): path for path in files}
    graph = callers(root, paths.values())
    entrances = {line.partition("=")[2].partition(":")[0].strip() for line in entry_points()} | CALLED_BY_USERS.keys()
    for package, path in paths.items():
        stub = path.with_suffix(".pyi")
        if package.startswith("dp_operators.") and path.stem == "__init__" and stub.exists():
            entrances |= {source for source, _ in _named(stub, package)}
    return sorted(
        name
        for name, path in paths.items()
        if not graph[name]
        and path.stem not in ("__init__", "__main__", "page")
        and name not in entrances
        and not name.startswith(CALLED_BY_FOLDER)
        and 'if __name__ == "__main__":' not in path.read_text(encoding="utf-8")
    )


def entry_points() -> list[str]:
    """The lines of both wheels' entry points."""
    options = ("apache_airflow_provider", "airflow.plugins", "console_scripts")
    return [line for option in options for line in lines_of("options.entry_points", option)]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """All lines of files, and those of code: without docstrings, comments and blank lines."""

    files: int = 0
    lines: int = 0
    code: int = 0

    @classmethod
    def of(cls, text: str) -> Lines:
        """The lines of one file."""
        marks = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER)
        used = {
            line
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type not in marks
            for line in range(token.start[0], token.end[0] + 1)
        }
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
                used -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        return cls(files=1, lines=text.count("\n"), code=len(used))

    def __add__(self, other: Lines) -> Lines:
        return Lines(files=self.files + other.files, lines=self.lines + other.lines, code=self.code + other.code)


def lines_by_room(commit: str | None = None) -> dict[str, Lines]:
    """The lines of each room of the product, of its stubs, and of each folder of tests."""
    if commit is None:
        texts: dict[str, Path | None] = {path.relative_to(ROOT).as_posix(): path for path in tracked_files()}
    else:
        texts = dict.fromkeys(_git("ls-tree", "-r", "--name-only", commit).splitlines())
    sums: dict[str, Lines] = defaultdict(Lines)
    for name, path in texts.items():
        top, *inner = name.split("/")
        if top not in ("spark_jobs", "dp_operators", "tests") or not name.endswith((".py", ".pyi")):
            continue
        text = path.read_text(encoding="utf-8") if path else _git("show", f"{commit}:{name}")
        if name.endswith(".pyi"):
            key = "stubs"
        elif top == "tests":
            key = f"tests/{inner[0]}" if len(inner) > 1 else "tests"
        else:
            key = room(module_name(Path(name)))
        sums[key] += Lines.of(text)
    return dict(sums)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout


def sums_of(rooms: Mapping[str, Lines]) -> dict[str, Lines]:
    """The lines of all of the product and of all tests; stubs, which are written by programs, are in neither."""
    of_tests = {name for name in rooms if name.startswith("tests")}
    return {
        "product": sum((rooms[name] for name in rooms.keys() - of_tests - {"stubs"}), Lines()),
        "tests": sum((rooms[name] for name in of_tests), Lines()),
    }


def table(rooms: Mapping[str, Lines]) -> str:
    """Lines by room as a table."""
    counts = [*sorted(rooms.items()), *((f"all {name}", lines) for name, lines in sums_of(rooms).items())]
    rows = [f"{name:<32}{count.files:>7,}{count.lines:>9,}{count.code:>9,}" for name, count in counts]
    return "\n".join([f"{'room':<32}{'files':>7}{'lines':>9}{'code':>9}", *rows])


if __name__ == "__main__":
    sys.stdout.write(f"{table(lines_by_room(*sys.argv[1:]))}\n")
    files = product_modules()
    sys.stdout.write(f"arrows up: {arrows_up(imports(ROOT, files)) or 'none'}\n")
    sys.stdout.write(f"modules without a caller: {without_caller(ROOT, files) or 'none'}\n")
