"""Tables of counts, sums and means of all flights from New York in 2013, by every way to ask for them.

At a budget that leaves no noise, each has to be what pandas' groupby makes of clipped values: exactly where values are
on the lattice of a step, else to the rounding that the interval states.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from airflow.sdk import DAG, task

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.operators import PrivateSqlOperator
from dp_operators.operators.diagnostics import AggregatesOperator
from dp_operators.operators.release import ReleaseDiagnosticsOperator
from spark_jobs.contract.release import Release
from spark_jobs.diagnostics import aggregates
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.statistics import AggregateSums
from tests.support.airflow import run_dag, states
from tests.support.real_tables import real_table

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1200)]

EPSILON = "1e8"
COLUMNS = (
    "origin string in ('EWR', 'JFK', 'LGA'), carrier string, month string, at timestamp between '2013-01-01' and "
    "'2014-01-01', dep_delay double between -30 and 300 step 1, arr_delay double between -60 and 300 step 1, "
    "distance int between 0 and 5000"
)
ORIGINS, MONTHS = ["EWR", "JFK", "LGA"], ["01", "02", "10", "1e3"]
"""Months that a template engine reads as numbers, and one that does not occur."""
EDGES = [0, 500, 1000.5, 5000]
GAP = "ABS(arr_delay - dep_delay)"
QUANTILES = {"p50": 0.5, "p90": 0.9}
FIGURES = ["mean", "sum", *QUANTILES]
STEPPED = {"of": "dep_delay", "bounds": [-30, 300], "step": 1, "figures": FIGURES}
ROUNDED = {"of": GAP, "bounds": [0, 77.7], "figures": FIGURES}
OFF = 77.7 / (4 * 2**20)
"""How far rounding to the lattice moves a value."""
CELL = 77.7 / 2**15
"""The width of the cells in which values without a step are counted."""


def flights() -> pd.DataFrame:
    table = real_table("nycflights13")
    table["at"] = pd.to_datetime(table[["year", "month", "day"]]).dt.tz_localize("UTC")
    return pd.DataFrame(
        {
            "origin": table["origin"], "carrier": table["carrier"], "month": table["month"].map("{:02}".format),
            "at": table["at"], "dep_delay": table["dep_delay"].astype(float),
            "arr_delay": table["arr_delay"].astype(float), "distance": table["distance"].astype("int32"),
        }
    )  # fmt: skip


def grouped(table: pd.DataFrame, by: list[pd.Series], values: pd.Series, bounds: list[float]) -> pd.DataFrame:
    """Rows, incomplete rows, sums, means and the ends of quantiles of clipped values, by pandas."""
    groups = values.clip(*bounds).groupby(by)
    found = groups.agg(["count", "size", "sum", "mean"])
    assert isinstance(found, pd.DataFrame)
    for name, level in QUANTILES.items():
        found[name] = groups.quantile(level)
        for end in ("lower", "higher"):
            found[f"{name}_{end}"] = groups.quantile(level, interpolation=end)
    return found


def require_equal(result: dict[str, Any], exact: pd.DataFrame, *, off: float, cell_width: float = 0.0) -> None:
    """A result's cells are pandas' groups; a cell that pandas lacks is empty."""
    by_name = {one["name"]: one for one in result["measures"]}
    cells = list(pd.MultiIndex.from_product(result["keys"]))
    assert set(exact.index) <= set(cells)
    assert len(cells) == len(result["status"])
    for place, cell in enumerate(cells):
        group = exact.loc[cell] if cell in exact.index else None
        rows, lacking = (0, 0) if group is None else (group["count"], group["size"] - group["count"])
        assert result["count"][place] == pytest.approx(rows, abs=1e-6)
        assert result["incomplete"][place] == pytest.approx(lacking, abs=1e-6)
        if group is None:
            assert (result["status"][place], by_name["mean"]["values"][place]) == ("weak", None)
            continue
        assert result["status"][place] == "ok"
        assert by_name["sum"]["values"][place] == pytest.approx(group["sum"], rel=1e-11, abs=off * rows + 1e-5)
        mean = by_name["mean"]
        assert mean["values"][place] == pytest.approx(group["mean"], rel=1e-11, abs=off + 1e-9)
        assert mean["lower"][place] - 1e-9 <= group["mean"] <= mean["upper"][place] + 1e-9
        for name in QUANTILES:
            found = by_name[name]
            low, high = group[f"{name}_lower"] - cell_width - off, group[f"{name}_higher"] + off
            assert low - 1e-9 <= found["values"][place] <= high + 1e-9
            assert found["lower"][place] - 1e-9 <= group[name] <= found["upper"][place] + 1e-9


def by_quarter(table: pd.DataFrame) -> list[pd.Series]:
    return [table["origin"], "2013-Q" + table["at"].dt.quarter.astype(str)]


def by_month(table: pd.DataFrame) -> list[pd.Series]:
    labels = ["0 to 500", "500 to 1000.5", "1000.5 to 5000"]
    return [
        table["month"].where(table["month"].isin(MONTHS), "other"),
        pd.cut(table["distance"], EDGES, right=False, labels=labels).astype(str),
    ]


def manifest(folder: Path) -> dict[str, Any]:
    """The table of the one release in a folder."""
    [path] = folder.glob("*/release.json")
    return dict(Release.from_json(path.read_bytes()).results["aggregates"])


@pytest.fixture
def table() -> pd.DataFrame:
    return flights()


@pytest.fixture
def account(tmp_path: Path, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the ledger of an account whose domains say what the columns hold."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    (tmp_path / "flights" / "v1").mkdir(parents=True)
    table.to_parquet(tmp_path / "flights" / "v1" / "part.parquet")
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    opened = ["open", "flights", "--epsilon", "1e9", "--columns", COLUMNS, "--ledger", ledger, "--yes"]
    places = ["--table", f"{tmp_path}/flights", "--output", f"{tmp_path}/releases"]
    assert run(app, [*opened, *places]) == 0
    return ledger


def request_of(home: Path, place: str, diagnostic: dict[str, Any]) -> dict[str, Any]:
    return {
        "account": "flights",
        "table": {"snapshot": {"path_version": "v1"}},
        "diagnostics": [{"kind": "aggregates", **diagnostic}],
        "budget": {"epsilon": EPSILON},
        "output": f"{home}/releases/{place}",
    }


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_every_way_to_ask_has_the_groups_of_pandas(
    airflow_ledger: PrivacyLedger, tmp_path: Path, account: str, table: pd.DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    stepped = {
        "by": ["origin", {"column": "at", "every": "quarter"}],
        "measures": [{"of": "dep_delay", "figures": FIGURES}],
    }
    listed = {"column": "month", "values": {"list": "months"}}
    assert run(app, keys_registered(tmp_path, account)) == 0
    rounded = {"by": [listed, {"column": "distance", "edges": EDGES, "other": False}], "measures": [ROUNDED]}
    command = tmp_path / "command.json"
    command.write_text(json.dumps(request_of(tmp_path, "command", stepped)))
    low = "aggregates.EWR.2013-Q3.mean.dep_delay.lower > 10"
    unknown = ["run", str(command), "--ledger", account, "--gate", "aggregates.ORD.2013-Q3.count > 1"]
    assert run(app, unknown) == 2
    assert "ORD is none of rows, EWR, JFK, LGA, other, the groups of origin" in capfd.readouterr().err
    assert not airflow_ledger.history("flights")
    assert run(app, ["run", str(command), "--ledger", account, "--gate", low, "--master", "local[2]"]) == 0
    written = tmp_path / "request.yaml"
    written.write_text(yaml.safe_dump(request_of(tmp_path, "yaml", rounded)))
    with DAG(
        "tables", schedule=None, render_template_as_native_obj=True,
        params={"version": "v1", "first": MONTHS[0], "third": MONTHS[2], "last": MONTHS[3], "edge": 500},
    ) as dag:  # fmt: skip
        ReleaseDiagnosticsOperator(task_id="yaml", request=str(written), master="local[2]")
        AggregatesOperator(
            task_id="operator",
            account="flights",
            table={"snapshot": {"path_version": "{{ params.version }}"}},
            by=[
                {"column": "month", "values": ["{{ params.first }}", "02", "{{ params.third }}", "{{ params.last }}"]},
                {"column": "distance", "edges": [0, "{{ params.edge }}", 1000.5, 5000], "other": False},
            ],
            measures=[ROUNDED],
            epsilon=EPSILON,
            output=f"{tmp_path}/releases/operator",
            gate='aggregates.10."500 to 1000.5".count > 1',
            master="local[2]",
        )
    outcomes = states(run_dag(dag))
    log = "".join(capfd.readouterr())
    assert outcomes == {"yaml": "success", "operator": "success"}, log[-8000:]
    committed = airflow_ledger.history("flights")
    assert [charge.state for charge in committed] == [ChargeState.COMMITTED] * 3
    exact = grouped(table, by_quarter(table), table["dep_delay"], [-30, 300])
    found = manifest(tmp_path / "releases" / "command")
    require_equal(found, exact, off=0)
    gap = (table["arr_delay"] - table["dep_delay"]).abs()
    for place in ("yaml", "operator"):
        result = manifest(tmp_path / "releases" / place)
        assert result["keys"][0] == [*MONTHS, "other"]
        require_equal(result, grouped(table, by_month(table), gap, [0, 77.7]), off=OFF, cell_width=CELL)
    for name in ("mean", "p90"):
        assert history_of(f"aggregates.EWR.2013-Q3.{name}.dep_delay.upper", account, capfd) == [
            next(one for one in found["measures"] if one["name"] == name)["upper"][2]
        ]


SELECT = """
SELECT f.origin, date_trunc('quarter', at) AS quarter, COUNT(*) AS n, AVG(dep_delay) AS late,
    AVG(ABS(dep_delay)) AS away, SUM(dep_delay) / COUNT(dep_delay) AS ratio, MEDIAN(dep_delay) AS middle,
    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY dep_delay) AS high
FROM flights VERSION AS OF '{{ params.version }}' AS f WHERE f.distance >= 500 GROUP BY origin, 2
HAVING COUNT(*) > 5000 ORDER BY late DESC LIMIT 5;
"""


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_a_select_has_the_answer_of_pandas(
    airflow_ledger: PrivacyLedger, tmp_path: Path, account: str, table: pd.DataFrame, capfd: pytest.CaptureFixture[str]
) -> None:
    text = SELECT.replace("{{ params.version }}", "v1")
    options = ["--epsilon", EPSILON, "--ledger", account, "--master", "local[2]", "--csv"]
    assert run(app, ["sql", text, *options, "--yes"]) == 0
    by_command = pd.read_csv(io.StringIO(capfd.readouterr().out))
    assert run(app, ["sql", text, *options]) == 0, "what is paid for is not asked about"
    assert pd.read_csv(io.StringIO(capfd.readouterr().out)).equals(by_command)

    with DAG("ask", schedule=None, params={"version": "v1"}) as dag:
        ask = PrivateSqlOperator(task_id="ask", sql=SELECT, epsilon=EPSILON, master="local[2]")

        @task
        def keep(returned: dict[str, Any]) -> None:
            (tmp_path / "answer.json").write_text(json.dumps(returned["answer"]))

        keep(ask.output)
    assert states(run_dag(dag)) == {"ask": "success", "keep": "success"}, capfd.readouterr().out[-8000:]
    kept = json.loads((tmp_path / "answer.json").read_text())
    assert len(airflow_ledger.history("flights")) == 2

    far = table[table["distance"] >= 500]
    clipped = far["dep_delay"].clip(-30, 300)
    groups = by_quarter(far)
    exact = clipped.groupby(groups).agg(["size", "mean"])
    exact["middle"], exact["high"] = clipped.groupby(groups).median(), clipped.groupby(groups).quantile(0.9)
    exact["away"] = far["dep_delay"].abs().clip(0, 300).groupby(groups).mean()
    exact = exact[exact["size"] > 5000].sort_values("mean", ascending=False)[:5]
    for found in (by_command, pd.DataFrame(kept["rows"], columns=kept["columns"])):
        assert list(zip(found["origin"], found["quarter"].str[:7], strict=True)) == list(exact.index)
        assert list(found["n"]) == pytest.approx(list(exact["size"]), abs=1e-4)
        assert list(found["late"]) == pytest.approx(list(exact["mean"]), abs=1e-6)
        assert list(found["middle"]) == list(exact["middle"])
        assert list(found["high"]) == pytest.approx(list(exact["high"]), abs=1)
        assert list(found["ratio"]) == pytest.approx(list(exact["mean"]), abs=1e-6)
        assert list(found["away"]) == pytest.approx(list(exact["away"]), abs=300 / 2**22)
        assert ((found["late_lower"] <= found["late"]) & (found["late"] <= found["late_upper"])).all()


def keys_registered(home: Path, ledger: str) -> list[str]:
    file = home / "months.csv"
    file.write_text("month\n" + "\n".join(MONTHS) + "\n")
    return ["keys", "register", "flights", "months", str(file), "--actor", "admin", "--ledger", ledger]


def history_of(name: str, ledger: str, capfd: pytest.CaptureFixture[str]) -> list[float]:
    capfd.readouterr()
    assert run(app, ["history", "flights", "--figure", name, "--json", "--ledger", ledger]) == 0
    return [one["value"] for one in json.loads(capfd.readouterr().out)]


def test_python_has_the_groups_of_pandas(table: pd.DataFrame) -> None:
    dimensions: list[dict[str, Any]] = [
        {"column": "origin", "values": ORIGINS},
        {"column": "at", "every": "quarter", "start": "2013-01-01", "end": "2014-01-01"},
    ]
    columns = {name: table[name].to_numpy() for name in ("origin", "dep_delay", "month", "distance")}
    columns["at"] = table["at"].to_numpy("datetime64[us]")
    columns[GAP] = np.abs(table["arr_delay"] - table["dep_delay"]).to_numpy()
    sums = AggregateSums.from_arrays(columns, by=dimensions, measures=[STEPPED])
    result = aggregates.release(sums, epsilon=EPSILON, noise=SeededNoise(1)).to_dict()
    require_equal(result, grouped(table, by_quarter(table), table["dep_delay"], [-30, 300]), off=0)
    by = [{"column": "month", "values": MONTHS}, {"column": "distance", "edges": EDGES, "other": False}]
    result = aggregates.release(
        AggregateSums.from_arrays(columns, by=by, measures=[ROUNDED]), epsilon=EPSILON, noise=SeededNoise(1)
    ).to_dict()
    gap = (table["arr_delay"] - table["dep_delay"]).abs()
    require_equal(result, grouped(table, by_month(table), gap, [0, 77.7]), off=OFF, cell_width=CELL)
