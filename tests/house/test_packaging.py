"""setup.cfg, the lock file, and the wheel that is made of them."""

from __future__ import annotations

import configparser
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.repository import ROOT, lines_of, name_of, setup_cfg, tracked_files

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


def requirements() -> list[Requirement]:
    extras = [line for extra in ("java", "s3") for line in lines_of("options.extras_require", extra)]
    return [Requirement(line) for line in [*lines_of("options", "install_requires"), *extras, *development()]]


def test_lock_file_holds_every_requirement_at_a_version_it_allows(locked: dict[str, list[Version]]) -> None:
    wanted = requirements()
    assert len(wanted) > 30
    missing = [
        str(requirement)
        for requirement in wanted
        if not any(
            requirement.specifier.contains(version) for version in locked.get(canonicalize_name(requirement.name), [])
        )
    ]
    assert missing == []


def test_every_locked_version_has_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(entries) > 100
    assert [entry.splitlines()[0] for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}", entry)] == []


def test_environment_is_the_locked_one(locked: dict[str, list[Version]]) -> None:
    for name in ("apache-airflow", "pyspark", "opendp", "great-expectations", "numpy", "scipy", "sqlalchemy"):
        assert Version(importlib.metadata.version(name)) in locked[name]


def test_version_is_said_once_and_the_same_everywhere() -> None:
    import dp_operators

    version = setup_cfg()["metadata"]["version"]
    assert version == dp_operators.__version__
    assert (
        f"[{version}]" in (ROOT / "CHANGELOG.md").read_text() or "[Unreleased]" in (ROOT / "CHANGELOG.md").read_text()
    )


def test_users_need_no_lock_and_no_override() -> None:
    """What ``pip install`` reads holds ranges alone: no pins, no direct URLs."""
    for line in lines_of("options", "install_requires"):
        requirement = Requirement(line)
        assert requirement.url is None
        assert requirement.specifier, line
        assert not [part for part in requirement.specifier if part.operator in ("==", "===")], line


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel of what is or would be committed, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    for path in tracked_files():
        if path.relative_to(ROOT).parts[0] in ("tests", "docs", "benchmarks"):
            continue
        copy = folder / "source" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    uv = Path(sys.executable).parent / "uv"
    command = [str(uv), "build", "--wheel", "--offline", "--no-config", "--out-dir", str(folder / "dist")]
    environment = {**os.environ, "TMPDIR": str(folder)}  # uv leaves a lock file there
    done = subprocess.run(
        [*command, str(folder / "source")], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and "setuptools" in done.stderr and "offline" in done.stderr.lower():
        pytest.skip("setuptools, the build backend, is not in uv's cache and the network is not for tests")
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


def test_wheel_holds_every_module_and_data_file(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    wanted = {
        name_of(path)
        for path in tracked_files()
        if path.relative_to(ROOT).parts[0] in ("spark_jobs", "dp_operators") and path.name != "README.md"
    }
    assert wanted - names == set()
    assert {"spark_jobs/py.typed", "dp_operators/py.typed"} <= names
    assert [name for name in names if name.startswith("dp_operators/budget/migrations/versions/")]
    assert [name for name in names if name.startswith("spark_jobs/publishing/templates/")]


def test_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"spark_jobs", "dp_operators"}


def test_wheel_holds_no_demo(wheel: zipfile.ZipFile) -> None:
    assert [path for path in tracked_files() if name_of(path) == "examples/demo/__main__.py"]
    assert [name for name in wheel.namelist() if "demo" in name] == []
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    extras = re.findall(r"^Provides-Extra: (\S+)$", wheel.read(name).decode(), re.MULTILINE)
    assert sorted(extras) == ["databricks", "java", "kubernetes", "openlineage", "s3", "spark"]


def test_wheel_tells_airflow_of_the_provider(wheel: zipfile.ZipFile) -> None:
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


def test_wheel_carries_licence_and_readme(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = wheel.read(name).decode()
    assert re.search(r"^License(-Expression)?: Apache-2.0$", metadata, re.MULTILINE)
    assert "make demo" in metadata
    assert [name for name in wheel.namelist() if name.endswith("/licenses/LICENSE")]
