"""Three silos and two servers as processes, with a lake, a ledger and a store each: one release, whoever is killed."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from dp_operators.budget import ChargeState
from tests.support.federated import SERVERS, SILOS
from tests.support.federated_silos import Parties

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE = 900


@pytest.mark.verify
def test_silos_publish_one_release_though_a_silo_and_a_server_are_killed(tmp_path: Path) -> None:
    parties = Parties(tmp_path)
    parties.prepare()
    running = {name: parties.start(name) for name in (*SERVERS, "north", "west")}
    running["south"] = parties.start("south", failpoint="after_draw")
    deadline = time.monotonic() + PATIENCE
    while not list((tmp_path / "meeting-one").glob("0/share-of-*")):
        assert time.monotonic() < deadline, parties.log("north")
        time.sleep(0.1)
    running["one"].kill()
    running["one"].wait()
    running["one"] = parties.start("one")
    assert running["south"].wait(PATIENCE) != 0
    assert parties.results("south") == []
    running["south"] = parties.start("south")
    for name, process in running.items():
        assert process.wait(PATIENCE) == 0, (name, parties.log(name))
    released = [manifest for silo in SILOS for manifest in parties.results(silo)]
    assert len(released) == len(SILOS)
    assert len({(manifest["key"], json.dumps(manifest["results"])) for manifest in released}) == 1
    for silo in SILOS:
        ledger = parties.ledger(silo)
        [charge] = ledger.history(f"visits-{silo}")
        assert (charge.state, charge.cost.epsilon) == (ChargeState.COMMITTED, 1)
        assert ledger.verify()
        ledger.close()
