"""The application's command line: what goes wrong with a request, in one line and with nothing published."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.application import progress
from spark_jobs.application.main import main
from spark_jobs.application.progress import Announcer
from spark_jobs.contract.store.layout import ApplicationStage, ExitCode, ReleaseLayout, read_stage
from spark_jobs.contract.store.run_statement import NothingRead
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE, Seal

REQUEST: dict[str, Any] = {
    "table": {"path": "/nowhere", "snapshot": {"path_version": "v1"}},
    "label": "visited",
    "model": {"kind": "columns", "score": "score", "basis": "public"},
    "diagnostics": ["roc_curve"],
    "budget": {"epsilon": "1"},
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_jobs", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Private output of applications goes here; the test's own stdout and stderr stay where they are."""
    said = io.StringIO()
    monkeypatch.setattr("spark_jobs.application.main.divert_output", lambda: (said, tmp_path / "private.log"))
    monkeypatch.setattr(progress, "private_folder", lambda: tmp_path / "private")
    main_stream = Announcer.for_process
    monkeypatch.setattr(Announcer, "for_process", lambda stream, environ=os.environ: main_stream(said, environ))
    monkeypatch.setattr(sys, "said", said, raising=False)
    return tmp_path


def said() -> list[str]:
    return sys.said.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "request: must be a JSON document"),
        (json.dumps({**REQUEST, "diagnostics": ["horoscope"]}), "diagnostics.kind: got 'horoscope'; must be one of"),
        (json.dumps({**REQUEST, "budget": {"epsilon": "NaN"}}), "budget.epsilon: got 'NaN'; must be a finite"),
        (json.dumps({**REQUEST, "where": "rand() < 0.5"}), "where: "),
    ],
    ids=["no JSON", "diagnostic", "epsilon", "filter"],
)
def test_a_bad_request_ends_with_2_in_one_line_and_writes_nothing(private: Path, content: str, line: str) -> None:
    (private / "request.json").write_text(content)
    assert main([str(private / "request.json"), "--output", str(private / "out")]) == ExitCode.REFUSED
    assert len(said()) == 1
    assert said()[0].startswith(line)
    assert not (private / "out").exists()


@pytest.mark.parametrize("output", ["memory://releases", "https://example.org/releases", "/proc/releases"])
def test_a_store_that_will_not_do_is_refused(private: Path, output: str) -> None:
    (private / "request.json").write_text(json.dumps(REQUEST))
    assert main([str(private / "request.json"), "--output", output]) == ExitCode.REFUSED
    assert said()[-1].startswith("output: got ")


def test_a_release_is_not_overwritten(private: Path) -> None:
    (private / "request.json").write_text(json.dumps(REQUEST))
    (private / "out").mkdir()
    (private / "out" / "release.json").write_text("{}")
    assert main([str(private / "request.json"), "--output", str(private / "out")]) == ExitCode.REFUSED
    assert "must not hold a release yet" in said()[-1]


def test_an_output_is_needed(private: Path) -> None:
    (private / "request.json").write_text(json.dumps(REQUEST))
    assert main([str(private / "request.json")]) == ExitCode.REFUSED
    assert said() == ["output: is required; give --output, or output in the request"]


def test_a_charged_run_takes_no_seed(private: Path) -> None:
    (private / "request.json").write_text(json.dumps(REQUEST))
    arguments = [str(private / "request.json"), "--output", str(private / "out"), "--not-private-seed", "1"]
    assert main([*arguments, "--charge", "c", "--key", "k"]) == ExitCode.REFUSED
    assert not list((private / "out").rglob("draw.json"))


THREADS = """
import sys
from pathlib import Path

from spark_jobs.application.main import main

main([sys.argv[1], "--output", sys.argv[2]])
import numpy
from threadpoolctl import threadpool_info

Path(sys.argv[3]).write_text(str({pool["num_threads"] for pool in threadpool_info()}))
"""


@pytest.mark.parametrize("own", ["", "2"])
def test_the_linear_algebra_of_a_driver_has_one_thread_unless_its_environment_says_otherwise(
    tmp_path: Path, own: str
) -> None:
    usual = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    arguments = [str(tmp_path / name) for name in ("missing.json", "out", "threads")]
    environment = usual | ({"OMP_NUM_THREADS": own} if own else {})
    subprocess.run([sys.executable, "-c", THREADS, *arguments], env=environment, capture_output=True, check=True)
    assert (tmp_path / "threads").read_text() == f"{{{own or 1}}}"


@pytest.mark.slow
@pytest.mark.verify
def test_a_java_that_is_too_old_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "java8" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    program.chmod(0o755)
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    done = run(
        str(tmp_path / "request.json"),
        f"--output={tmp_path / 'out'}",
        JAVA_HOME=str(tmp_path / "java8"),
        XDG_STATE_HOME=str(tmp_path / "state"),
    )
    assert done.returncode == ExitCode.REFUSED
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[:-1] == [ApplicationStage.STARTING.value]
    assert lines[-1].startswith("JAVA_HOME: got ")
    assert "must be Java 17 or newer" in lines[-1]
    assert not list((tmp_path / "out").rglob("*.json"))


@pytest.mark.slow
def test_a_charged_run_that_is_no_request_states_that_it_read_nothing(tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(json.dumps({**REQUEST, "table": {"path": "/nowhere"}}))
    output, hashed = f"file://{tmp_path / 'out'}", "0" * 64
    seal = Seal(secret=bytes(32), charge_id="c1", request_sha256=hashed)
    done = run(
        f"file://{tmp_path / 'request.json'}", f"--output={output}", "--charge=c1", "--key=k1", "--run=7",
        f"--request-sha256={hashed}", DP_STAGE_NONCE="word", **{RUN_SECRET_VARIABLE: seal.secret.hex()},
    )  # fmt: skip
    assert done.returncode == ExitCode.REFUSED
    sealed = Path(ReleaseLayout.of(str(tmp_path / "out"), "k1", "c1").statement(7)).read_bytes()
    refused = NothingRead.from_json(seal.open("run-7.json", sealed), run=7).refused
    assert refused is not None
    assert refused.field == "table.snapshot"


def test_a_failure_says_nothing_of_its_cause(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise ValueError("patient 4711 has a score of 0.123")

    monkeypatch.setattr("spark_jobs.application.run.make_draw", broken)
    (private / "request.json").write_text(json.dumps(REQUEST))
    assert main([str(private / "request.json"), "--output", str(private / "out")]) == ExitCode.FAILED
    assert said()[-1].startswith("the application failed; its output is in ")
    assert "4711" not in "".join(said())


def test_stages_reach_a_caller_only_with_its_word() -> None:
    stream = io.StringIO()
    Announcer(stream, "word").stage(ApplicationStage.COUNTING)
    assert read_stage(stream.getvalue(), "word") is ApplicationStage.COUNTING
    assert read_stage(stream.getvalue(), "another") is None
    assert read_stage("counting", "word") is None
