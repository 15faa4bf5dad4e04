"""Streams that are released and published into a folder, without Spark, a store's protocol or a ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from spark_jobs.application.streams.advance import StepReleases, advance, spendings, start_state
from spark_jobs.arrays import Int64Array
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.publishing.data_files import parquet_bytes
from spark_jobs.publishing.rendering import Column


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
        name = root / "steps" / f"{steps.first:012d}"
        name.with_suffix(".parquet").write_bytes(_parquet(request, steps))
        name.with_suffix(".json").write_text("{}")
    description = {
        "key": "stream/test",
        "charge_id": "charge",
        "guarantee": state.guarantee,
        "request": request.to_dict(),
        "cost": request.budget.model_dump(mode="json"),
        "spendings": [
            {"label": one.label, "epsilon": plain(one.epsilon * request.unit.max_rows)} for one in spendings(request)
        ],
        "statement": "Whoever reads this stream can hardly tell.\n\nWho is protected: one row.",
        "rules": ["A row counts in its step."],
        "assumptions": ["The table only gains rows."],
        "versions": {"numpy": "2"},
    }
    (root / "stream.json").write_text(json.dumps(description))
    return released


def _parquet(request: StreamRequest, steps: StepReleases) -> bytes:
    count, names = steps.noisy.shape
    missing = np.full(steps.noisy.shape, np.nan)
    values = {
        "step": np.repeat(np.arange(steps.first, steps.first + count), names),
        "state": np.tile(np.array(request.names, dtype=object), count),
        "noisy": steps.noisy.ravel(),
        "measured": steps.measured.ravel(),
        "estimate": steps.estimates.ravel(),
        "lower": (missing if steps.lower is None else steps.lower).ravel(),
        "upper": (missing if steps.upper is None else steps.upper).ravel(),
    }
    return parquet_bytes({name: Column(values=one, meaning=name) for name, one in values.items()}, metadata={})
