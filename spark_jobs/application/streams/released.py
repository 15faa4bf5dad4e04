"""The released values of a stream, read from its published files, without Spark and without a secret."""

from __future__ import annotations

import io

import numpy as np
import pyarrow.parquet as pq

from spark_jobs.application.streams.advance import hierarchy_of, mechanism
from spark_jobs.arrays import BoolArray, FloatArray, Int64Array
from spark_jobs.contract.options.streams import LocalLevelMethod
from spark_jobs.contract.store.objects import ObjectStore
from spark_jobs.contract.store.stream_objects import STEPS_FOLDER
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.stream_states import TOTAL
from spark_jobs.diagnostics.count_stream.summary import DEFAULT_CONFIDENCE, StreamHistory, with_total
from spark_jobs.mechanisms.noise import laplace_scale
from spark_jobs.mechanisms.prefix_sums import rows_changed
from spark_jobs.mechanisms.streams.local_level import LocalLevelShape
from spark_jobs.papers.streams.hierarchy import HierarchyShape


def published_segments(store: ObjectStore, root: str) -> tuple[str, ...]:
    """The names of the files of all visible segments, in order: those that have a manifest and no gap before them."""
    names = {f"{STEPS_FOLDER}/{name.rpartition('/')[2]}" for name in store.names(f"{root}/{STEPS_FOLDER}")}
    return tuple(sorted(name for name in names if name.endswith(".parquet") and f"{name[:-8]}.json" in names))


def first_step(segment: str) -> int:
    """The number of the first step of a segment's file."""
    return int(segment.rpartition("/")[2].removesuffix(".parquet"))


def segment_history(content: bytes, request: StreamRequest) -> StreamHistory:
    """The released values of all counts in the file of a segment."""
    table = pq.read_table(io.BytesIO(content), columns=["noisy", "measured", "estimate", "lower", "upper"])
    shape = (-1, len(request.names))
    # a part that was not measured has no value, and had 0 in files of earlier versions
    filled = {name: table.column(name).fill_null(0) for name in ("noisy", "estimate")}
    columns = {name: filled.get(name, table.column(name)) for name in table.column_names}
    values = {name: column.to_numpy().reshape(shape) for name, column in columns.items()}
    banded = isinstance(mechanism(request), LocalLevelShape)
    measured = values["measured"].astype(np.bool_)
    return StreamHistory(
        names=request.names,
        noisy=values["noisy"].astype(np.int64),
        estimates=values["estimate"].astype(np.float64),
        lower=values["lower"] if banded else None,
        upper=values["upper"] if banded else None,
        measured=measured,
        scales=noise_scales(request, measured),
        terms=noise_terms(request),
    )


def noise_terms(request: StreamRequest) -> Int64Array:
    """How many noise variables each count is the sum of: with ``local_level``, those of all states below it."""
    hierarchy = hierarchy_of(request) if isinstance(request.method, LocalLevelMethod) else None
    return np.ones(len(request.names), dtype=np.int64) if hierarchy is None else hierarchy.cells_below


def noise_scales(request: StreamRequest, measured: BoolArray) -> FloatArray:
    """The scale of the noise of each count, which is public: it depends on the request and on what was measured.

    A node of a hierarchy whose children were not measured also has the budget of all levels below it
    (``papers.streams.hierarchy``).
    """
    shape, rows = mechanism(request), rows_changed(request.neighbours)
    if not isinstance(shape, HierarchyShape):
        epsilon = shape.counting if isinstance(shape, LocalLevelShape) else shape.perturbing
        return np.full(measured.shape, laplace_scale(epsilon, rows))
    levels = len(shape.sizes)
    by_levels = np.array([laplace_scale(shape.perturbing(max(paid, 1)), rows) for paid in range(levels + 1)])
    paid = np.ones(measured.shape, dtype=np.int64)
    starts = [0, *shape.cuts.tolist()]
    for depth, children in enumerate(reversed(shape.hierarchy.children)):
        sizes = np.asarray(children)
        first = starts[depth + 1] + np.cumsum(sizes) - sizes
        own = slice(starts[depth], starts[depth] + sizes.size)
        paid[:, own] = np.where(measured[:, first], 1, levels - depth)
    return by_levels[paid]


def confidence_of(request: StreamRequest) -> float:
    """The confidence level of the stream's bands."""
    return request.method.confidence if isinstance(request.method, LocalLevelMethod) else DEFAULT_CONFIDENCE


def history_with_total(history: StreamHistory, request: StreamRequest) -> StreamHistory:
    """The history, with the total of all states if these have no groups above them; a total costs nothing."""
    return with_total(history, name=TOTAL, confidence=confidence_of(request)) if request.has_total else history
