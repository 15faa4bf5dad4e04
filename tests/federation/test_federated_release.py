"""Three silos and two servers as processes, with a lake, a ledger and a store each: one release, whoever is killed."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest

from dp_operators.budget import ChargeState
from dp_operators.release_check import check_release
from spark_jobs.contract.release import Release
from tests.support.federated import SERVERS, SILOS
from tests.support.federated_silos import ROWS, Parties, rows_of

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


POINTS = {"kind": "cdf_points", "thresholds": [0.5], "quantiles": [0.5], "more_evaluations": 17, "silo_rows": 1500}


@pytest.mark.soak
@pytest.mark.timeout(3 * PATIENCE)
def test_silos_send_keys_once_and_one_of_them_asks_for_more_without_its_table(tmp_path: Path) -> None:
    parties = Parties(tmp_path, diagnostics=(POINTS,))
    parties.prepare()
    running = {name: parties.start(name, "--answer-seconds", "3600") for name in SERVERS}
    running |= {name: parties.start(name) for name in SILOS}
    for name in SILOS:
        assert running[name].wait(PATIENCE) == 0, (name, parties.log(name))
    [released, *others] = [manifest["results"]["cdf_points"] for silo in SILOS for manifest in parties.results(silo)]
    assert others == [released] * 2
    assert released["left"] >= 17
    shutil.rmtree(tmp_path / "north" / "lake")
    asked = parties.ask("north", "--threshold", "0.25", "--quantile", "0.25", output=tmp_path / "later")
    assert asked.returncode == 0, asked.stderr
    manifest = Release.parse(json.loads((tmp_path / "later" / "release.json").read_text()))
    check_release(manifest, lambda name: (tmp_path / "later" / name).read_bytes())
    more = manifest.results["cdf_points"]
    assert (more["rows"], manifest.status) == (released["rows"], "CHARGED")
    scores = pd.concat([rows_of(number, ROWS[silo])["score"] for number, silo in enumerate(SILOS)])
    assert more["lower"][0] - 0.05 < (scores < 0.25).mean() < more["upper"][0] + 0.05
    # what was asked for is used up, what was not stays, and nobody's ledger has another charge
    again = parties.ask("south", "--quantile", "0.9", output=tmp_path / "again")
    assert (again.returncode, again.stdout) == (2, "")
    assert re.fullmatch(
        r"refused: evaluations: got \d+; must be at least \d+, the number of .* needs; pay for more .*\n",
        again.stderr,
    )
    same = parties.ask("west", "--threshold", "0.25", output=tmp_path / "same")
    assert same.returncode == 0, same.stderr
    assert json.loads((tmp_path / "same" / "release.json").read_text())["results"]["cdf_points"]["cdf"] == more["cdf"]
    for silo in SILOS:
        ledger = parties.ledger(silo)
        assert len(ledger.history(f"visits-{silo}")) == 1
        ledger.close()
    for name in SERVERS:
        assert running[name].poll() is None, parties.log(name)
        running[name].kill()
        running[name].wait()
