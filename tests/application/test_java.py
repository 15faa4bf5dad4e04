from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from spark_jobs.application.java import java_home, java_version
from spark_jobs.application.session import open_session
from spark_jobs.contract import InvalidRequest
from tests.support.repository import ROOT


def fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(("printed", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17.0.15", 17), ("25", 25)])
def test_java_version_reads_old_and_new_spellings(tmp_path: Path, printed: str, major: int) -> None:
    assert java_version(fake_java(tmp_path / "java", printed) / "bin" / "java") == major


def test_a_named_java_that_is_too_old_is_refused(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java8", "1.8.0_392")
    with pytest.raises(InvalidRequest, match=r"^JAVA_HOME: got .*\(Java 8\)'; must be Java 17 or newer; "):
        java_home({"JAVA_HOME": str(home), "PATH": ""})


def test_a_named_java_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no Java there"):
        java_home({"JAVA_HOME": str(tmp_path), "PATH": ""})


def test_a_new_java_on_the_path_is_used(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "java21", "21.0.1")
    assert java_home({"PATH": str(home / "bin")}) == home


@pytest.mark.parametrize("on_path", ["", "old"])
def test_the_wheels_java_serves_where_the_machine_has_none_or_an_old_one(tmp_path: Path, on_path: str) -> None:
    path = str(fake_java(tmp_path / "old", "11.0.2") / "bin") if on_path else ""
    home = java_home({"PATH": path}, launcher=tmp_path / "launcher")
    flag = "--add-modules=jdk.incubator.vector"
    environ = {"PATH": os.defpath}
    done = subprocess.run(
        [home / "bin" / "java", flag, "-version"], capture_output=True, text=True, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    assert (java_version(home / "bin" / "java") or 0) >= 17
    assert java_home({"PATH": path}, launcher=tmp_path / "launcher") == home


def test_java_that_ended_is_no_fault_of_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal would end the task for good; what was killed is tried again."""
    ended = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    def get(builder: SparkSession.Builder) -> SparkSession:
        raise ended

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", get)
    monkeypatch.setattr(os, "environ", {**os.environ})
    with pytest.raises(PySparkRuntimeError):
        open_session("local[1]")


ARGUMENTS = """
from spark_jobs.application.session import open_session
spark = open_session("local[1]")
print(*spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
spark.stop()
"""


@pytest.mark.spark
def test_an_administrators_java_options_are_those_of_a_local_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "seconds.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("spark.driver.extraJavaOptions"))
    (tmp_path / "spark-defaults.conf").write_text(line)
    others = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}
    started = subprocess.run(
        [sys.executable, "-c", ARGUMENTS],
        env={**others, "SPARK_CONF_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    options = line.split()[1:]
    assert len(options) == 2
    assert set(options) <= set(started.stdout.split())
