"""The trigger looks and does nothing else: it may run twice, outlasts an outage, and ends with the application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from dp_operators.releasing import Handle
from dp_operators.triggers import application
from dp_operators.triggers.application import ApplicationTrigger
from tests.support.http_places import Master

Connect = Callable[..., None]


@pytest.fixture
def master(connect: Connect) -> Master:
    master = Master()
    host, port = master.server.url.removeprefix("http://").split(":")
    extra = {"deploy-mode": "cluster", "rest-port": int(port)}
    connect("spark_default", conn_type="spark", host=f"spark://{host}", port=7077, extra=extra)
    master.drivers["driver-1"] = "RUNNING"
    return master


def trigger() -> ApplicationTrigger:
    handle = Handle(backend="standalone", id="driver-1", place="http://elsewhere")
    return ApplicationTrigger(
        runner="spark_submit", spark_conn_id="spark_default", handle=asdict(handle), run=2, interval=0.01
    )


async def event_of(waiting: ApplicationTrigger) -> dict[str, Any]:
    async for event in waiting.run():
        return dict(event.payload)
    raise AssertionError("the trigger ended without a word")


async def while_waiting(then: Callable[[], object], triggers: int = 1) -> list[dict[str, Any]]:
    tasks = [asyncio.create_task(event_of(trigger())) for _ in range(triggers)]
    await asyncio.sleep(0.3)
    assert not any(task.done() for task in tasks)
    then()
    return [await asyncio.wait_for(task, 30) for task in tasks]


def test_is_made_again_from_what_it_says_of_itself() -> None:
    name, fields = trigger().serialize()
    assert name == f"{ApplicationTrigger.__module__}.{ApplicationTrigger.__qualname__}"
    assert ApplicationTrigger(**fields).serialize() == (name, fields)


@pytest.mark.parametrize("ending", ["FINISHED", "FAILED", "KILLED"])
def test_two_of_them_wait_until_the_application_ends_however_it_ends(master: Master, ending: str) -> None:
    events = asyncio.run(while_waiting(lambda: master.drivers.update({"driver-1": ending}), triggers=2))
    assert events == [{"run": 2, "state": "ended"}] * 2
    assert master.created == []


def test_backend_that_stays_away_is_waited_for_and_then_left_to_the_store(
    master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "PATIENCE_SECONDS", 0.5)
    assert asyncio.run(while_waiting(master.server.close)) == [{"run": 2, "state": "unknown"}]


def test_user_who_ends_the_task_ends_the_application(master: Master) -> None:
    asyncio.run(trigger().on_kill())
    assert master.drivers == {"driver-1": "KILLED"}
