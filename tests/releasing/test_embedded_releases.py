"""Whole releases by the embedded engine: the real application, the ledger and the store, without Java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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
