"""The example DAGs of a federation, each party's run by a scheduler: three silos and two servers release one curve.

The parties share the processes of one Airflow, as five of them would take hours on a small machine, and nothing else:
each DAG file has its party's ledger, keys, lake and store in its own process.
"""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from urllib.error import HTTPError

import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from examples.demo.federation import SERVERS, Parties
from examples.demo.lake import PLANS
from examples.demo.run import DAGS
from tests.support.live_airflow import LiveAirflow, live_airflow

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.verify, pytest.mark.timeout(3000)]


def dag_file(parties: Parties, party: str) -> str:
    """The example's DAG as this party's: its variables are set before anything of it is read."""
    kind = "federated_server" if party in SERVERS else "federated_silo"
    own = {
        name: value
        for name, value in parties.environment(party).items()
        if name.startswith(("DP_", "AIRFLOW_CONN_", "XDG_")) and value
    }
    text = (DAGS / f"{kind}.py").read_text().replace(f'"{kind}",', f'"{party}",')
    assert f'"{party}",' in text
    head, future, rest = text.partition("from airflow.sdk")
    return f"{head}import os\n\nos.environ.update({own!r})\n{future}{rest}"


def ended(airflow: LiveAirflow, run: str) -> bool:
    with suppress(HTTPError):
        states = [airflow.call("GET", f"dags/{party}/dagRuns/{run}")["state"] for party in (*SERVERS, *PLANS)]
        return set(states) <= {"success", "failed"} or "failed" in states
    return False


def test_parties_that_schedulers_run_release_the_same(tmp_path: Path) -> None:
    parties = Parties(path=tmp_path / "parties", diagnostics=("roc_curve",))
    parties.path.mkdir()
    parties.register()
    files = {f"{party}.py": dag_file(parties, party) for party in (*SERVERS, *PLANS)}
    room = {"AIRFLOW__CORE__PARALLELISM": "8"}
    with live_airflow(tmp_path, files, room) as airflow:
        for party in (*SERVERS, *PLANS):
            airflow.wait(f"the DAG of {party} is known", lambda party=party: known(airflow, party))
        for party in (*SERVERS, *PLANS):
            airflow.call("POST", f"dags/{party}/dagRuns", {"dag_run_id": "once", "logical_date": None})
        airflow.wait("all parties are done", lambda: ended(airflow, "once"), patience=2400)
        for party in (*SERVERS, *PLANS):
            states = airflow.states(party, "once")
            assert set(states.values()) == {"success"}, (party, states, airflow.failures(party, "once"))
    manifests = [parties.released(plan) for plan in PLANS]
    assert None not in manifests
    assert len({json.dumps([manifest["key"], manifest["results"]]) for manifest in manifests if manifest}) == 1
    for plan in PLANS:
        with closing(PrivacyLedger(f"sqlite:///{parties.home(plan).ledger}")) as ledger:
            [charge] = ledger.history(f"rand-hie-{plan}")
            assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
            assert ledger.verify()


def known(airflow: LiveAirflow, dag_id: str) -> bool:
    with suppress(HTTPError):
        return bool(airflow.call("GET", f"dags/{dag_id}"))
    return False
