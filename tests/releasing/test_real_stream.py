"""A stream by the command line with a real Spark: bad events drop out, people are bounded, snapshots grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dp_operators.cli import app
from spark_jobs.contract.stream_keys import STREAM_KEYS_VARIABLE
from tests.support.accounts import open_bound
from tests.support.ledgers import new_ledger

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.usefixtures("shared_java")]

HOUR = pd.Timedelta(hours=1)
START = pd.Timestamp("2026-01-01")


def visits() -> pd.DataFrame:
    """Visits of two days; of one person many at each hour; and events that no rule counts."""
    generator = np.random.default_rng(11)
    at = START + pd.to_timedelta(generator.integers(0, 48 * 3600, size=3000), unit="s")
    frame = pd.DataFrame(
        {
            "at": at,
            "ward": generator.choice(["a", "b", "c", "elsewhere"], size=3000),
            "person": [f"p{number}" for number in generator.integers(0, 500, size=3000)],
        }
    )
    frame.loc[:50, "at"] = pd.NaT
    frame.loc[51:100, "ward"] = None
    frame.loc[101:150, "at"] = START - 5 * HOUR
    frame.loc[151:200, "person"] = None
    return frame


def write_version(table: Path, name: str, rows: pd.DataFrame) -> None:
    (table / name).mkdir(parents=True)
    file = table / name / "part-0.parquet"
    rows.to_parquet(file, index=False, coerce_timestamps="us", allow_truncated_timestamps=True)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["stream", *arguments])


def kept_counts(rows: pd.DataFrame, most: int, wards: list[str]) -> pd.Series:
    """The counts when each person's first events by time are kept, which has one answer where times differ."""
    valid = rows.dropna()
    valid = valid[valid["ward"].isin(wards) & (valid["at"] >= START)].sort_values("at", kind="stable")
    kept = valid[valid.groupby("person").cumcount() < most]
    return kept.groupby([(kept["at"] - START) // HOUR, "ward"]).size()


def test_a_stream_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, table, output = visits(), tmp_path / "lake", tmp_path / "out"
    write_version(table, "v1", rows[~(rows["at"] >= START + 30 * HOUR)])
    write_version(table, "v2", rows)
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = new_ledger(tmp_path / "ledger.db")
    unit = {"column": "person", "max_rows": 4}
    open_bound(
        ledger,
        "visits",
        table=table,
        output=output,
        epsilon=10**9,
        unit=unit,
        blocks="day(at)",
        unit_stays=True,
        facts={"units": 600, "version_order": "natural"},
    )
    ledger.close()
    fields = {
        "account": "visits",
        "table": {"path": str(table), "snapshot": {"path_version": "v1"}},
        "time": "at",
        "start": "2026-01-01T00:00:00Z",
        "step": "1 hour",
        "steps": 48,
        "states": {"column": "ward", "keys": ["a", "b", "c"]},
        "budget": {"epsilon": 10**9},
        "unit": unit,
        "blocks": ["interval"],
        "output": str(output),
    }
    for name, version in (("first", "v1"), ("second", "v2")):
        document = {**fields, "table": {"path": str(table), "snapshot": {"path_version": version}}}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    monkeypatch.setenv("DP_LEDGER_URL", url)
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "a salt of many bytes")
    first, second = str(tmp_path / "first.json"), str(tmp_path / "second.json")
    private = ("--master", "local[1]", "--private-dir", str(tmp_path / "private"))
    refused = run("advance", first, "--until", "2026-01-02T06:00:00Z", *private)
    assert refused.exit_code != 0
    monkeypatch.setenv(STREAM_KEYS_VARIABLE, f"k1:{'ab' * 32}")
    forecast = run("advance", first, "--until", "2026-01-02T06:00:00Z", "--dry-run")
    assert "30 steps are due; 0 of 48 are released" in forecast.output
    assert run("advance", first, "--until", "9000-01-01T00:00:00Z").exit_code != 0
    for document, until in ((first, "2026-01-02T06:00:00Z"), (second, "2026-01-03T06:00:00Z")):
        result = run("advance", document, "--until", until, *private)
        assert result.exit_code == 0, result.output
    shown = run("show", second)
    assert "48 of 48 steps are released, up to 2026-01-03T00:00:00Z" in shown.output
    assert "is what the ledger recorded" in shown.output
    [root] = output.glob("stream-*")
    assert "What the stream cost" in (root / "report.html").read_text(), "every run makes the report anew"
    released = pd.concat([pq.read_table(path).to_pandas() for path in sorted((root / "steps").glob("*.parquet"))])
    assert len(released) == 48 * 3
    expected = kept_counts(rows, 4, ["a", "b", "c"])
    counted = released.set_index(["step", "state"])["noisy"]
    assert counted[counted > 0].to_dict() == expected.to_dict()
    assert released["begins"].iloc[3] == START + HOUR
    described = json.loads((root / "stream.json").read_text())
    assert described["epsilon_per_row"] == "250000000"
    assert "the first by time" in " ".join(described["rules"])
    assert any("never has more than 600 values of person" in line for line in described["assumptions"])
