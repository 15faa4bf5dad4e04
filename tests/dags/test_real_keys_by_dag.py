"""Keys of all flights from New York in 2013 that nobody listed: discovered for a delta, then a domain for nothing.

And a public lookup of the airports: the same groups by SQL and by an operator as by pandas' merge.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from airflow.sdk import DAG, task

from dp_operators.budget import ChargeState, PrivacyLedger
from dp_operators.budget.cli import run
from dp_operators.cli import app
from dp_operators.operators import PrivateSqlOperator
from dp_operators.operators.diagnostics import AggregatesOperator
from spark_jobs.contract.release import Release
from tests.dags.test_real_aggregates_by_dag import flights
from tests.support.airflow import run_dag, states

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(1200)]

COLUMNS = "origin string in ('EWR', 'JFK', 'LGA'), carrier string, dep_delay double between -30 and 300 step 1"
EPSILON, DELTA = "90", "1e-6"
SIDES = {"EWR": "New Jersey", "JFK": "New York"}
"""Of two of the three airports."""
TABLE = {"snapshot": {"path_version": "{{ params.version }}"}}
PARAMS: Any = {"version": "v1", "fewest": 5}
SELECT = """
SELECT s.state, COUNT(*) AS n, AVG(f.dep_delay) AS late FROM flights VERSION AS OF '{{ params.version }}' AS f
LEFT JOIN sides AS s ON f.origin = s.airport GROUP BY s.state ORDER BY n
"""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the ledger of an account that allows for a delta."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "private"))
    (tmp_path / "flights" / "v1").mkdir(parents=True)
    flights().to_parquet(tmp_path / "flights" / "v1" / "part.parquet")
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    caps = ["--epsilon", "1000", "--delta", "1e-3", "--composition", "approximate"]
    places = ["--table", f"{tmp_path}/flights", "--output", f"{tmp_path}/releases"]
    assert run(app, ["open", "flights", *caps, "--columns", COLUMNS, "--ledger", url, "--yes", *places]) == 0
    return url


def released(folder: Path) -> tuple[Path, dict[str, Any]]:
    [path] = folder.glob("*/release.json")
    return path.parent, dict(Release.from_json(path.read_bytes()).results["aggregates"])


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_discovered_carriers_are_those_of_pandas_and_become_a_domain_for_nothing(
    airflow_ledger: PrivacyLedger, tmp_path: Path, ledger: str, capfd: pytest.CaptureFixture[str]
) -> None:
    page = {"column": "carrier", "keys": "discover", "min_units": 5}
    written = tmp_path / "request.yaml"
    request = {
        "account": "flights", "table": {"snapshot": {"path_version": "v1"}}, "output": f"{tmp_path}/releases/command",
        "diagnostics": [{"kind": "aggregates", "by": [page], "measures": ["dep_delay"]}],
        "budget": {"epsilon": EPSILON, "delta": DELTA},
    }  # fmt: skip
    written.write_text(yaml.safe_dump(request))
    assert run(app, ["run", str(written), "--ledger", ledger, "--master", "local[2]"]) == 0
    with DAG("keys", schedule=None, params=PARAMS) as dag:
        AggregatesOperator(
            task_id="operator",
            account="flights",
            table=TABLE,
            by=[{**page, "min_units": "{{ params.fewest }}"}],
            measures=["dep_delay"],
            epsilon=EPSILON,
            delta=DELTA,
            output=f"{tmp_path}/releases/operator",
            master="local[2]",
        )
    outcomes = states(run_dag(dag))
    assert outcomes == {"operator": "success"}, "".join(capfd.readouterr())[-8000:]
    table = flights().dropna(subset=["dep_delay"])
    exact = table.assign(dep_delay=table["dep_delay"].clip(-30, 300)).groupby("carrier")["dep_delay"]
    for place in ("command", "operator"):
        _, result = released(tmp_path / "releases" / place)
        [mean] = [one for one in result["measures"] if one["name"] == "mean"]
        assert set(exact.size()[exact.size() > 10].index) <= set(result["keys"][0]) <= set(table["carrier"])
        for number, carrier in enumerate(result["keys"][0]):
            assert result["count"][number] == pytest.approx(exact.size()[carrier], abs=2)
            assert mean["values"][number] == pytest.approx(exact.mean()[carrier], abs=5)
    costs = [(charge.state, charge.cost.epsilon, charge.cost.delta) for charge in airflow_ledger.history("flights")]
    assert costs == [(ChargeState.COMMITTED, Decimal(EPSILON), Decimal(DELTA))] * 2

    folder, found = released(tmp_path / "releases" / "command")
    left = airflow_ledger.remaining("flights", kind="approximate")
    who = ["--actor", "dpo", "--ledger", ledger]
    file = str(folder / "aggregates.parquet")
    assert run(app, ["keys", "register", "flights", "carriers", file, "--column", "by_carrier", *who]) == 0
    why = ["--reason", "a release has published them"]
    assert run(app, ["domains", "flights", "--set", "carrier in @carriers", *why, *who]) == 0
    assert airflow_ledger.remaining("flights", kind="approximate") == left, "what is public costs nothing"
    entry = {"kind": "aggregates", "by": ["carrier", "origin"], "marginals": [["carrier"]]}
    request |= {"diagnostics": [entry], "budget": {"epsilon": EPSILON}, "output": f"{tmp_path}/releases/listed"}
    written.write_text(yaml.safe_dump(request))
    assert run(app, ["run", str(written), "--ledger", ledger, "--master", "local[2]"]) == 0
    last = airflow_ledger.history("flights")[-1]
    assert (last.state, last.cost.delta) == (ChargeState.COMMITTED, 0)
    _, listed = released(tmp_path / "releases" / "listed")
    assert listed["keys"][0] == [*found["keys"][0], "other"]
    whole = flights()["carrier"].value_counts()
    [marginal] = listed["marginals"]
    for number, carrier in enumerate(found["keys"][0]):
        assert marginal["count"][number] == pytest.approx(whole[carrier], abs=3)
    assert airflow_ledger.verification().findings == ()


@pytest.mark.usefixtures("airflow_database", "shared_java")
def test_a_public_lookup_has_the_groups_of_pandas_by_every_operator(
    airflow_ledger: PrivacyLedger, tmp_path: Path, ledger: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sides.json"
    file.write_text(json.dumps([{"airport": airport, "state": state} for airport, state in SIDES.items()]))
    assert run(app, ["lookup", "flights", "sides", str(file), "--actor", "dpo", "--ledger", ledger]) == 0
    with DAG("sides", schedule=None, params=PARAMS) as dag:
        ask = PrivateSqlOperator(task_id="ask", sql=SELECT, epsilon=EPSILON, master="local[2]")
        AggregatesOperator(
            task_id="operator",
            account="flights",
            table=TABLE,
            by=[{"column": "origin", "lookup": "sides"}],
            measures=[{"of": "dep_delay", "figures": ["mean"]}],
            epsilon=EPSILON,
            output=f"{tmp_path}/releases/operator",
            gate='aggregates."New York".mean.dep_delay.lower > 5',
            master="local[2]",
        )

        @task
        def keep(returned: dict[str, Any]) -> None:
            (tmp_path / "answer.json").write_text(json.dumps(returned["answer"]))

        keep(ask.output)
    outcomes = states(run_dag(dag))
    assert outcomes == dict.fromkeys(("ask", "operator", "keep"), "success"), "".join(capfd.readouterr())[-8000:]
    table = flights()
    state = table["origin"].map(SIDES).fillna("other")
    exact = table["dep_delay"].clip(-30, 300).groupby(state).agg(["size", "mean"]).sort_values("size")
    kept = json.loads((tmp_path / "answer.json").read_text())
    answered = pd.DataFrame(kept["rows"], columns=kept["columns"])
    assert list(answered["state"]) == list(exact.index)
    assert list(answered["n"]) == pytest.approx(list(exact["size"]), abs=5)
    assert list(answered["late"]) == pytest.approx(list(exact["mean"]), abs=0.05)
    _, result = released(tmp_path / "releases" / "operator")
    assert (result["by"], result["keys"]) == (["state"], [[*SIDES.values(), "other"]])
    hashed = airflow_ledger.lookup("flights", "sides").lookup.sha256
    assert result["lookups"] == [{"column": "origin", "lookup": "sides", "value": "state", "sha256": hashed}]
    [mean] = result["measures"]
    assert mean["values"] == pytest.approx(exact["mean"][[*SIDES.values(), "other"]].tolist(), abs=0.05)
