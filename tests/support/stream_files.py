"""Streams that are released and published into a folder, without Spark, a store's protocol or a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.application.streams.advance import StepReleases, advance, start_state
from spark_jobs.application.streams.files import segment_files
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.store.stream_objects import SegmentPlace
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms.noise import SeededNoise


class Unstamped(SeededNoise):
    """Seeded noise whose pages look like those of a private stream."""

    guarantee = "differentially private"


def publish_stream(
    root: Path, request: StreamRequest, counts: Int64Array, *, parts: int, noise: Any = None
) -> list[StepReleases]:
    """Release the counts in so many runs, and write what a run publishes."""
    (root / "steps").mkdir(parents=True)
    state, released = start_state(request), []
    for number, part in enumerate(np.array_split(counts, parts)):
        state, steps = advance(request, state, part, noise=noise or Unstamped(number))
        released.append(steps)
        place = SegmentPlace(key="stream/test", first=steps.first, steps=len(part), previous="0" * 64)
        facts = {
            "charge_id": "charge",
            "request_sha256": request.sha256,
            "guarantee": state.guarantee,
            "drawn_at": "2026-11-22T10:00:00Z",
            "versions": {"numpy": "2"},
        }
        for name, content in segment_files(request, place, steps, facts=facts).items():
            (root / name).write_bytes(content)
    return released
