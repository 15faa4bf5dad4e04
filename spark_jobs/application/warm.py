"""A warm process: runs of the application are forked from it, so that all imports are done and Java is running.

The warm process reads no row, opens no request and draws nothing. So all runs start from the same state. Each run is a
process of its own: nothing of one run is in the memory of the next. Each run starts the embedded engine for itself.
Java is shared: each run has a Spark context of its own in it, which is stopped at the run's end with its views, its
cached blocks and its temporary files; a Java whose run did not end normally serves no other run
(``dp_operators.releasing.warm_runs``).

The process is started with the environment that all its runs share; only the secret and the marks of the stages differ
between runs. Messages are lines of JSON on standard input, each answered by a line on standard output::

    {"run": [ARGUMENT, ...], "variables": {NAME: VALUE}, "log": FILE}    {"pid": NUMBER}
    {"ended": NUMBER}                                     {"status": EXIT CODE}, null while it runs

The process ends when its standard input does; if Java has ended, it ends without an answer.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, NoReturn

from spark_jobs.contract.embedded_engine import EMBEDDED
from spark_jobs.contract.options import DIAGNOSTICS

_MODULES = (
    "spark_jobs.application.run",
    "spark_jobs.application.session",
    "spark_jobs.tables.source",
    "spark_jobs.tables.scoring",
    "spark_jobs.publishing.chart",
    "matplotlib.backends.backend_svg",
    "opendp.prelude",
    *(f"spark_jobs.diagnostics.{kind}.page" for kind in DIAGNOSTICS),
)
"""What runs import."""
_OF_ENGINE: Mapping[bool, Sequence[str]] = {
    True: ("spark_jobs.application.embedded_tables", "spark_jobs.embedded.client", "pyspark.sql.connect.session"),
    False: ("spark_jobs.application.count_statistics", "pyspark.sql"),
}
"""What they import besides with the embedded engine, and with Spark."""


def main(argv: Sequence[str] | None = None) -> int:
    """Import, start Java if it is needed, and serve until standard input ends."""
    arguments = argparse.ArgumentParser(prog="python -m spark_jobs.application.warm")
    arguments.add_argument("--master", required=True)
    master = arguments.parse_args(argv).master
    orders, answers = _take_channel()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in (*_MODULES, *_OF_ENGINE[master == EMBEDDED]):
        importlib.import_module(name)
    java = None
    if master != EMBEDDED:
        from spark_jobs.application.session import start_java

        java = start_java()
    gc.freeze()  # a search for garbage would copy what is imported into each fork
    for line in orders:
        order = json.loads(line)
        if "run" in order and java is not None and java.poll() is not None:
            return 1
        answer = {"status": _status(order["ended"])} if "ended" in order else {"pid": _fork(order, orders, answers)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def _take_channel() -> tuple[IO[str], IO[str]]:
    """Standard input and output as streams of this process alone; whatever else is printed goes to standard error."""
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    with open(os.devnull) as nothing:  # noqa: PTH123 - a descriptor is needed
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return orders, answers


def _status(pid: int) -> int | None:
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 1
    return os.waitstatus_to_exitcode(status) if ended else None


def _fork(order: Mapping[str, Any], *channel: IO[str]) -> int:
    """Start a run in a process group of its own, and return its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _run(order, channel)
    with suppress(OSError):  # whichever of the two is first
        os.setpgid(pid, pid)
    return pid


def _run(order: Mapping[str, Any], channel: Sequence[IO[str]]) -> NoReturn:
    status = 1
    try:
        os.setpgid(0, 0)
        for stream in channel:
            os.close(stream.fileno())
        log = os.open(order["log"], os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.environ.update(order["variables"])
        from spark_jobs.application.main import main as run
        from spark_jobs.application.session import leave_java

        status = run(order["run"])
        leave_java()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    raise SystemExit(main())
