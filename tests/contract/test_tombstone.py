"""Tombstones: nothing else passes for one."""

from __future__ import annotations

import pytest

from spark_jobs.contract.tombstone import Tombstone, is_tombstone


def test_tombstone_round_trips_and_is_one():
    stone = Tombstone.of("c", reason="refused")
    assert Tombstone.from_json(stone.to_json()) == stone
    assert is_tombstone(stone.to_json())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format": 1, "kind": "draw", "charge_id": "c", "request_sha256": "0"}',
        b'{"charge_id": "c", "reason": "r"}',
        b'{"format": 2, "kind": "tombstone", "charge_id": "c", "reason": "r"}',
    ],
)
def test_everything_else_counts_as_a_draw(content):
    assert not is_tombstone(content)
