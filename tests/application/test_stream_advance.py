from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.refusal_guard import RecordingNoise
from spark_jobs.application.streams.advance import advance, spendings, start_state
from spark_jobs.application.streams.state import CountStreamState
from spark_jobs.arrays import Int64Array
from spark_jobs.contract import InvalidRequest, StreamRequest
from spark_jobs.contract.privacy import exact_sum
from spark_jobs.contract.release import NOT_PRIVATE
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import SeededNoise
from spark_jobs.mechanisms.streams.level_filter import LocalLevelState
from tests.support.noises import Still
from tests.support.replay import as_bytes
from tests.support.streams import a_stream, of_hierarchy, of_states

EXACT = {"budget": {"epsilon": "1e9"}}
REQUESTS = (
    a_stream(),
    a_stream(method="pegasus"),
    of_states(method={"kind": "local_level", "season": 6}),
    of_states(method={"kind": "pegasus", "smoothing": "mean"}, neighbours="replace_one"),
    of_hierarchy(),
    of_hierarchy(unit={"column": "person", "max_rows": 3}, method={"kind": "pegasus", "prune_share": 0}),
    of_hierarchy(method={"kind": "local_level", "season": 6}, neighbours="replace_one"),
)


def some_counts(request: StreamRequest) -> Int64Array:
    shape = (request.steps, len(request.leaf_names))
    return np.random.default_rng(7).poisson(30, size=shape).astype(np.int64)


def exact(request: StreamRequest) -> StreamRequest:
    return StreamRequest.parse({**request.to_dict(), **EXACT})


@pytest.mark.parametrize("request_", REQUESTS)
def test_without_noise_the_counts_come_out(request_: StreamRequest) -> None:
    request, counts = exact(request_), some_counts(request_)
    _, released = advance(request, start_state(request), counts, noise=SeededNoise(1))
    leaves = slice(-counts.shape[1], None)
    np.testing.assert_array_equal(released.noisy[:, leaves], counts)
    assert released.measured.all()
    if request.states is not None and request.states.parents is not None:
        np.testing.assert_array_equal(released.noisy[:, 0], counts.sum(axis=1))


@pytest.mark.parametrize("request_", REQUESTS)
def test_steps_in_several_calls_are_the_steps_of_one_call(request_: StreamRequest) -> None:
    request, counts = exact(request_), some_counts(request_)
    _, whole = advance(request, start_state(request), counts, noise=SeededNoise(1))
    state, estimates, firsts = start_state(request), [], []
    for part in np.array_split(counts, 5):
        state = CountStreamState.from_bytes(state.to_bytes(request.charged_sha256), request.charged_sha256)
        state, released = advance(request, state, part, noise=SeededNoise(2))
        estimates.append(released.estimates)
        firsts.append(released.first)
    np.testing.assert_allclose(np.concatenate(estimates), whole.estimates)
    assert firsts == [0, 5, 10, 15, 20]
    assert state.step == request.steps


@pytest.mark.parametrize("method", ["local_level", "pegasus"])
def test_one_count_is_a_count_stream(method: str) -> None:
    request = a_stream(method=method, budget={"epsilon": "0.5"})
    counts = some_counts(request)
    _, released = advance(request, start_state(request), counts, noise=SeededNoise(3))
    stream = CountStream(epsilon="0.5", method=method, noise=SeededNoise(3)).release(counts[:, 0])
    np.testing.assert_array_equal(released.noisy[:, 0], stream.noisy)
    np.testing.assert_array_equal(released.estimates[:, 0], stream.estimates)
    if stream.lower is not None and released.lower is not None:
        np.testing.assert_array_equal(released.lower[:, 0], stream.lower)


@pytest.mark.parametrize("request_", REQUESTS)
def test_all_noise_is_within_the_budget_of_a_unit(request_: StreamRequest) -> None:
    noise = RecordingNoise(SeededNoise(4))
    advance(request_, start_state(request_), some_counts(request_), noise=noise)
    spent = exact_sum(*(spending.epsilon for spending in spendings(request_))) * request_.unit.max_rows
    largest = Decimal(noise.take_largest()["laplace"]) * request_.unit.max_rows
    assert largest <= spent <= request_.budget.epsilon < spent + Decimal("1e-15")


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_the_groups_of_filtered_states_are_functions_of_the_states(neighbours: str) -> None:
    """The proof: noise is drawn for the states alone, as without groups; all else follows from their noisy counts."""
    grouped = of_hierarchy(method="local_level", neighbours=neighbours)
    alone = of_states(grouped.leaf_names, neighbours=neighbours)
    counts = some_counts(grouped)
    _, released = advance(grouped, start_state(grouped), counts, noise=SeededNoise(7))
    _, states = advance(alone, start_state(alone), counts, noise=SeededNoise(7))
    np.testing.assert_array_equal(released.noisy[:, 3:], states.noisy)
    for group, parts in ((0, slice(4)), (1, slice(2)), (2, slice(2, 4))):
        np.testing.assert_array_equal(released.noisy[:, group], states.noisy[:, parts].sum(axis=1))
        np.testing.assert_allclose(released.estimates[:, group], released.estimates[:, 3:][:, parts].sum(axis=1))
    assert spendings(grouped) == spendings(alone)


def test_seeded_steps_stamp_all_later_states() -> None:
    request = a_stream()
    state, _ = advance(request, start_state(request), np.array([[3]]), noise=SeededNoise(5))
    assert state.guarantee == NOT_PRIVATE
    assert "step" not in repr(state)


@pytest.mark.parametrize("counts", [np.zeros((2, 3)), np.zeros((25, 4)), np.zeros(4)])
def test_counts_of_another_shape_are_rejected(counts: Any) -> None:
    with pytest.raises(ValueError, match="counts: got shape"):
        advance(of_states(), start_state(of_states()), counts, noise=SeededNoise(6))


def test_a_state_of_another_stream_or_version_is_refused_in_one_line() -> None:
    kept = start_state(a_stream()).to_bytes(a_stream().charged_sha256)
    with pytest.raises(InvalidRequest, match="state: must be the state of a stream with this request"):
        CountStreamState.from_bytes(kept, a_stream(steps=25).charged_sha256)
    with pytest.raises(InvalidRequest, match="state: must have been written by this version"):
        CountStreamState.from_bytes(kept.replace(b"state 5", b"state 3"), a_stream().charged_sha256)


def test_a_state_of_the_form_without_versions_is_still_read() -> None:
    request = of_states()
    state, _ = advance(request, start_state(request), some_counts(request)[:3], noise=SeededNoise(5))
    content = state.to_bytes(request.charged_sha256)
    with np.load(io.BytesIO(content.partition(b"\n")[2])) as kept:
        fields = {name: kept[name] for name in kept if name not in ("version", "salt")}
    written = io.BytesIO()
    np.savez(written, **fields)
    older = b"dp-diagnostics stream state 4\n" + written.getvalue()
    again = CountStreamState.from_bytes(older, request.charged_sha256)
    assert (again.version, again.salt_check, again.use) == ("", "", None)
    assert as_bytes(again) == as_bytes(state)


@pytest.mark.parametrize("request_", REQUESTS)
def test_the_length_of_a_state_does_not_depend_on_the_digits_of_counts(request_: StreamRequest) -> None:
    """Whoever sees the store sees how long an object is; steps that are alike group alike, whatever their counts."""
    lengths = set()
    for count in (10**3, 10**6, 2**36):
        counts = np.full((3, len(request_.leaf_names)), count, dtype=np.int64)
        state, _ = advance(request_, start_state(request_), counts, noise=Still())
        lengths.add(len(state.to_bytes(request_.charged_sha256)))
        again = CountStreamState.from_bytes(state.to_bytes(request_.charged_sha256), request_.charged_sha256)
        assert as_bytes(again) == as_bytes(state)
    assert len(lengths) == 1


@pytest.mark.slow
def test_ten_thousand_states_are_one_draw() -> None:
    request = of_states(tuple(map(str, range(10_000))))
    noise = RecordingNoise(SeededNoise(8))
    state, released = advance(request, start_state(request), np.ones((1, 10_000), dtype=np.int64), noise=noise)
    assert released.noisy.shape == (1, 10_000)
    again = CountStreamState.from_bytes(state.to_bytes(request.charged_sha256), request.charged_sha256).counts
    assert isinstance(again, LocalLevelState)
    assert again.levels.shape == (6, 10_000)
