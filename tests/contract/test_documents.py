"""The documents beside a release: the same bytes again, and nothing else passes for a tombstone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import Budget, RequestRefused
from spark_jobs.contract.documents import AccountState, BlockState, Tombstone, is_tombstone

amounts = st.decimals(min_value=0, max_value=1000, places=6)


def state(*remaining):
    return AccountState(
        account="people",
        cap=Budget(10),
        cost=Budget(1),
        blocks=[
            BlockState(block=f"b{n}", spent_before=Budget(9 - left), remaining_after=Budget(left))
            for n, left in enumerate(remaining)
        ],
    )


@given(amounts, amounts)
def test_account_state_round_trips_exactly(one, other):
    before = AccountState(
        account="people",
        cap=Budget(one),
        cost=Budget(other),
        blocks=[BlockState(block="all", spent_before=Budget(one), remaining_after=Budget(other))],
    )
    after = AccountState.from_json(before.to_json())
    assert after == before
    assert after.to_json() == before.to_json()


def test_account_state_writes_decimals_as_strings():
    assert json.loads(state(3).to_json())["cap"]["epsilon"] == "10"


def test_scarcest_block_decides():
    assert state(5, 2, 7).scarcest.block == "b1"


def test_tombstone_round_trips_and_is_one():
    stone = Tombstone(charge_id="c", reason="refused")
    assert Tombstone.from_json(stone.to_json()) == stone
    assert is_tombstone(stone.to_json())


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"\xff", b'{"format": 1, "kind": "draw", "charge_id": "c", "request_sha256": "0"}'],
)
def test_everything_else_counts_as_a_draw(content):
    assert not is_tombstone(content)


def test_document_of_another_format_is_refused():
    with pytest.raises(RequestRefused, match="format"):
        Tombstone.parse({"format": 2, "charge_id": "c", "reason": "r"})
