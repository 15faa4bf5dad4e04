"""Errors of a forecast of all flights from New York in 2013, by every way to ask for them, are those of scikit-learn.

The forecast of a flight's late arrival is its late departure. At a budget that leaves no noise, each figure is that of
clipped errors, to the rounding of their lattice: in all, by airport and by bins of the distance.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from airflow.sdk import DAG
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, r2_score, root_mean_squared_error

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.operators.diagnostics import AggregatesOperator
from spark_jobs.contract.release import Release
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums
from tests.dags.test_real_aggregates_by_dag import COLUMNS, ORIGINS, flights
from tests.support.airflow import run_dag, states

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1200)]

EPSILON = "1e8"
LARGEST = 45.5
EDGES = [0, 500, 1000.5, 5000]
ERRORS = {
    "outcome": "arr_delay", "prediction": "dep_delay", "largest_error": LARGEST,
    "figures": ["mae", "rmse", "bias", "r2", "pinball_0.9"],
}  # fmt: skip
WITHIN = {"outcome": "arr_delay", "lower": "dep_delay - 30", "upper": "dep_delay + 10"}
FIGURES = ("mae", "rmse", "bias", "r2", "pinball_0.9", "interval_coverage")
OFF = LARGEST / 2**18
"""How far rounding to the lattice moves a figure."""


def figures_of(table: pd.DataFrame) -> dict[str, float]:
    """The figures of the rows that have an outcome and a forecast, by scikit-learn, of errors that are clipped."""
    rows = table.dropna(subset=["arr_delay", "dep_delay"])
    gap = rows["arr_delay"] - rows["dep_delay"]
    true = rows["arr_delay"].clip(-60, 300)
    forecast = true - gap.clip(-LARGEST, LARGEST)
    return {
        "rows": len(rows),
        "mae": mean_absolute_error(true, forecast),
        "rmse": root_mean_squared_error(true, forecast),
        "bias": float((true - forecast).mean()),
        "r2": r2_score(true, forecast),
        "pinball_0.9": mean_pinball_loss(true, forecast, alpha=0.9),
        "interval_coverage": float(gap.between(-30, 10).mean()),
    }


def require_equal(result: dict[str, Any], table: pd.DataFrame, groups: list[pd.Series]) -> None:
    """Each cell of a table, and the total where it was asked for, has the figures of its rows."""
    parts = [(result, dict(list(table.groupby(groups))))]
    parts += [(total, {(): table}) for total in result["marginals"]]
    for found, rows_of in parts:
        by_name = {one["name"]: one for one in found["measures"] if one["name"] in FIGURES}
        assert tuple(by_name) == FIGURES
        cells = pd.MultiIndex.from_product(found["keys"]) if found["keys"] else [()]
        known = {key if isinstance(key, tuple) else (key,): rows for key, rows in rows_of.items()}
        assert len(cells) == len(found["status"])
        assert set(known) <= {tuple(cell) for cell in cells}
        for place, cell in enumerate(cells):
            if tuple(cell) not in known:
                assert found["status"][place] == "weak"
                continue
            exact = figures_of(known[tuple(cell)])
            assert found["count"][place] == pytest.approx(exact["rows"], abs=1e-3)
            for name, figure in by_name.items():
                assert figure["values"][place] == pytest.approx(exact[name], abs=OFF), (name, cell)
                assert figure["lower"][place] - OFF <= exact[name] <= figure["upper"][place] + OFF


def by_distance(table: pd.DataFrame) -> pd.Series:
    labels = ["0 to 500", "500 to 1000.5", "1000.5 to 5000"]
    return pd.cut(table["distance"], EDGES, right=False, labels=labels).astype(str)


def manifest(folder: Path) -> dict[str, Any]:
    [path] = folder.glob("*/release.json")
    return dict(Release.from_json(path.read_bytes()).results["aggregates"])


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_command_and_operator_have_the_figures_of_scikit_learn(
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
    written = tmp_path / "request.yaml"
    asked = {"kind": "aggregates", "by": ["origin"], "measures": [ERRORS, WITHIN], "marginals": [[]]}
    request = {
        "account": "flights", "table": {"snapshot": {"path_version": "v1"}}, "diagnostics": [asked],
        "budget": {"epsilon": EPSILON}, "output": f"{tmp_path}/releases/command",
    }  # fmt: skip
    written.write_text(yaml.safe_dump(request))
    gate = 'aggregates.EWR.mae."arr_delay - dep_delay".upper < 45'
    assert run(app, ["run", str(written), "--ledger", ledger, "--master", "local[2]", "--gate", gate]) == 0
    with DAG("errors", schedule=None, params={"version": "v1", "largest": LARGEST}) as dag:
        AggregatesOperator(
            task_id="operator",
            account="flights",
            table={"snapshot": {"path_version": "{{ params.version }}"}},
            by=["origin", {"column": "distance", "edges": EDGES, "other": False}],
            measures=[{**ERRORS, "largest_error": "{{ params.largest }}"}, WITHIN],
            epsilon=EPSILON,
            output=f"{tmp_path}/releases/operator",
            master="local[2]",
        )
    outcomes = states(run_dag(dag))
    assert outcomes == {"operator": "success"}, "".join(capfd.readouterr())[-8000:]
    assert [charge.state for charge in airflow_ledger.history("flights")] == [ChargeState.COMMITTED] * 2
    require_equal(manifest(tmp_path / "releases" / "command"), table, [table["origin"]])
    require_equal(manifest(tmp_path / "releases" / "operator"), table, [table["origin"], by_distance(table)])


def test_python_has_the_figures_of_scikit_learn() -> None:
    table = flights()
    columns = {name: table[name].to_numpy() for name in ("origin", "arr_delay", "dep_delay")}
    columns |= {"low": columns["dep_delay"] - 30, "high": columns["dep_delay"] + 10}
    measures = [{**ERRORS, "bounds": [-60, 300]}, {**WITHIN, "lower": "low", "upper": "high"}]
    sums = AggregateSums.from_arrays(columns, by=[{"column": "origin", "values": ORIGINS}], measures=measures)
    result = aggregates.release(sums, epsilon=EPSILON, noise=SeededNoise(1), marginals=[[]]).to_dict()
    require_equal(result, table, [table["origin"]])


def test_the_errors_of_another_forecast_are_others() -> None:
    """The control: a forecast that is a minute too late has another bias and other losses."""
    table = flights()
    exact, later = figures_of(table), figures_of(table.assign(dep_delay=table["dep_delay"] + 1))
    assert all(abs(exact[name] - later[name]) > 10 * OFF for name in FIGURES)
    assert np.isfinite(list(exact.values())).all()
