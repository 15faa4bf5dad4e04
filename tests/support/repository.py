"""The repository as its own tests look at it."""

from __future__ import annotations

import configparser
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def tracked_files() -> tuple[Path, ...]:
    """Files that are or would be committed: everything git does not ignore."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        capture_output=True,
        text=True,
        check=True,
    )
    paths = (ROOT / name for name in done.stdout.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


def product_modules() -> tuple[Path, ...]:
    """The Python files that are installed."""
    return tuple(
        path
        for path in tracked_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("spark_jobs", "dp_operators")
    )


def name_of(path: Path) -> str:
    """A file's name as messages give it."""
    return path.relative_to(ROOT).as_posix()


@cache
def setup_cfg(project: str = ".") -> configparser.ConfigParser:
    """The ``setup.cfg`` of the Airflow side, or that of the project in another folder."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(ROOT / project / "setup.cfg", encoding="utf-8")
    return parser


def lines_of(section: str, option: str, project: str = ".") -> list[str]:
    """A multi-line option of a ``setup.cfg``, without comments and empty lines."""
    lines = (line.strip() for line in setup_cfg(project)[section].get(option, "").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
