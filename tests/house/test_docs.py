"""The documentation: it builds, its code runs, its requests parse, its commands exist."""

from __future__ import annotations

import configparser
import importlib
import importlib.util
import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from spark_jobs.contract import InvalidRequest, PrivacyUnit, ReleaseRequest
from spark_jobs.contract.input_suites import InputSuite
from spark_jobs.contract.jdbc import JdbcConnection
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.options.lookups import names_lookup
from spark_jobs.contract.options.streams import LocalLevelMethod, PegasusMethod
from spark_jobs.contract.public_groups import is_registered
from spark_jobs.contract.stated_scale import STATED
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.stream_states import StreamStates
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.contract.tables import (
    ColumnsModel,
    Label,
    LinearModel,
    LogisticModel,
    Scoring,
    Snapshot,
    SparkMLModel,
    TableSource,
)
from spark_jobs.contract.written import read_written
from tests.support.code_blocks import Block, code_blocks
from tests.support.repository import ROOT, lines_of, name_of, tracked_files
from tests.support.warm_process import WarmProcess, warm_process

PAGES = [
    path
    for path in tracked_files()
    if path.suffix == ".md" and (path.parent == ROOT or path.is_relative_to(ROOT / "docs"))
]
BLOCKS = [block for page in PAGES for block in code_blocks(page)]
LANGUAGES = {"bash", "diff", "ini", "json", "python", "sql", "text", "yaml"}
FILES = ("--filename", "--values", "--file=docker/kubernetes/database.sql")
"""Options of programs that are not ours, which name files of ours."""
FOLLOWED = "docs/contributing/adding-a-diagnostic.md"
"""Its Python is that of files, which ``test_adding_a_diagnostic.py`` makes and runs."""
ELSEWHERE = "budget_role.py"
"""A program for FAB's provider, which ``test_fab_permission.py`` runs."""
USES_AIRFLOW = re.compile(r"^\s*(?:from|import) (?:airflow|dp_operators\.(?:operators|sensors|hooks))", re.MULTILINE)


def named(block: Block) -> str:
    return f"{name_of(block.page)}:{block.line}"


def blocks_in(*languages: str) -> list[Any]:
    return [pytest.param(block, id=named(block)) for block in BLOCKS if block.language in languages]


def pages_with_python() -> list[Any]:
    """Pages whose Python is run, and which of them need Airflow."""
    pages: dict[Path, str] = {}
    for block in BLOCKS:
        if block.language == "python" and name_of(block.page) != FOLLOWED and block.title != ELSEWHERE:
            pages[block.page] = pages.get(block.page, "") + block.code
    return [pytest.param(page, id=name_of(page), marks=marks_of(page, code)) for page, code in pages.items()]


def marks_of(page: Path, code: str) -> list[pytest.MarkDecorator]:
    """A page's engine, and its tier: only the first pages that a reader tries run in ``make test``."""
    marks = [pytest.mark.airflow] if USES_AIRFLOW.search(code) else []
    return marks if page.parent == ROOT or page.parent.name == "how-to" else [*marks, pytest.mark.verify]


def test_every_block_says_its_language() -> None:
    assert len(BLOCKS) > 10
    assert [named(block) for block in BLOCKS if block.language not in LANGUAGES] == []


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmProcess]:
    """A process with an Airflow of its own that has imported what pages import, and runs each in a fork of itself."""
    home = tmp_path_factory.mktemp("airflow")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AIRFLOW_HOME": str(home)}
    with warm_process({**environment, "AIRFLOW__CORE__LOAD_EXAMPLES": "false"}) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with_python())
def test_python_of_a_page_runs(page: Path, tmp_path: Path, warm: WarmProcess) -> None:
    code, output = warm.run(
        program([block for block in code_blocks(page) if block.language == "python" and block.title != ELSEWHERE]),
        tmp_path,
    )
    assert code == 0, output


@pytest.mark.slow
def test_failing_python_is_noticed(tmp_path: Path, warm: WarmProcess) -> None:
    for code in ("raise SystemExit('no')\n", "1 / 0\n", "import no_such_module\n"):
        broken = Block(page=ROOT / "README.md", line=1, language="python", title="", code=code)
        assert warm.run(program([broken]), tmp_path)[0] != 0
    code, output = warm.run("raise ValueError('a word')", tmp_path)
    assert "a word" in output
    assert warm.run("import os; assert os.listdir() == []", tmp_path) == (0, "")


def program(blocks: list[Block]) -> str:
    """Blocks one after the other, each with the page and the line that it has in a traceback."""
    return "".join(
        f"exec(compile({block.code!r}, {f'{name_of(block.page)}:{block.line}'!r}, 'exec'), globals())\n"
        for block in blocks
    )


@pytest.mark.parametrize("block", blocks_in("json", "yaml"))
def test_requests_and_their_parts_parse(block: Block) -> None:
    data = json.loads(block.code) if block.language == "json" else yaml.safe_load(block.code)
    parse_documented(data)


def with_entries(dimension: Any) -> Any:
    """A dimension with what a ledger would have for the name of a lookup."""
    if not isinstance(dimension, dict) or not names_lookup(dimension):
        return dimension
    name = dimension["lookup"]
    return {**dimension, "lookup": {"name": name, "key": "key", "value": name.rstrip("s"), "entries": [["a", "b"]]}}


def parse_documented(data: dict[str, Any]) -> None:
    """Parse a request, or a part of one, as it is shown on a page."""
    from dp_operators.operators.dag_files import DagFile

    if "apiVersion" in data:
        [container] = data["spec"]["template"]["spec"]["containers"]
        check_command(container["command"])
    elif set(data) == {"diagnostics"}:
        for options in data["diagnostics"]:
            if isinstance(options.get("groups"), dict):
                assert is_registered(options["groups"])
                options = {**options, "groups": ["a key of the list"]}
            if options.get("by"):
                options = {**options, "by": list(map(with_entries, options["by"]))}
            DIAGNOSTICS[options["kind"]].parse(options)
    elif set(data) == {"model", "diagnostics"}:
        rest = {
            "table": {"path": "/lake/t", "snapshot": {"path_version": "v1"}},
            "label": "y",
            "budget": {"epsilon": 1},
        }
        ReleaseRequest.parse({**rest, **data})
    elif "diagnostics" in data:
        read_written(ReleaseRequest, data)
    elif "request" in data:
        read_written(ReleaseRequest, DagFile.parse(data).request)
    elif "time" in data:
        StreamRequest.parse(data)
    elif "snapshot" in data:
        TableSource.parse(data)
    elif "unit" in data:
        PrivacyUnit.parse(data["unit"])
    elif "dp_diagnostics" in data:
        assert len(backends_of(data)) == 1
    elif "deploy-mode" in data:
        from airflow.sdk import Connection

        from dp_operators.tasks.runners import spark_backend

        fields = {
            "conn_type": "spark",
            "host": "k8s://https://api.example.org",
            "port": 6443,
            "extra": json.dumps(data),
        }
        assert spark_backend(Connection(conn_id="x", **fields), conf={}, private_dir=None).kind == "kubernetes"
    elif "expectations" in data:
        InputSuite.parse(data)
    elif all(name.endswith(".parquet") for name in data):  # suites for files of a release
        from great_expectations import ExpectationSuite

        for suite in data.values():
            assert len(ExpectationSuite(**suite).expectations) == len(suite["expectations"])
    elif set(data) == {"warehouse"}:
        JdbcConnection.parse(data["warehouse"])
    elif "conn_type" in data:
        from airflow.sdk import Connection

        from dp_operators.hooks.ledger import ledger_url

        assert ledger_url(Connection.from_json(json.dumps(data), conn_id="documented"))
    else:
        raise AssertionError("a block of JSON or YAML that is no known thing")


def backends_of(extra: dict[str, Any]) -> list[str]:
    """The types of connection that may have this extra."""
    from airflow.sdk import Connection

    from dp_operators.backends.handles import PROVIDERS

    types = []
    for backend in PROVIDERS:
        with suppress(InvalidRequest):
            backend.of(Connection(conn_id="a", extra=json.dumps(extra)), conf={})
            types.append(backend.connection_type)
    return types


@pytest.mark.parametrize(
    "data",
    [
        {"diagnostics": "roc_curve", "budget": {"epsilon": 1}},
        {"name": "a", "expectations": [{"type": "expect_column_values_to_be_unique", "kwargs": {"column": "a"}}]},
        {"format": "csv", "path": "/lake/t", "snapshot": {"path_version": "v1"}},
        {"unit": {"column": "person", "max_rows": 0}},
        {"diagnostics": [{"kind": "roc_curve", "confidence": 2}]},
        {"model": {"kind": "columns"}, "diagnostics": ["roc_curve"]},
        {"conn_type": "privacy_ledger", "host": "db.example.org"},
        {"warehouse": {"url": "jdbc:postgresql://db/lake", "tables": ["visits"]}},
    ],
)
def test_documents_that_do_not_parse_are_noticed(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        parse_documented(data)


SECTIONS = {
    "Fields": [ReleaseRequest],
    "Table": [TableSource],
    "Snapshot": [Snapshot],
    "Label": [Label],
    "Model": [ColumnsModel, LinearModel, LogisticModel, SparkMLModel],
    "Scoring": [Scoring],
    "Streams": [StreamRequest],
    "States": [StreamStates],
    "Stream methods": [LocalLevelMethod, PegasusMethod],
    **{kind: [options] for kind, options in DIAGNOSTICS.items()},
}


@pytest.mark.parametrize("section", SECTIONS)
def test_reference_lists_every_field_of_a_request(section: str) -> None:
    text = (ROOT / "docs" / "reference" / "request.md").read_text()
    found = re.search(rf"^##+ {section}$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found
    tables = re.findall(r"^\| field \|.*?\n\n", found.group(1) + "\n\n", re.MULTILINE | re.DOTALL)
    listed = set(re.findall(r"^\| `(\w+)` \|", "".join(tables), re.MULTILINE))
    fields = {field for model in SECTIONS[section] for field in model.model_fields}
    if section == "Streams":  # the others are those of a release
        fields -= set(TableRequest.model_fields)
    if section == "Model":  # what is kept of them is the scale alone
        fields |= set(STATED)
    assert listed - {"kind"} == fields - {"kind"}


@pytest.mark.parametrize("block", blocks_in("bash"))
def test_commands_exist(block: Block) -> None:
    commands = [shlex.split(line, comments=True) for line in block.code.replace("\\\n", " ").splitlines()]
    commands = [command for command in commands if command]
    assert commands
    for command in commands:
        check_command(command)


@pytest.mark.parametrize("block", blocks_in("ini"))
def test_services_run_commands_that_exist(block: Block) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(block.code)
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    check_command([Path(program).name, *arguments])


def check_command(command: list[str]) -> None:
    """Fail unless the command, with its sub-command and options, is one that there is."""
    while re.fullmatch(r"[A-Z_]+=.*", command[0]):
        command = command[1:]
    if ">" in command:
        command = command[: command.index(">")]
    program, *arguments = command
    if program == "export":
        assert all("=" in word for word in arguments), command
    elif program in ("source", "cat"):
        assert arguments in (["settings.sh"], ["customers.yaml"]), command  # what `dp-budget init` writes
    elif program == "make":
        assert set(arguments) <= make_targets(), command
    elif program == "dp-budget":
        assert parses_as_dp_budget(arguments), command
    elif program == "python" and arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]), command
        if arguments[1] == "spark_jobs":
            assert parses_as_application(arguments[2:]), command
    elif program == "python":
        assert arguments[0] in {block.title for block in BLOCKS if block.language == "python"}, command
    elif program == "docker":
        files = [arguments[i + 1] for i, word in enumerate(arguments) if word == "--file"]
        assert all((ROOT / file).is_file() for file in files), command
    elif program == "airflow":
        assert arguments[0] in ("connections", "providers"), command
    elif program in ("kubectl", "helm", "psql"):
        files = [word.partition("=")[2] or arguments[i + 1] for i, word in enumerate(arguments) if word in FILES]
        assert all((ROOT / file).is_file() for file in files), command
    elif program == "pg_restore":
        assert "--exit-on-error" in arguments, command
    elif program == "pip":
        assert arguments[0] == "install", command
    elif program.startswith(".venv/bin/"):
        assert (Path(sys.executable).parent / Path(program).name).exists(), command
    else:
        assert (ROOT / program).is_file(), command


@pytest.mark.parametrize(
    "command",
    [
        "make everything",
        "dp-budget squander",
        "python -m spark_jobs",
        "python -m spork_jobs x",
        "docker/make-env-not",
        "python no_such_file.py",
        "dp-budget open --no-such-option",
    ],
)
def test_commands_that_do_not_exist_are_noticed(command: str) -> None:
    with pytest.raises(AssertionError):
        check_command(command.split())


@cache
def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def parses_as_application(arguments: list[str]) -> bool:
    from spark_jobs.application.main import parser

    try:
        parser().parse_args(arguments)
    except SystemExit as ended:
        return ended.code == 0
    return True


@cache
def dp_budget() -> Any:
    """The commands behind the console script ``dp-budget``."""
    import typer

    scripts = dict(line.split(" = ") for line in lines_of("options.entry_points", "console_scripts"))
    module = importlib.import_module(scripts["dp-budget"].partition(":")[0])
    return typer.main.get_command(module.app)


def parses_as_dp_budget(arguments: list[str]) -> bool:
    from typer.exceptions import TyperException

    command = dp_budget().commands.get(arguments[0])
    if command is not None and hasattr(command, "commands"):  # a group, as `keys`
        arguments = arguments[1:]
        command = command.commands.get(arguments[0]) if arguments else None
    if command is None:
        return False
    try:
        command.make_context(arguments[0], arguments[1:])
    except TyperException:
        return False
    return True


def test_reference_lists_every_command_and_option() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    for name, command in dp_budget().commands.items():
        section = re.search(rf"^### {name}$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
        assert section, name
        parts = [command, *getattr(command, "commands", {}).values()]
        parameters = [parameter for part in parts for parameter in part.params]
        options = {option for parameter in parameters for option in parameter.opts if option.startswith("--")}
        shown = set(re.findall(r"`(--[a-z-]+)", section.group(1)))
        assert options - {"--help", "--ledger"} <= shown <= options, name


def test_reference_lists_the_applications_arguments() -> None:
    from spark_jobs.application.main import parser

    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    section = text.partition("## python -m spark_jobs")[2].partition("\n## ")[0]
    for action in parser()._actions:
        assert all(f"`{option}" in section for option in action.option_strings if option not in ("-h", "--help")), (
            action
        )


FETCHED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*?(?:src|href)=\"?(?:https?:)?//[^\s\">]+", re.IGNORECASE
)


def fetched(page: str) -> list[str]:
    """What a browser would ask other hosts for on its own; links that a reader may follow are none of it."""
    return [tag for tag in FETCHED.findall(page) if 'rel="canonical"' not in tag]


def test_resources_of_other_hosts_are_found() -> None:
    assert fetched('<script async src="https://cdn.example/x.js">')
    assert fetched('<link rel="stylesheet" href="//fonts.example/css">')
    assert not fetched('<a href="https://example.org">')


def test_every_page_is_in_the_navigation_once() -> None:
    nav = expanded(ROOT / "docs", yaml.safe_load(NAVIGATION.search((ROOT / "mkdocs.yml").read_text())["nav"])["nav"])
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in PAGES if path.is_relative_to(ROOT / "docs")}
    assert sorted(leaves(nav)) == sorted(pages)


def test_folders_of_the_navigation_become_their_pages(tmp_path: Path) -> None:
    for page in ("growing/index.md", "growing/a.md", "growing/b.md", "other/c.md"):
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).touch()
    nav = [{"Home": "index.md"}, {"Explanation": ["other/c.md", {"Growing": "growing/"}]}]
    growing = ["growing/index.md", "growing/a.md", "growing/b.md"]
    assert expanded(tmp_path, nav) == [{"Home": "index.md"}, {"Explanation": ["other/c.md", {"Growing": growing}]}]


NAVIGATION = re.compile(r"^(?P<nav>nav:\n(?:  .*\n)+)", re.MULTILINE)


def expanded(docs: Path, nav: list[Any]) -> Any:
    """What ``docs/site_hooks.py`` makes of a navigation."""
    return site_hooks().on_config({"docs_dir": str(docs), "nav": nav})["nav"]


def site_hooks() -> Any:
    """The module ``docs/site_hooks.py``."""
    specification = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
    assert specification
    assert specification.loader
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    return hooks


def leaves(nav: Any) -> list[str]:
    """The pages of a navigation, as often as it names them."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in leaves(part)]


def test_links_of_the_front_page_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
        assert [target for target in targets if not (ROOT / target).exists()] == [], page.name


def test_front_page_fits_a_screen() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 60
    (dag,) = (block for block in code_blocks(ROOT / "README.md") if block.language == "python")
    assert len([line for line in dag.code.splitlines() if line.strip()]) <= 12


FALSE = (
    "without telling anything",
    "delta is 0 for every release",
    "where it is flat there are none",
    "almost as likely had any one person",
)
"""Sentences that pages have said and that are not so."""


def test_pages_do_not_say_what_is_not_so() -> None:
    texts = [path for path in tracked_files() if path.suffix in (".md", ".py", ".html") and "tests" not in path.parts]
    said = {(name_of(path), words) for path in texts for words in FALSE if words in path.read_text()}
    assert said == set()
