"""A fresh process that has imported heavy packages once, and runs one program after the other in forks of itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HEAVY = ("airflow.sdk", "dp_operators.operators.release", "dp_operators.releasing", "spark_jobs.publishing", "numpy")
PATIENCE = 300
"""Seconds that a program may take."""
SERVER = """
import importlib, json, os, signal, sys, traceback, warnings

for name in sys.argv[1:]:
    importlib.import_module(name)
warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        signal.alarm(asked["patience"])
        output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.chdir(asked["folder"])
        code = 1
        try:
            exec(compile(asked["program"], "program", "exec"), {"__name__": "__main__"})
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class WarmProcess:
    """The running process; see ``warm_process``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, program: str, folder: Path) -> tuple[int, str]:
        """Run a program in a fork, in an empty folder below this one; its exit code, and all that it printed."""
        inside = folder / "inside"
        inside.mkdir(exist_ok=True)
        asked = {"program": program, "folder": str(inside), "output": str(folder / "output"), "patience": PATIENCE}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, (folder / "output").read_text()


@contextmanager
def warm_process(environment: Mapping[str, str]) -> Iterator[WarmProcess]:
    """Start it with this environment and wait until everything is imported; it ends on the way out."""
    command = [sys.executable, "-c", SERVER, *HEAVY]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=dict(environment), stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if line == "ready\n":
                break
        else:
            raise RuntimeError(f"the process ended with {process.wait()} before it was ready")
        try:
            yield WarmProcess(process)
        finally:
            assert process.stdin
            process.stdin.close()
