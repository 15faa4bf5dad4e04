"""The published files of a stream: its description, and for each segment the steps as Parquet with a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from spark_jobs.application.streams.advance import StepReleases, spendings
from spark_jobs.contract.privacy import plain
from spark_jobs.contract.release import ReleaseFile
from spark_jobs.contract.store.stream_objects import STREAM_NAME, SegmentPlace, segment_file
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.publishing.data_files import CSV, MEDIA_TYPE, csv_bytes, parquet_bytes
from spark_jobs.publishing.rendering import Column
from spark_jobs.wording.streams import stream_assumptions, stream_rules, stream_statement

FORMAT = 1


def segment_files(
    request: StreamRequest, place: SegmentPlace, releases: StepReleases, *, facts: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files that are published for a segment, in the order in which they are written: its manifest is the last.

    Args:
        request: the stream's request.
        place: the segment's place in the stream.
        releases: the released values of its steps.
        facts: the public facts of its draw.
    """
    columns = steps_columns(request, releases)
    data = {
        segment_file(place.first, "parquet"): (parquet_bytes(columns, metadata={}), MEDIA_TYPE),
        segment_file(place.first, "csv"): (csv_bytes(columns), CSV),
    }
    files = {STREAM_NAME: stream_description(request, place, facts)} if place.first == 0 else {}
    manifest = {
        "format": FORMAT,
        "key": place.key,
        "charge_id": facts["charge_id"],
        "request_sha256": facts["request_sha256"],
        "guarantee": facts["guarantee"],
        "first": place.first,
        "steps": place.steps,
        "begins": _text(request, place.first),
        "ends": _text(request, place.first + place.steps),
        "previous_sha256": place.previous,
        "drawn_at": facts["drawn_at"],
        "snapshot": request.table.snapshot.model_dump(mode="json", exclude_none=True),
        "versions": facts["versions"],
        "files": [ReleaseFile.of(name, *one).model_dump(mode="json") for name, one in data.items()],
    }
    contents = {name: content for name, (content, _) in data.items()}
    return {**files, **contents, segment_file(place.first, "json"): _document(manifest)}


def steps_columns(request: StreamRequest, releases: StepReleases) -> dict[str, Column]:
    """The released values, one row for each state at each step; null for a count that was not measured."""
    count, names = releases.noisy.shape
    empty, unknown = np.full(releases.noisy.shape, np.nan), ~releases.measured.ravel()
    begins = np.datetime64(request.start.removesuffix("Z"), "us") + (
        np.arange(releases.first, releases.first + count) * np.timedelta64(request.step_length)
    )
    return {
        "step": Column(values=np.repeat(np.arange(releases.first, releases.first + count), names), meaning="number"),
        "begins": Column(values=np.repeat(begins, names), meaning="the first instant of the step, in UTC"),
        "state": Column(values=np.tile(np.array(request.names, dtype=object), count), meaning="its name"),
        "noisy": Column(
            values=np.ma.MaskedArray(releases.noisy.ravel(), mask=unknown),
            meaning="the noisy count, null if not measured",
        ),
        "measured": Column(
            values=releases.measured.ravel(), meaning="whether the count, or all that it is a sum of, was measured"
        ),
        "estimate": Column(
            values=np.where(unknown, np.nan, releases.estimates.ravel()),
            meaning="the estimate of the count, null if not measured",
        ),
        "lower": Column(values=(empty if releases.lower is None else releases.lower).ravel(), meaning="of the band"),
        "upper": Column(values=(empty if releases.upper is None else releases.upper).ravel(), meaning="of the band"),
    }


def stream_description(request: StreamRequest, place: SegmentPlace, facts: Mapping[str, Any]) -> bytes:
    """``stream.json``: what the stream is, what it costs and whom it protects; the same for every step."""
    rows = request.rows_paid
    return _document(
        {
            "format": FORMAT,
            "kind": request.kind,
            "key": place.key,
            "charge_id": facts["charge_id"],
            "request_sha256": facts["request_sha256"],
            "request": request.to_dict(),
            "guarantee": facts["guarantee"],
            "cost": request.budget.model_dump(mode="json"),
            "epsilon_per_row": plain(request.epsilon_per_row),
            "spendings": [
                {"label": spending.label, "epsilon": plain(spending.epsilon * rows)} for spending in spendings(request)
            ],
            "statement": stream_statement(request, str(facts["guarantee"])),
            "rules": stream_rules(request),
            "assumptions": stream_assumptions(request),
            "names": request.names,
            "levels": request.levels,
            "began_at": facts["drawn_at"],
            "versions": facts["versions"],
        }
    )


def _text(request: StreamRequest, step: int) -> str:
    return request.step_begins(step).isoformat().replace("+00:00", "Z")


def _document(fields: Mapping[str, Any]) -> bytes:
    return (json.dumps(fields, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
