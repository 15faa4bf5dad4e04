"""The demo, whole, where there is no Java: the embedded engine counts for both DAGs, and the sensor blocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.demo.__main__ import Home
from spark_jobs.embedded.choice import MASTER_VARIABLE
from tests.support.dag_bags import needs_partitions

pytestmark = [pytest.mark.airflow, pytest.mark.slow, pytest.mark.verify, needs_partitions]

ENGINE = "engine: embedded (pysail 0.7.2), which needs no Java"


def test_demo_needs_no_java(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    inherited = {name: value for name, value in os.environ.items() if name != MASTER_VARIABLE}
    # a Java that is named and missing is refused as soon as one is needed
    here = {"PATH": str(Path(sys.executable).parent), "JAVA_HOME": "/no/java"}
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--home", str(home.path)],
        env={**inherited, **here},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(ENGINE) == 2
    assert "Held back\n  task      release_second\n" in done.stdout
    assert "Released as a stream" in done.stdout
    assert done.stdout.endswith("docs/how-to/spark-cluster.md\n")
    [release] = home.releases.glob("*/*/release.json")
    assert json.loads(release.read_bytes())["versions"]["pysail"] == "0.7.2"
    [stream] = home.releases.glob("*/*/stream.json")
    assert json.loads(stream.read_bytes())["versions"]["pysail"] == "0.7.2"
