"""The trigger only reads: it may run twice, and ends on the ledger's word or on its silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dp_operators.budget import PrivacyLedger
from dp_operators.triggers.budget import PrivacyBudgetTrigger


def trigger(**question: Any) -> PrivacyBudgetTrigger:
    return PrivacyBudgetTrigger(
        privacy_ledger_conn_id="privacy_ledger_default",
        question={"account": "visits", "epsilon": "1", **question},
        poke_interval=0.01,
    )


async def event_of(waiting: PrivacyBudgetTrigger) -> dict[str, str]:
    async for event in waiting.run():
        return dict(event.payload)
    raise AssertionError("the trigger ended without a word")


async def while_waiting(waiting: PrivacyBudgetTrigger, then: Callable[[], object]) -> dict[str, str]:
    task = asyncio.create_task(event_of(waiting))
    await asyncio.sleep(0.2)
    assert not task.done()
    then()
    return await asyncio.wait_for(task, 30)


@pytest.fixture
def half_left(airflow_ledger: PrivacyLedger) -> PrivacyLedger:
    airflow_ledger.open_account("visits", epsilon="1.5")
    airflow_ledger.reserve("visits", release="earlier", epsilon="1")
    return airflow_ledger


def test_is_made_again_from_what_it_says_of_itself() -> None:
    name, fields = trigger(blocks=["2026-11-21"]).serialize()
    assert name == f"{PrivacyBudgetTrigger.__module__}.{PrivacyBudgetTrigger.__qualname__}"
    assert PrivacyBudgetTrigger(**fields).serialize() == (name, fields)


def test_waits_until_a_reservation_is_given_back(half_left: PrivacyLedger) -> None:
    [charge] = half_left.history("visits")
    found = asyncio.run(while_waiting(trigger(), lambda: half_left.void(charge.id)))
    assert found == {"status": "pays", "reason": "account visits can pay epsilon 1"}


def test_waits_until_the_cap_is_raised(half_left: PrivacyLedger) -> None:
    found = asyncio.run(
        while_waiting(trigger(), lambda: half_left.raise_cap("visits", epsilon="2", actor="dpo", reason="r"))
    )
    assert found["status"] == "pays"


def test_two_of_them_change_nothing(half_left: PrivacyLedger) -> None:
    before = half_left.head()

    async def twice() -> list[dict[str, str]]:
        return await asyncio.gather(*(event_of(trigger(epsilon="0.5")) for _ in range(2)))

    assert [found["status"] for found in asyncio.run(twice())] == ["pays", "pays"]
    assert half_left.head() == before


def test_ends_where_waiting_is_vain(half_left: PrivacyLedger) -> None:
    assert asyncio.run(event_of(trigger(epsilon="2"))) == {
        "status": "never",
        "reason": "epsilon 2 is above the cap 1.5 of account visits and can never be paid",
    }
    assert asyncio.run(event_of(trigger(account="nobody")))["status"] == "refused"


def test_ledger_out_of_reach_is_told_and_never_passes(connect: Callable[..., None]) -> None:
    connect("privacy_ledger_default", conn_type="privacy_ledger", host="127.0.0.1", port=1, schema="ledger")
    found = asyncio.run(event_of(trigger()))
    assert found["status"] == "away"
    assert "nothing is released until it answers" in found["reason"]
