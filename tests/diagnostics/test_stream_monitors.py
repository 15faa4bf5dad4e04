"""Monitors of a stream: alarms where a condition holds, and hardly any where it does not; bands of its steps."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.streams.advance import advance, start_state
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.options.streams import StreamMonitor
from spark_jobs.diagnostics.count_stream.monitors import alarms
from spark_jobs.mechanisms.noise import SeededNoise
from tests.diagnostics.test_stream_summary import history_of
from tests.support.streams import a_stream

WINDOW = 8


def monitor(kind: str, threshold: int, window: int = WINDOW) -> StreamMonitor:
    return StreamMonitor.parse({"kind": kind, "window": window, "threshold": threshold})


def raised(counts: np.ndarray[Any, Any], asked: StreamMonitor, seed: int = 1) -> tuple[Any, ...]:
    return alarms(history_of(counts, seed), asked, confidence=0.9, comparisons=counts.size)


@pytest.mark.parametrize(
    ("kind", "threshold", "first"),
    # the noise of a change of 8 steps at epsilon 0.2 is within 180 in all windows together
    [("high", 1000, 50), ("low", 150, 50), ("jump", 500, 50), ("drop", 300, 50)],
)
def test_an_alarm_lasts_as_long_as_its_condition(kind: str, threshold: int, first: int) -> None:
    counts = np.full((100, 2), 100)
    counts[50:60, 1] = 300 if kind in ("high", "jump") else 0
    [alarm] = raised(counts, monitor(kind, threshold))
    assert alarm.name == 1
    assert first <= alarm.first <= alarm.last <= 50 + 10 + WINDOW - 1
    assert {"high": alarm.figure > threshold, "low": alarm.figure < threshold}.get(kind, True)
    if kind in ("jump", "drop"):
        assert abs(alarm.figure) > threshold


def test_alarms_are_listed_from_the_newest_on_and_need_whole_windows() -> None:
    counts = np.full((100, 1), 100)
    counts[20:30], counts[60:75] = 0, 0
    found = raised(counts, monitor("low", 200))
    assert [20 <= alarm.first <= 40 for alarm in found] == [False, True]
    assert raised(counts[: WINDOW - 1], monitor("low", 10**6)) == ()
    assert raised(counts[: 2 * WINDOW - 1], monitor("jump", 0)) == ()
    unmeasured = np.zeros((100, 1), dtype=bool)
    history = history_of(np.zeros((100, 1), dtype=int), measured=unmeasured)
    assert alarms(history, monitor("low", 10**6), confidence=0.9, comparisons=100) == ()


@pytest.mark.verify
@pytest.mark.parametrize(("kind", "threshold"), [("low", 400), ("high", 400), ("jump", 0), ("drop", 0)])
def test_false_alarms_are_as_rare_as_said(kind: str, threshold: int) -> None:
    """Streams at the threshold, where a false alarm is the likeliest: at most 10% of streams may have one."""
    counts = np.full((96, 2), 50)  # 400 in a window of 8
    streams = 400
    false = sum(bool(raised(counts, monitor(kind, threshold), seed)) for seed in range(streams))
    assert false <= streams * 0.1 + 4 * np.sqrt(streams * 0.1 * 0.9)
    # that the bound is not idle: without the correction for many steps, most streams have one
    uncorrected = sum(
        bool(alarms(history_of(counts, seed), monitor(kind, threshold), confidence=0.9, comparisons=1))
        for seed in range(40)
    )
    assert uncorrected > 20


@pytest.mark.verify
@pytest.mark.parametrize("changes", [{}, {"neighbours": "replace_one"}, {"unit": {"column": "p", "max_rows": 3}}])
def test_bands_of_released_steps_cover(changes: dict[str, Any]) -> None:
    """Streams with a level, a daily cycle, bursts and silence; 90% bands of steps, as they are released."""
    random, held = np.random.default_rng(5), []
    for seed in range(24):
        request = a_stream(
            steps=480, budget={"epsilon": str(Decimal(2) ** int(random.integers(-3, 2)))},
            method={"kind": "local_level", "season": 24}, **changes,
        )  # fmt: skip
        hour = np.arange(480)
        mean = random.uniform(5, 200) * (1 + random.uniform(0, 0.9) * np.sin(2 * np.pi * hour / 24))
        mean[random.integers(0, 470) :][:10] *= random.choice([0, 1, 4])
        counts = random.poisson(mean).astype(np.int64)[:, None]
        _, released = advance(request, start_state(request), counts, noise=SeededNoise(seed))
        assert released.lower is not None
        assert released.upper is not None
        held.append(((released.lower <= counts) & (counts <= released.upper)).mean())
    assert np.mean(held) > 0.89
    assert min(held) > 0.77


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"kind": "low", "window": 25, "threshold": 1},
            r"monitors\[0\]\.window: got 25; must be at most 24, because ",
        ),
        (
            {"kind": "drop", "window": 13, "threshold": 1},
            r"must be at most 12, because drop compares two windows \(26 steps\), and the stream has 24",
        ),
        ({"kind": "storm", "threshold": 1}, "monitors"),
        ({"kind": "low", "threshold": -1}, "monitors"),
    ],
)
def test_a_bad_monitor_gets_one_line(given: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest, match=line):
        a_stream(monitors=[given])


def test_a_stream_without_monitors_has_the_hash_that_it_had() -> None:
    assert "monitors" not in a_stream().to_dict()
    watched = a_stream(monitors=[{"kind": "low", "threshold": 3}])
    assert type(watched).from_json(watched.to_json()) == watched
