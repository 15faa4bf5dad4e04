"""The example of a federation, really run: five parties with an Airflow each release the same curve, whoever is killed.

Everybody meets in one release. Each silo's task is killed at each of its steps, and its application at each of its
own: the messages of the first round and of the end, and in one silo also those of the second and the last. Each server
is killed at each of its steps in the first round, in the last, and at the end. Each Airflow stays up; its DAG is run
again after each kill. Some kills leave all that the next run needs: an application's after it has stored its draw, or
its draft, and a task's around keeping the handle of an application, which goes on alone. They have releases of their
own.
"""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from dp_operators.budget import ChargeState, PrivacyLedger
from examples.demo.federation import SERVERS, Parties
from examples.demo.lake import PLANS
from spark_jobs.contract.store.failpoints import APPLICATION_POINTS, PROTOCOL_POINTS

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
ROUNDS = 20
"""Those of a ROC curve and a calibration; the silos' end comes after them."""
PATIENCE = 3 * 3600
FREE, SHARED, FULL = PLANS
ONE, TWO = SERVERS
FINISHED = ("after_store_draw", "after_draft_manifest")
"""Where an application that is killed has left all that its task needs to go on."""
HANDED_OVER = ("before_keep_handle", "after_keep_handle")
"""Where a task that is killed leaves an application that ends without it."""
STARTED, WAITED, ENDED = (PROTOCOL_POINTS.index(name) for name in ("before_keep_handle", "after_run", "before_end_run"))
DRAWN = APPLICATION_POINTS.index("after_draw")
IN_ROUND = ["after_keep_receipt", "before_answer", "after_answer"]


def steps_of_a_silo(*messages: int) -> list[str]:
    """A silo's steps in a release: those of its task, and those of its application, which sends these messages."""
    sent = [f"{moment}_share:after:{number}" for number in messages for moment in ("before", "after")]
    written = [point for point in APPLICATION_POINTS[DRAWN:] if point not in FINISHED]
    return [
        *PROTOCOL_POINTS[:STARTED], *APPLICATION_POINTS[:DRAWN], *sent, *written, *PROTOCOL_POINTS[WAITED:ENDED],
    ]  # fmt: skip


# a run of the application sends two messages in each round, and two at the end
LAST = 2 * ROUNDS + 1
# a run of a server passes over the rounds that it has answered
STEPS_OF_A_SERVER = [
    *["before_keep_receipt", *IN_ROUND],
    *[f"before_keep_receipt:after:{ROUNDS - 2}", *IN_ROUND],
    *IN_ROUND[1:],
]
KILLS: dict[str, dict[str, list[str]]] = {
    "every step": {
        FREE: steps_of_a_silo(0, 1, LAST - 2, LAST - 1, LAST),
        SHARED: steps_of_a_silo(0, LAST),
        FULL: steps_of_a_silo(0, LAST),
        ONE: STEPS_OF_A_SERVER,
        TWO: STEPS_OF_A_SERVER,
    },
    **{point: {**{plan: [point] for plan in PLANS}, ONE: [], TWO: []} for point in (*FINISHED, *HANDED_OVER)},
}


@pytest.mark.parametrize("where", KILLS)
def test_parties_that_are_killed_end_with_one_release(where: str, tmp_path: Path) -> None:
    kills = KILLS[where]
    parties = Parties(path=tmp_path)
    parties.register()
    files = {party: tmp_path / f"{party}.runs" for party in kills}
    module = "tests.support.federated_airflow"
    running = {party: parties.start(party, str(files[party]), *kills[party], module=module) for party in kills}
    deadline = time.monotonic() + PATIENCE
    while running:
        running = {party: process for party, process in running.items() if process.poll() is None}
        assert time.monotonic() < deadline, files
        time.sleep(1)
    for party, points in kills.items():
        runs = [line.split() for line in files[party].read_text().splitlines()]
        assert runs == [[point, str(code_after(point))] for point in (*points, "none")]
    manifests = [parties.released(plan) for plan in PLANS]
    assert len({json.dumps([manifest["key"], manifest["results"]]) for manifest in manifests if manifest}) == 1
    assert None not in manifests
    for plan in PLANS:
        ledger = PrivacyLedger(f"sqlite:///{parties.home(plan).ledger}")
        [charge] = ledger.history(f"rand-hie-{plan}")
        assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
        assert ledger.verify()
        ledger.close()


def code_after(point: str) -> int:
    """How the run of a DAG ends that reaches this point: a task outlives the application that it runs."""
    name = point.partition(":")[0]
    if name in (*FINISHED, "none"):
        return 0
    return 1 if name in (*APPLICATION_POINTS, "before_share", "after_share") else -signal.SIGKILL
