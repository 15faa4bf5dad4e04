"""Both setup.cfg, the lock file, and the wheels that are made of them."""

from __future__ import annotations

import configparser
import importlib.metadata
import re
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.repository import ROOT, lines_of, name_of, setup_cfg, tracked_files
from tests.support.wheels import AIRFLOW_SIDE, FOLDERS, SPARK_SIDE, build_wheels

PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)


@pytest.fixture(scope="module")
def locked() -> dict[str, list[Version]]:
    found: dict[str, list[Version]] = {}
    for name, version in PINNED.findall((ROOT / "requirements.lock").read_text()):
        found.setdefault(canonicalize_name(name), []).append(Version(version))
    return found


def development() -> list[str]:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    return [line for line in groups["dev"] if isinstance(line, str)]


def declared() -> list[Requirement]:
    """What both wheels require of other projects, with their extras but those of other providers."""
    lines = [line for project in FOLDERS.values() for line in lines_of("options", "install_requires", project)]
    lines += [line for extra in setup_cfg("spark_jobs")["options.extras_require"] for line in extra_of(extra)]
    lines += lines_of("options.extras_require", "accounting")
    return [each for each in map(Requirement, lines) if each.name not in FOLDERS]


def extra_of(extra: str) -> list[str]:
    return lines_of("options.extras_require", extra, "spark_jobs")


def requirements() -> list[Requirement]:
    return [*declared(), *map(Requirement, development())]


def test_lock_file_holds_every_requirement_at_a_version_it_allows(locked: dict[str, list[Version]]) -> None:
    # PySpark's client is PySpark's own files again, which the lock file has with Spark
    wanted = [requirement for requirement in requirements() if requirement.name != "pyspark-client"]
    assert len(wanted) > 30
    missing = [
        str(requirement)
        for requirement in wanted
        if not any(
            requirement.specifier.contains(version) for version in locked.get(canonicalize_name(requirement.name), [])
        )
    ]
    assert missing == []


def test_every_python_gets_the_same_versions(locked: dict[str, list[Version]]) -> None:
    """Types are checked, and figures measured, with one version of each package."""
    assert {name: versions for name, versions in locked.items() if len(versions) > 1} == {}


def test_every_locked_version_has_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 100
    assert [entry.splitlines()[0] for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)] == []


def test_constraints_are_the_locked_versions(locked: dict[str, list[Version]]) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert {line.split("==")[0]: [Version(line.split("==")[1].split(" ;")[0])] for line in lines} == locked


def test_environment_is_the_locked_one(locked: dict[str, list[Version]]) -> None:
    for name in ("apache-airflow", "pyspark", "opendp", "great-expectations", "numpy", "scipy", "sqlalchemy"):
        assert Version(importlib.metadata.version(name)) in locked[name]


def test_version_is_said_once_and_the_same_everywhere() -> None:
    import dp_operators
    import spark_jobs

    version = setup_cfg()["metadata"]["version"]
    assert version == setup_cfg("spark_jobs")["metadata"]["version"]
    assert version == dp_operators.__version__ == spark_jobs.__version__
    assert (
        f"[{version}]" in (ROOT / "CHANGELOG.md").read_text() or "[Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
    )


def test_users_need_no_lock_and_no_override() -> None:
    """What ``pip install`` reads holds ranges alone: no pins, no direct URLs."""
    for requirement in declared():
        assert requirement.url is None
        assert requirement.specifier, requirement
        assert not [part for part in requirement.specifier if part.operator in ("==", "===")], requirement


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, zipfile.ZipFile]:
    """The wheels of what is or would be committed, built without a network."""
    built = build_wheels(tmp_path_factory.mktemp("wheels"))
    return {name: zipfile.ZipFile(path) for name, path in built.items()}


TOPS = {AIRFLOW_SIDE: "dp_operators", SPARK_SIDE: "spark_jobs"}
NOT_PACKED = ("README.md", "LICENSE", "setup.cfg", "pyproject.toml")


@pytest.mark.parametrize("side", TOPS)
def test_wheel_holds_every_module_and_data_file(wheels: dict[str, zipfile.ZipFile], side: str) -> None:
    names, top = set(wheels[side].namelist()), TOPS[side]
    wanted = {
        name_of(path)
        for path in tracked_files()
        if path.relative_to(ROOT).parts[0] == top and path.name not in NOT_PACKED
    }
    assert len(wanted) > 150
    assert wanted - names == set()
    assert f"{top}/py.typed" in names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {top}


def test_wheels_hold_what_is_no_module(wheels: dict[str, zipfile.ZipFile]) -> None:
    of_airflow, of_spark = (wheels[side].namelist() for side in TOPS)
    assert [name for name in of_airflow if name.startswith("dp_operators/budget/tables/migrations/versions/")]
    assert [name for name in of_spark if name.startswith("spark_jobs/publishing/templates/")]
    assert [path for path in tracked_files() if name_of(path) == "examples/demo/__main__.py"]
    assert [name for name in (*of_airflow, *of_spark) if "demo" in name] == []


def test_wheels_name_their_extras() -> None:
    assert sorted(setup_cfg("spark_jobs")["options.extras_require"]) == [
        "azure",
        "connect",
        "embedded",
        "expectations",
        "gcs",
        "iceberg",
        "java",
        "local",
        "s3",
        "spark",
    ]
    others = {"databricks", "dataproc", "emr", "kubernetes", "openlineage", "spark"}
    assert {"accounting", "azure", "gcs", "s3", *others} <= set(setup_cfg()["options.extras_require"])


def test_wheel_tells_airflow_of_the_provider(wheels: dict[str, zipfile.ZipFile]) -> None:
    wheel = wheels[AIRFLOW_SIDE]
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    entries = configparser.ConfigParser()
    entries.read_string(wheel.read(name).decode())
    assert entries["apache_airflow_provider"]["provider_info"] == "dp_operators.get_provider_info:get_provider_info"
    assert entries["console_scripts"]["dp-budget"] == "dp_operators.cli:main"


def test_entry_points_lead_somewhere() -> None:
    points = importlib.metadata.distribution("airflow-provider-dp-diagnostics").entry_points
    installed = {f"{point.name} = {point.value}" for point in points}
    written = {
        line for group in setup_cfg()["options.entry_points"] for line in lines_of("options.entry_points", group)
    }
    assert installed == written, "setup.cfg has changed since it was installed: make env"
    assert all(callable(point.load()) for point in points)


@pytest.mark.parametrize(("side", "words"), [(AIRFLOW_SIDE, "make demo"), (SPARK_SIDE, "needs no Airflow")])
def test_wheel_carries_licence_and_readme(wheels: dict[str, zipfile.ZipFile], side: str, words: str) -> None:
    (name,) = (name for name in wheels[side].namelist() if name.endswith("/METADATA"))
    metadata = wheels[side].read(name).decode()
    assert re.search(r"^License(-Expression)?: Apache-2.0$", metadata, re.MULTILINE)
    assert words in metadata
    assert [name for name in wheels[side].namelist() if name.endswith("/licenses/LICENSE")]
