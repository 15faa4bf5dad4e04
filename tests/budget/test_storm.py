"""Storms of processes and kills: a short one, and long ones that are repeated in ``make soak``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.storm import Storm, judge, prepare, rage

SHORT = Storm(processes=8, operations=30, kills=20)
LONG = Storm(processes=32, operations=500, kills=200)
STORMS = [
    pytest.param(SHORT, 0, id="short", marks=pytest.mark.verify),
    *(pytest.param(LONG, seed, id=f"long-{seed}", marks=pytest.mark.soak) for seed in range(10)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("storm", "seed"), STORMS)
def test_storm_of_kills_loses_nothing(ledger_url: str, tmp_path: Path, storm: Storm, seed: int) -> None:
    prepare(ledger_url)
    kills = rage(ledger_url, tmp_path, storm, seed)
    answers = judge(ledger_url, tmp_path, storm)
    assert kills > 0
    assert answers["reserved"] > 0
    assert min(answers["committed"], answers["void"], answers["burnt"]) > 0
