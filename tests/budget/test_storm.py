"""A storm of processes and kills: short here; ``DP_STORM=full`` is 32 processes of 500 operations."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.storm import Storm, judge, prepare, rage

FULL = os.environ.get("DP_STORM") == "full"
STORM = Storm(processes=32, operations=500, kills=200) if FULL else Storm(processes=8, operations=30, kills=20)
SEEDS = range(int(os.environ.get("DP_STORM_RUNS", "1")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_storm_of_kills_loses_nothing(ledger_url: str, tmp_path: Path, seed: int) -> None:
    prepare(ledger_url)
    kills = rage(ledger_url, tmp_path, STORM, seed)
    answers = judge(ledger_url, tmp_path, STORM)
    assert kills > 0
    assert answers["reserved"] > 0
    assert min(answers["committed"], answers["void"], answers["burnt"]) > 0
