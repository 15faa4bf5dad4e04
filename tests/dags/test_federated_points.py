"""The example DAGs of a federation, by another request: silos send keys once, and servers answer points."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.demo.federation import SERVERS, Parties
from examples.demo.lake import PLANS

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]
PATIENCE = 1800
POINTS = {"kind": "cdf_points", "thresholds": [0.25, 0.5, 0.75], "quantiles": [0.5], "silo_rows": 8192}


@pytest.mark.timeout(2 * PATIENCE)
def test_every_silo_publishes_the_same_points(tmp_path: Path) -> None:
    parties = Parties(path=tmp_path, diagnostics=(POINTS,))
    parties.register()
    running = {party: parties.start(party) for party in (*SERVERS, *PLANS)}
    for party, process in running.items():
        assert process.wait(PATIENCE) == 0, parties.home(party).log.read_text()[-2000:]
    manifests = [parties.released(plan) for plan in PLANS]
    points, *others = [manifest["results"]["cdf_points"] for manifest in manifests if manifest is not None]
    assert others == [points] * 2
    assert points["status"] == "ok"
    assert points["lower"] < points["cdf"] < points["upper"]
    [median] = points["quantiles"]
    assert median["interval"][0] <= median["value"] <= median["interval"][1]
