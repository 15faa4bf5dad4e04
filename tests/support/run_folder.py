"""A temporary folder for one test run, which has to be empty at its end but for what pytest and Java keep there.

It is loaded before every other plugin: whatever asks for the system's temporary folder afterwards, in this process or
in a child of it, gets the run's. What a test leaves behind there is an error of the run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import java_classes

OWN = ("pytest-of-", "airflow-for-tests-")
"""Where pytest keeps its ``tmp_path`` folders, and Airflow its home, to which threads of its own may still write."""
JAVA = "java"
"""Where Java processes keep their files: those that tests kill leave them, to be removed with the folder."""
LOCK = ".lockfile"
"""Of the package that brings the PostgreSQL server; processes share it, so none may remove it before the end."""
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
PREFIX = "dp-tests-"


def _remove_those_of_dead_runs() -> None:
    """Remove the folders of runs that were killed: their names hold the number of a process that is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        number = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(FileNotFoundError):  # another run removes it
            if number.isdigit() and folder.stat().st_uid == os.getuid() and not _is_alive(int(number)):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _make() -> Path:
    if IS_WORKER:  # the folder is that of the controller, whose environment a worker inherits
        return Path(os.environ["TMPDIR"])
    _remove_those_of_dead_runs()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    os.environ["TMPDIR"] = str(folder)
    # Java does not read TMPDIR
    (folder / JAVA).mkdir()
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / JAVA)
    os.environ["SPARK_SUBMIT_OPTS"] = f"-Djava.io.tmpdir={folder / JAVA} {java_classes.options()}"
    tempfile.tempdir = None
    return folder


FOLDER = _make()
_PROCESS = os.getpid()


def _remove() -> None:
    if os.getpid() == _PROCESS:
        shutil.rmtree(FOLDER, ignore_errors=True)


if not IS_WORKER:
    atexit.register(_remove)


def leftovers() -> list[str]:
    """What lies in the run's folder but for the above, by name."""
    names = (path.name for path in FOLDER.iterdir())
    return sorted(name for name in names if name not in (JAVA, LOCK) and not name.startswith(OWN))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run for what its tests left behind; ``--basetemp`` keeps what lies in ``tmp_path`` folders."""
    if IS_WORKER:
        return
    left = leftovers()
    terminal = session.config.pluginmanager.getplugin("terminalreporter")
    if left and terminal is not None:
        terminal.stats.setdefault("error", []).append(_report(left))
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _report(left: list[str]) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid="the run's temporary folder",
        location=(__file__, None, "the run's temporary folder"),
        keywords={},
        outcome="failed",
        longrepr=f"tests left these in {FOLDER}: {', '.join(left)}",
        when="teardown",
    )
