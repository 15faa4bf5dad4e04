"""Monitors watch every count of a stream, whatever the page draws, and cost a step no more than its windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from spark_jobs.application.streams.alarms import ALARMS, parse_alarms
from spark_jobs.application.streams.released import (
    confidence_of,
    history_with_total,
    published_segments,
    segment_history,
)
from spark_jobs.application.streams.report import write_report
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.store.objects import LocalStore
from spark_jobs.contract.store.stream_alarms import StreamAlarms
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.diagnostics.count_stream.monitors import alarms
from spark_jobs.diagnostics.count_stream.summary import joined
from spark_jobs.publishing.stream_report import StreamFacts
from tests.support.stream_files import publish_stream
from tests.support.streams import of_states

STORE = LocalStore()
MONITORS = [
    {"kind": "low", "window": 6, "threshold": 80},
    {"kind": "high", "window": 3, "threshold": 1000000},
    {"kind": "drop", "window": 4, "threshold": 60},
]
STATIONS = tuple(f"station {number:02d}" for number in range(70))


def stations(**changes: Any) -> StreamRequest:
    return of_states(STATIONS, steps=48, monitors=MONITORS, **changes)


def silent_stations() -> Int64Array:
    """Counts of 48 steps, of which every other station is silent from step 24 on; one is for a while only."""
    counts = np.full((48, 70), 40, dtype=np.int64)
    counts[24:, ::2] = 0
    counts[8:20, 1] = 0
    return counts


def facts_of(root: Path) -> StreamFacts:
    return StreamFacts.of(json.loads((root / "stream.json").read_text()))


def summary_of(root: Path) -> StreamAlarms:
    found = StreamAlarms.read(STORE, str(root))
    assert found is not None
    return found


def test_every_silent_station_is_in_alarm(tmp_path: Path) -> None:
    publish_stream(tmp_path, stations(), silent_stations(), parts=4)
    assert write_report(STORE, str(tmp_path))
    found = summary_of(tmp_path)
    assert (found.steps, found.watched, found.holds) == (48, 71, (35, 0, 0))
    assert "35 of 71 in alarm" in (tmp_path / "report.html").read_text()
    table = pq.read_table(tmp_path / ALARMS).to_pylist()
    low = [row for row in table if row["in_force"]]
    assert {row["state"] for row in low} == set(STATIONS[::2])
    assert all(row["condition"] == "below 80 in 6 steps" and row["last"] == 47 for row in low)
    assert {row["state"] for row in table if row["condition"].startswith("down by more than 60")} >= set(STATIONS[::2])
    ended = [row for row in table if row["state"] == STATIONS[1] and row["monitor"] == 0]
    assert [row["in_force"] for row in ended] == [False]
    assert [alarm.in_force for alarm in found.newest[:35]] == [True] * 35


@pytest.mark.parametrize("parts", [1, 5, 48])
def test_alarms_are_those_of_the_whole_stream_however_it_was_divided(tmp_path: Path, parts: int) -> None:
    request = stations()
    publish_stream(tmp_path, request, silent_stations(), parts=parts)
    names = published_segments(STORE, str(tmp_path))
    for number in range(1, parts + 1):  # a run after each file
        hidden = [tmp_path / name.replace(".parquet", ".json") for name in names[number:]]
        kept = [path.read_bytes() for path in hidden]
        for path in hidden:
            path.unlink()
        if number in (1, parts // 2, parts) or parts < 10:
            write_report(STORE, str(tmp_path))
        for path, content in zip(hidden, kept, strict=True):
            path.write_bytes(content)
    histories = [segment_history((tmp_path / name).read_bytes(), request) for name in names]
    whole = history_with_total(joined(histories), request)
    expected = {
        (place, alarm.name, alarm.first, alarm.last, alarm.figure)
        for place, monitor in enumerate(request.monitors)
        for alarm in alarms(whole, monitor, confidence=confidence_of(request), comparisons=48 * 71)
    }
    watched = parse_alarms((tmp_path / ALARMS).read_bytes(), facts_of(tmp_path))
    assert watched.steps == 48
    assert {tuple(vars(one).values()) for one in watched.raised} == expected
    assert expected


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense", None])
def test_a_view_that_is_lost_or_damaged_is_made_again(tmp_path: Path, content: bytes | None) -> None:
    publish_stream(tmp_path, stations(), silent_stations(), parts=3)
    write_report(STORE, str(tmp_path))
    before = {name: (tmp_path / name).read_bytes() for name in (ALARMS, "alarms.json")}
    if content is None:
        (tmp_path / ALARMS).unlink()
    else:
        (tmp_path / ALARMS).write_bytes(content)
    (tmp_path / "alarms.json").write_text("[")
    assert StreamAlarms.read(STORE, str(tmp_path)) is None
    write_report(STORE, str(tmp_path))
    assert before == {name: (tmp_path / name).read_bytes() for name in before}


def test_only_the_files_that_a_window_needs_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_stream(tmp_path, stations(), silent_stations(), parts=48)
    names = published_segments(STORE, str(tmp_path))
    last = tmp_path / names[-1].replace(".parquet", ".json")
    kept = last.read_bytes()
    last.unlink()
    write_report(STORE, str(tmp_path))
    last.write_bytes(kept)
    read: list[str] = []
    inner = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, uri: read.append(uri) or inner(self, uri))
    write_report(STORE, str(tmp_path))
    assert len([uri for uri in read if uri.endswith(".parquet") and "/steps/" in uri]) <= 8 + 2


def test_a_stream_without_monitors_has_no_alarms(tmp_path: Path) -> None:
    publish_stream(tmp_path, of_states(), np.full((24, 4), 40), parts=1)
    write_report(STORE, str(tmp_path))
    assert StreamAlarms.read(STORE, str(tmp_path)) is None
    assert not (tmp_path / ALARMS).exists()
