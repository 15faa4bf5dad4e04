"""The profile of all flights from New York in 2013 is what pandas says of them, by command and by operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from airflow.sdk import DAG

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.operators.diagnostics import ProfileOperator
from spark_jobs.contract.release import Release
from tests.dags.test_real_aggregates_by_dag import COLUMNS, ORIGINS, flights
from tests.support.airflow import run_dag, states

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1200)]

EPSILON = "1e8"
BOUNDS = {"dep_delay": (-30, 300), "arr_delay": (-60, 300), "distance": (0, 5000)}


def require_equal(result: dict[str, Any], table: pd.DataFrame) -> None:
    """Shares, counts, means and quantiles of a released profile are those of clipped values."""
    columns = {one["column"]: one for one in result["columns"]}
    assert list(columns) == ["origin", "at", "dep_delay", "arr_delay", "distance"]
    assert result["rows"] == pytest.approx(len(table), abs=1e-3)
    origin, at = columns["origin"], columns["at"]
    assert origin["count"] == pytest.approx(table["origin"].value_counts()[ORIGINS].tolist(), abs=1e-6)
    weeks = table["at"].dt.tz_localize(None).dt.to_period("W-SUN").value_counts().sort_index()
    assert at["count"] == pytest.approx(weeks.tolist(), abs=1e-6)
    for name, (low, high) in BOUNDS.items():
        one, values = columns[name], table[name].astype(float)
        clipped = values.clip(low, high)
        assert one["status"] == "ok"
        assert one["missing"] == pytest.approx(values.isna().mean(), abs=1e-9)
        assert one["unparsed"] == 0
        outside = ((values < low) | (values > high)).mean()
        assert one["outside"] == pytest.approx(outside, abs=1e-9)
        assert sum(one["count"]) == pytest.approx(values.between(low, high).sum(), abs=1e-3)
        mean_low, mean_high = one["mean_interval"]
        assert mean_low - 1e-9 <= clipped.mean() <= mean_high + 1e-9
        exact = np.quantile(clipped.dropna(), one["levels"], method="inverted_cdf")
        assert (np.array(one["quantiles_lower"]) <= exact + 1e-9).all()
        assert (exact <= np.array(one["quantiles_upper"]) + 1e-9).all()
        # at most so many values are in a bin of the finest that there are
        assert mean_high - mean_low <= (high - low) / 100
    [pair] = result["pairs"]
    assert sum(pair["count"]) == pytest.approx(len(table), abs=1e-3)
    crossed = np.array(pair["count"]).reshape(len(pair["keys"][0]), -1)
    assert crossed.sum(axis=1)[:3] == pytest.approx(origin["count"], abs=1e-3)


def manifest(folder: Path) -> dict[str, Any]:
    [path] = folder.glob("*/release.json")
    return dict(Release.from_json(path.read_bytes()).results["profile"])


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_the_profile_is_that_of_pandas(
    airflow_ledger: PrivacyLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    table = flights()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    (tmp_path / "flights" / "v1").mkdir(parents=True)
    table.to_parquet(tmp_path / "flights" / "v1" / "part.parquet")
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    places = ["--table", f"{tmp_path}/flights", "--output", f"{tmp_path}/releases"]
    opened = ["open", "flights", "--epsilon", "1e9", "--columns", COLUMNS, "--ledger", ledger, "--yes", *places]
    assert run(app, opened) == 0
    asked = ["profile", "flights", "--epsilon", EPSILON, "--version", "v1", "--pairs", "origin,dep_delay"]
    options = ["--ledger", ledger, "--master", "local[2]", "--output", f"{tmp_path}/releases/command"]
    capfd.readouterr()
    assert run(app, [*asked, *options]) == 0
    assert "nothing was charged" in capfd.readouterr().err
    assert not airflow_ledger.history("flights")
    assert run(app, [*asked, *options, "--yes"]) == 0
    printed = capfd.readouterr().out
    assert "dep_delay: 2.5% missing, 0.0% not readable" in printed
    assert run(app, [*asked, *options]) == 0, "what is paid for is not asked about"
    with DAG("profiles", schedule=None, params={"version": "v1"}) as dag:
        ProfileOperator(
            task_id="profile",
            account="flights",
            table={"snapshot": {"path_version": "{{ params.version }}"}},
            pairs=[["origin", "dep_delay"]],
            epsilon=EPSILON,
            output=f"{tmp_path}/releases/operator",
            master="local[2]",
        )
    outcomes = states(run_dag(dag))
    assert outcomes == {"profile": "success"}, "".join(capfd.readouterr())[-8000:]
    assert [charge.state for charge in airflow_ledger.history("flights")] == [ChargeState.COMMITTED] * 2
    for place in ("command", "operator"):
        require_equal(manifest(tmp_path / "releases" / place), table)
