"""Whole releases by the embedded engine: the real application, the ledger and the store, without Java."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from dp_operators import cli, run_command, sql_command, stream_commands
from dp_operators.budget.cli import run
from dp_operators.releasing import LocalRunner, ReleaseError
from spark_jobs.contract import InvalidRequest
from spark_jobs.embedded import installed
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
    with pytest.raises(InvalidRequest, match="must be without LN with the embedded engine; run it on Spark"):
        released(lab, canaries, where="LN(score) < 0")
    assert lab.ledger().history("visits") == ()


def command_line(lab: Lab, table: str, *options: str) -> int:
    made = make_request(lab.output, account="visits", table={"path": table, "snapshot": {"path_version": "v1"}})
    file = Path(lab.output).parent / "request.json"
    file.write_text(json.dumps(made.to_dict()))
    return run(cli.app, ["run", str(file), "--private-dir", str(private(lab)), "--ledger", lab.url, *options])


@pytest.mark.parametrize("there", [{"pyspark": "4.3.0"}, {"pysail": "0.7.2", "pyspark": "4.2.0"}, {"pysail": "0.7.1"}])
def test_an_engine_that_is_not_installed_is_one_line_and_no_charge(
    lab: Lab, canaries: str, there: dict[str, str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    monkeypatch.setattr(installed, "_version", there.get)
    assert command_line(lab, canaries, "--master", "embedded") == 2
    [line] = [line for line in capfd.readouterr().err.splitlines() if line]
    assert "master: got 'embedded'; needs p" in line.lower()
    assert "; install dp-diagnostics[embedded], or name another master" in line
    assert lab.ledger().history("visits") == ()


WHERE_A_MASTER_IS_NAMED = [
    run_command.run_release, sql_command.answer_sql, stream_commands.advance_command, stream_commands.follow_command,
    LocalRunner,
]  # fmt: skip


@pytest.mark.parametrize("entrance", WHERE_A_MASTER_IS_NAMED)
def test_nothing_but_its_name_chooses_the_engine(entrance: Any) -> None:
    assert inspect.signature(entrance).parameters["master"].default == "local[*]"


@pytest.mark.parametrize("changes", [{}, {"where": "LN(score) < 0"}], ids=["it could", "it could not"])
def test_spark_counts_where_no_master_is_named(
    lab: Lab, canaries: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whether or not the engine is proved to count a request."""
    lab.output = lab.open_account("visits", canaries, epsilon=100)
    started = tmp_path / "started.json"
    script = f"import json, sys; json.dump(sys.argv, open({str(started)!r}, 'w')); sys.exit(1)"
    runner = LocalRunner(private_dir=private(lab), command=(sys.executable, "-c", script))
    request = make_request(
        lab.output, account="visits", table={"path": canaries, "snapshot": {"path_version": "v1"}}, **changes
    )
    with pytest.raises(ReleaseError):
        lab.release(request=request, runner=runner)
    assert "--master=local[*]" in json.loads(started.read_text())
