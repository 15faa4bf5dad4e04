"""Both wheels, and environments that hold a wheel with the packages that it requires and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.repository import ROOT, tracked_files

AIRFLOW_SIDE = "airflow-provider-dp-diagnostics"
SPARK_SIDE = "dp-diagnostics"
FOLDERS = {AIRFLOW_SIDE: ".", SPARK_SIDE: "spark_jobs"}
"""The folder of the repository that each wheel is built in."""


def build_wheels(folder: Path) -> dict[str, Path]:
    """The wheels of what is or would be committed, built below ``folder`` without a network, by distribution."""
    for path in tracked_files():
        if path.relative_to(ROOT).parts[0] in ("tests", "docs", "benchmarks"):
            continue
        copy = folder / "source" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    uv = str(Path(sys.executable).parent / "uv")
    wheels = {}
    for name, project in FOLDERS.items():
        out = folder / "dist" / name
        command = [uv, "build", "--wheel", "--offline", "--no-config", "--out-dir", str(out)]
        environment = {**os.environ, "TMPDIR": str(folder)}  # uv leaves a lock file there
        done = subprocess.run(
            [*command, str(folder / "source" / project)], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0 and "setuptools" in done.stderr and "offline" in done.stderr.lower():
            pytest.skip("setuptools, the build backend, is not in uv's cache and the network is not for tests")
        assert done.returncode == 0, done.stderr
        (wheels[name],) = out.glob("*.whl")
    return wheels


def metadata(wheel: Path) -> Message:
    """What a wheel says of itself."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def environment(folder: Path, wheels: Mapping[str, Path], *wanted: str, fetched: str = "") -> Path:
    """The Python of a new environment in ``folder``: the requirements ``wanted``, with what they require.

    The packages of other projects are linked from this environment, so only declared ones are there; ``fetched``, which
    this environment lacks, comes from the package index.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    waiting = [Requirement(line) for line in wanted]
    if fetched:  # before any link is there that it could write through
        waiting += _fetch(fetched, site)
    done: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) not in done:
                first = name not in {known for known, _ in done}
                done.add((name, extra))
                waiting += _install(name, site, wheels, extra=extra, first=first)
    return folder / "bin" / "python"


def _fetch(wanted: str, site: Path) -> list[Requirement]:
    """Install one package into an empty environment; what it requires."""
    uv = str(Path(sys.executable).parent / "uv")
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(site), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the package index does not give {wanted}: {done.stderr[-200:]}")
    [fetched] = distributions(name=Requirement(wanted).name, path=[str(site)])
    needed = [Requirement(line) for line in fetched.requires or ()]
    return [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def _install(name: str, site: Path, wheels: Mapping[str, Path], *, extra: str, first: bool) -> list[Requirement]:
    """Put a distribution into ``site``, the first time; what it requires, for one of its extras."""
    if name in wheels:
        if first:
            zipfile.ZipFile(wheels[name]).extractall(site)
        lines = metadata(wheels[name]).get_all("Requires-Dist") or []
    else:
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # of another platform, or an extra that is not in the lock file
            return []
        if first:
            _link(installed, site)
        lines = installed.requires or []
    needed = [Requirement(line) for line in lines]
    return [each for each in needed if each.marker is None or each.marker.evaluate({"extra": extra})]


def _link(installed: Distribution, site: Path) -> None:
    folders = set()
    for file in installed.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        link, place = site / file, Path(str(file.locate()))
        if link.parent not in folders:
            link.parent.mkdir(parents=True, exist_ok=True)
            folders.add(link.parent)
            compiled = place.parent / "__pycache__"
            if compiled.is_dir() and not (link.parent / "__pycache__").exists():
                (link.parent / "__pycache__").symlink_to(compiled)
        if not link.exists():
            link.symlink_to(place)
