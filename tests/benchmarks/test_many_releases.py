"""The benchmark of many releases counts the processor time of all processes, those without a parent included."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.many_releases import usage_of
from tests.support.repository import ROOT

BURNING = "import time\nwhile time.process_time() < 0.5: pass"
LEAVING = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURNING!r}])"
PROGRAM = """
import sys
from benchmarks.many_releases import adopt_orphans, usage_of
if {adopting}:
    adopt_orphans()
print(usage_of([sys.executable, "-c", {leaving!r}]).cpu)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("adopting", "counted"), [(True, True), (False, False)])
def test_what_loses_its_parent_is_counted(adopting: bool, counted: bool) -> None:
    program = PROGRAM.format(adopting=adopting, leaving=LEAVING)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    assert (float(done.stdout) > 0.5) is counted


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(RuntimeError, match="exit code 3: why"):
        usage_of([sys.executable, "-c", "import sys; sys.stderr.write('why'); sys.exit(3)"])
