"""Somebody hears of each alarm of a stream once, by the run with whose steps it began; a sensor waits for one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dp_operators.notifications import StreamAlarmNotifier
from dp_operators.releasing.stream_views import stream_alarms
from dp_operators.sensors import StreamAlarmSensor
from spark_jobs.application.streams.report import write_report
from spark_jobs.contract.store.objects import LocalStore
from tests.support.stream_files import publish_stream
from tests.support.streams import of_states

MONITORS = [{"kind": "low", "window": 6, "threshold": 80}, {"kind": "high", "window": 1, "threshold": 10**6}]


@pytest.fixture
def stream(tmp_path: Path) -> str:
    counts = np.full((24, 4), 40, dtype=np.int64)
    counts[12:, 1:3] = 0
    publish_stream(tmp_path, of_states(monitors=MONITORS), counts, parts=2)
    write_report(LocalStore(), str(tmp_path))
    return str(tmp_path)


def told(stream: str, *, first: int, released: int, **changes: Any) -> list[str]:
    alarms = stream_alarms(stream)
    assert alarms is not None
    returned = {"uri": stream, "first": first, "released": released, "alarms": alarms.to_dict(), **changes}
    lines: list[str] = []
    task = SimpleNamespace(task_id="count", xcom_pull=lambda task_ids: returned)
    StreamAlarmNotifier(notify=lines.append).notify({"ti": task})  # type: ignore[typeddict-item]
    return lines


def test_each_alarm_is_told_by_the_run_with_which_it_began(stream: str) -> None:
    lines = told(stream, first=12, released=12)
    assert len(lines) == 2
    assert all(line.startswith(f"{stream}: below 80 in 6 steps: ") for line in lines)
    assert {line.partition("steps: ")[2].partition(",")[0] for line in lines} == {"b", "c"}
    assert told(stream, first=23, released=1) == []
    assert told(stream, first=24, released=0) == []
    assert told(stream, first=12, released=12, alarms=None) == []


def test_a_sensor_waits_for_a_condition_that_holds(stream: str, tmp_path: Path) -> None:
    def poke(**given: Any) -> Any:
        return StreamAlarmSensor(task_id="wait", stream=stream, **given).poke({})

    found = poke()
    assert found.is_done
    assert [alarm["state"] for alarm in found.xcom_value] == ["b", "c"]
    assert not poke(monitors=[1]).is_done
    assert poke(monitors=[0, 1]).is_done
    (tmp_path / "alarms.json").unlink()
    assert not poke().is_done
