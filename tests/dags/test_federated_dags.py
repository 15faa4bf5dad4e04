"""The example of a federation, really run: five parties with an Airflow each release the same curve, whoever is killed.

Everybody meets in one release. One silo's application is killed at each step until its draw is stored, the task of
another at each step of a release, the application of the third while it writes its results, and a server at each of its
steps in the first round, in the last, and at the end. Each Airflow stays up; its DAG is run again after each kill.
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
DRAWN, WRITING = APPLICATION_POINTS.index("after_draw"), APPLICATION_POINTS.index("before_results")
IN_ROUND = ["after_keep_receipt", "before_answer", "after_answer"]
KILLS: dict[str, list[str]] = {
    # a run of the application sends two messages in each round, and two at the end
    FREE: [
        *APPLICATION_POINTS[:DRAWN],
        *[f"{moment}_share:after:{sent}" for sent in (0, 1, 2 * ROUNDS - 1, 2 * ROUNDS, 2 * ROUNDS + 1)
          for moment in ("before", "after")],
        *APPLICATION_POINTS[DRAWN:WRITING],
    ],
    SHARED: list(PROTOCOL_POINTS[: PROTOCOL_POINTS.index("before_end_run")]),
    FULL: list(APPLICATION_POINTS[WRITING:]),
    # a run of a server passes over the rounds that it has answered
    ONE: [
        *["before_keep_receipt", *IN_ROUND],
        *[f"before_keep_receipt:after:{ROUNDS - 2}", *IN_ROUND],
        *IN_ROUND[1:],
    ],
    TWO: [],
}  # fmt: skip
FINISHED = ("after_store_draw", "after_draft_manifest", "none")
"""Where an application that is killed has left all that its task needs to go on."""


def test_parties_that_are_killed_at_every_step_end_with_one_release(tmp_path: Path) -> None:
    parties = Parties(path=tmp_path)
    parties.register()
    files = {party: tmp_path / f"{party}.runs" for party in KILLS}
    module = "tests.support.federated_airflow"
    running = {party: parties.start(party, str(files[party]), *KILLS[party], module=module) for party in KILLS}
    deadline = time.monotonic() + PATIENCE
    while running:
        running = {party: process for party, process in running.items() if process.poll() is None}
        assert time.monotonic() < deadline, files
        time.sleep(1)
    for party, points in KILLS.items():
        runs = [line.split() for line in files[party].read_text().splitlines()]
        killed = 1 if party in (FREE, FULL) else -signal.SIGKILL
        assert runs == [[point, str(0 if point in FINISHED else killed)] for point in (*points, "none")]
    manifests = [parties.released(plan) for plan in PLANS]
    assert len({json.dumps([manifest["key"], manifest["results"]]) for manifest in manifests if manifest}) == 1
    assert None not in manifests
    for plan in PLANS:
        ledger = PrivacyLedger(f"sqlite:///{parties.home(plan).ledger}")
        [charge] = ledger.history(f"rand-hie-{plan}")
        assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
        assert ledger.verify()
        ledger.close()
