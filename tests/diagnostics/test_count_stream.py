from __future__ import annotations

import hashlib
import json
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.options import DIAGNOSTICS
from spark_jobs.contract.privacy import Neighbours
from spark_jobs.contract.release import NOT_PRIVATE, PRIVATE
from spark_jobs.diagnostics.count_stream import CountStream
from spark_jobs.mechanisms.noise import SecureNoise, SeededNoise
from spark_jobs.papers.streams.open_groups import PegasusState
from spark_jobs.papers.streams.pegasus import PegasusShape, release_steps
from spark_jobs.papers.streams.smoothing import Smoother
from tests.support.noises import Recording, worst_loss

ADDED, REPLACED = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BOTH = pytest.mark.parametrize("neighbours", list(Neighbours), ids=["added", "replaced"])
TOLD = 4711
"""A count that no message may hold."""


class Drawn:
    """Noise that was drawn beforehand: of counts, thresholds and tests, a row each, taken step by step.

    A first step has no threshold or no test, whichever it does not use.
    """

    private = False
    guarantee = NOT_PRIVATE

    def __init__(self, rows):
        self.rows, self.at, self.turn = rows, 0, 0

    def laplace(self, values, *, epsilon, l1_sensitivity):
        if self.turn == 0:
            self.at += values.size
        drawn = self.rows[self.turn][self.at - values.size : self.at]
        self.turn = (self.turn + 1) % 3
        return values + drawn


def rows_of(seed, steps):
    random = np.random.default_rng(seed)
    return [np.rint(random.laplace(0, scale, steps)).astype(int) for scale in (5, 40, 80)]


@pytest.mark.slow
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.lists(st.integers(1, 7), min_size=1, max_size=40),
    st.sampled_from(list(Smoother)),
    st.integers(0, 99),
)
def test_a_stream_that_is_saved_and_restored_anywhere_is_the_same_stream(counts, pieces, smoothing, seed):
    options = {"epsilon": 2, "method": "pegasus", "max_group": 6, "smoothing": smoothing}
    whole = CountStream(**options, noise=Drawn(rows_of(seed, len(counts)))).steps(counts).tolist()
    noise = Drawn(rows_of(seed, len(counts)))
    stream, found = CountStream(**options, noise=noise), []
    while len(found) < len(counts):
        size = pieces[len(found) % len(pieces)]
        part = counts[len(found) : len(found) + size]
        found += [stream.step(part[0])] if len(part) == 1 else stream.steps(part).tolist()
        stream = CountStream.restore(stream.state(), noise=noise)
        assert stream.taken == len(found)
    assert found == whole


@BOTH
def test_it_releases_what_the_mechanism_does(neighbours):
    counts = np.random.default_rng(3).poisson(20, 300)
    options = {"epsilon": "0.5", "group_share": "0.3", "threshold": 9.0, "max_group": 12}
    stream = CountStream(**options, method="pegasus", neighbours=neighbours, smoothing="mean", noise=SeededNoise(5))
    shape = PegasusShape(**options, neighbours=neighbours, smoother=Smoother.MEAN)
    _, expected = release_steps(PegasusState(), counts, shape=shape, noise=SeededNoise(5))
    assert stream.steps(counts).tolist() == expected.estimates.tolist()
    assert (stream.epsilon, stream.neighbours, stream.spendings) == (Decimal("0.5"), neighbours, shape.spendings)


@BOTH
def test_the_counts_of_a_stream_lose_their_part_of_epsilon_and_no_more(neighbours):
    def mechanism(counts, noise):
        stream = CountStream(epsilon=2, method="pegasus", neighbours=neighbours, noise=noise)
        for count in counts[:3]:
            stream.step(count)
        stream.steps(counts[3:])

    # not whole, missing and beyond the bounds: what is done about these keeps neighbours neighbours
    counts = np.array([3.5, 0, math.nan, 1e30, 7, -4])
    for place in (0, 1, 4):
        more = counts.copy()
        more[place] += 1
        assert worst_loss(mechanism, counts, more) == Fraction(8, 5) / (1 if neighbours is ADDED else 2)
    moved = counts.copy()
    moved[[0, 4]] += [1, -1]
    assert worst_loss(mechanism, counts, moved) == Fraction(8, 5) * (2 if neighbours is ADDED else 1)


BAD = [
    math.nan, math.inf, -math.inf, -1, 2**70, 10**400, None, 0.5, Decimal("NaN"), Decimal("sNaN"), Decimal("1e99"),
    Fraction(7, 2), True, np.float32(3), np.longdouble("1e4000"), np.uint64(2**64 - 1), np.int64(-(2**63)),
]  # fmt: skip
MEANT = [0, 2**40, 0, 0, 2**40, 2**40, 0, 0, 0, 0, 2**40, 3, 1, 3, 2**40, 2**40, 0]


def test_no_count_raises_or_warns_or_changes_what_comes_out():
    noise = Recording(source=SecureNoise())
    stream = CountStream(epsilon=1, method="pegasus", noise=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count, meant in zip(BAD, MEANT, strict=True):
            for given_as in (lambda c: [stream.step(c)], lambda c: stream.steps([c, c])):
                estimates = given_as(count)
                assert all(isinstance(float(each), float) and 0 <= each < math.inf for each in estimates)
                assert set(noise.asked[-3].values.tolist()) == {meant}
        assert stream.steps([3, None, math.nan, 10**400]).shape == (4,)
        assert stream.steps([]).shape == (0,)
    assert stream.taken == 3 * len(BAD) + 4


@pytest.mark.parametrize("counts", [[[1, 2]], 3, np.zeros((2, 2))], ids=str)
def test_counts_are_one_row(counts):
    with pytest.raises(ValueError, match="counts"):
        CountStream(epsilon=1).steps(counts)


@pytest.mark.parametrize("counts", [[str(TOLD)], [complex(TOLD)], np.array(["2020-01-01"], dtype="datetime64[D]")])
def test_counts_are_numbers_and_the_refusal_does_not_quote_them(counts):
    with pytest.raises(TypeError, match="must be numbers") as refused:
        CountStream(epsilon=1).steps(counts)
    assert str(TOLD) not in str(refused.value)


PEGASUS = {"group_share", "threshold", "max_group", "smoothing"}


@pytest.mark.parametrize(
    ("method", "option"),
    [("local_level", each) for each in sorted(PEGASUS)] + [("pegasus", "season"), ("pegasus", "confidence")],
)
def test_an_option_of_the_other_method_is_refused_in_one_line(method, option):
    with pytest.raises(InvalidRequest, match=f"^{option}: .*is no option of method {method}") as refused:
        CountStream(epsilon=1, method=method, **{option: "mean" if option == "smoothing" else 1})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "changed",
    [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": None}, {"epsilon": "1e-7"},
     {"neighbours": "twins"}, {"group_share": 0}, {"group_share": 1}, {"group_share": "half"}, {"threshold": -1},
     {"threshold": math.inf}, {"threshold": "5"}, {"threshold": True}, {"max_group": 0}, {"max_group": 10**6},
     {"max_group": 2.5}, {"smoothing": "mode"}, {"method": "kalman"}, {"season": -1}, {"season": 2.5},
     {"season": 10**6}, {"confidence": 1}, {"confidence": 0.4}, {"confidence": "0.9"}],
    ids=str,
)  # fmt: skip
def test_bad_options_are_refused_in_one_line(changed):
    of_pegasus = {"method": "pegasus"} if set(changed) & PEGASUS else {}
    with pytest.raises(InvalidRequest, match=next(iter(changed))) as refused:
        CountStream(**{"epsilon": 1, **of_pegasus, **changed})
    assert "\n" not in str(refused.value)


def open_stream(**changed):
    """A stream in the middle of a group of counts that nobody may read."""
    zero = np.zeros(3, dtype=int)
    stream = CountStream(**{"epsilon": 1, "method": "pegasus", "noise": Drawn([zero, zero, zero - 10**6]), **changed})
    stream.steps([5, 5, TOLD - 1])
    return stream


def rewritten(state, **changed):
    """A state with other fields, and the sum to it."""
    fields = json.loads(state.split(b"\n", 1)[1])
    body = json.dumps({**fields, **changed}, separators=(",", ":")).encode()
    return signed(body)


def signed(body):
    return b"count-stream 3 " + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def test_a_state_that_was_rewritten_without_a_change_is_read():
    state = open_stream().state()
    assert rewritten(state) == state
    assert CountStream.restore(state).state() == state
    assert CountStream.restore(bytearray(state)).taken == 3


@pytest.mark.parametrize(
    "changed",
    [{"step": 4}, {"step": -1}, {"start": 1}, {"start": 4}, {"open": False}, {"level": 2**63}, {"counts": []},
     {"counts": [5, 5, -1]}, {"counts": [TOLD, 5, 5]}, {"counts": [5, 5, 2**41]}, {"counts": [5, 5, 5.0]},
     {"counts": [5, 5, "5"]}, {"counts": [5, 5, None]}, {"noisy": [5, 5]}, {"noisy": [TOLD, 5, 5]},
     {"noisy": [5, 5, 2**63]}, {"max_group": 3}, {"max_group": 0}, {"epsilon": 1}, {"epsilon": "0"}, {"epsilon": "1.0"},
     {"epsilon": "nan"}, {"group_share": "1"}, {"threshold": 5}, {"threshold": "5"}, {"smoothing": "mode"},
     {"neighbours": "twins"}, {"guarantee": "private"}, {"guarantee": None}, {"more": 1}],
    ids=str,
)  # fmt: skip
def test_what_no_stream_comes_to_is_refused_and_not_quoted(changed):
    with pytest.raises(InvalidRequest, match="state") as refused:
        CountStream.restore(rewritten(open_stream().state(), **changed))
    message = str(refused.value)
    assert str(TOLD) not in message
    assert refused.value.value is None
    # neither does what a traceback would show
    assert refused.value.__suppress_context__
    assert str(TOLD) not in repr(refused.value)


def damaged():
    state = open_stream().state()
    head, body = state.split(b"\n", 1)
    yield from (b"", b"\n", b"{}", state[:-1], state + b"\n", b" " + state, state.replace(b"4710", b"4711"), body)
    yield from (state.replace(b"stream 3", b"stream 2"), head + b"\n" + head + b"\n" + body, None, state.decode(), 5)
    yield from (signed(body + b" "), signed(b"[]"), signed(b""), signed(body[:-1]), signed(b"\xff"))
    # one field twice, or left out
    yield signed(body.replace(b'"step":3', b'"step":3,"step":3'))
    yield signed(body.replace(b'"open":true,', b""))


@pytest.mark.parametrize("state", list(damaged()), ids=repr)
def test_another_form_is_refused(state):
    with pytest.raises(InvalidRequest, match="state"):
        CountStream.restore(state)


def test_what_is_shown_has_no_count():
    stream = open_stream()
    assert b"4710" in stream.state()
    assert "4710" not in repr(stream)
    assert repr(stream) == "CountStream(epsilon=1, neighbours=add_remove, taken=3, guarantee='NOT PRIVATE')"


def test_options_survive():
    options = {
        "epsilon": Decimal("1e-5"),
        "neighbours": REPLACED,
        "group_share": "0.25",
        "threshold": 7,
        "max_group": 9,
    }
    stream = CountStream(**options, method="pegasus", smoothing="james_stein")
    again = CountStream.restore(stream.state())
    assert again.state() == stream.state()
    fields = json.loads(stream.state().split(b"\n")[1])
    assert {name: fields[name] for name in (*options, "smoothing")} == {
        "epsilon": "0.00001", "neighbours": "replace_one", "group_share": "0.25", "threshold": 7.0, "max_group": 9,
        "smoothing": "james_stein",
    }  # fmt: skip


def test_a_stream_that_was_ever_seeded_stays_stamped():
    secure = CountStream(epsilon=1)
    assert (secure.guarantee, secure.private) == (PRIVATE, True)
    assert CountStream.restore(secure.state()).private
    seeded = CountStream.restore(secure.state(), noise=SeededNoise(1))
    assert (seeded.guarantee, seeded.private) == (NOT_PRIVATE, False)
    seeded.step(5)
    again = CountStream.restore(seeded.state(), noise=SecureNoise())
    again.step(5)
    assert (again.guarantee, again.private) == (NOT_PRIVATE, False)


def test_memory_does_not_grow_with_the_stream():
    stream, sizes = CountStream(epsilon=1, method="pegasus", max_group=16, threshold=10**6, noise=SeededNoise(2)), []
    for _ in range(40):
        stream.steps(np.full(501, 2**40))  # all alike: groups are as large as they may be
        sizes.append(len(stream.state()))
    # sixteen counts and as many noisy ones of thirteen digits, and the options
    assert max(sizes) < 16 * 2 * 15 + 500
    assert max(sizes) > 10 * 2 * 13


def test_noise_that_fails_leaves_the_stream_where_it_was():
    class Failing(SeededNoise):
        fails = False

        def laplace(self, values, *, epsilon, l1_sensitivity):
            if self.fails and int(np.max(values)) == 0:  # the last of the three draws
                raise OSError("no randomness")
            return super().laplace(values, epsilon=epsilon, l1_sensitivity=l1_sensitivity)

    noise = Failing(3)
    stream = CountStream(epsilon=1, method="pegasus", noise=noise)
    stream.steps([5, 5, 5])
    before, noise.fails = stream.state(), True
    with pytest.raises(OSError, match="randomness"):
        stream.steps([5, 5])
    assert stream.state() == before


def test_groups_of_a_steady_stream_lower_its_error():
    counts = np.repeat([40, 3, 90], 2000)
    smooth = CountStream(epsilon="0.2", method="pegasus", threshold=60, noise=SeededNoise(3)).steps(counts)
    raw = SeededNoise(3).laplace(counts, epsilon="0.2", l1_sensitivity=1)
    assert np.abs(smooth - counts).mean() < np.abs(raw - counts).mean() / 2


FILTERED = {"epsilon": "0.5", "season": 4, "confidence": 0.8}


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.lists(st.integers(1, 7), min_size=1, max_size=40),
    st.sampled_from([0, 1, 5]),
    st.integers(0, 99),
)
def test_a_filtered_stream_that_is_saved_and_restored_anywhere_is_the_same_stream(counts, pieces, season, seed):
    noises = [np.rint(np.random.default_rng(seed).laplace(0, 5, len(counts))).astype(int)]
    whole = CountStream(epsilon=1, season=season, noise=OneRow(noises[0])).release(counts)
    noise, taken, bands = OneRow(noises[0]), 0, []
    stream = CountStream(epsilon=1, season=season, noise=noise)
    while taken < len(counts):
        steps = stream.release(counts[taken : taken + pieces[taken % len(pieces)]])
        assert steps.first == taken
        taken += steps.noisy.size
        bands += zip(steps.estimates, steps.lower, steps.upper, steps.noisy, strict=True)
        stream = CountStream.restore(stream.state(), noise=noise)
    assert bands == list(zip(whole.estimates, whole.lower, whole.upper, whole.noisy, strict=True))


class OneRow(Drawn):
    """Noise of counts that was drawn beforehand."""

    def __init__(self, row):
        super().__init__([row, row, row])

    def laplace(self, values, *, epsilon, l1_sensitivity):
        self.at += values.size
        return values + self.rows[0][self.at - values.size : self.at]


@BOTH
def test_filtered_counts_lose_epsilon_and_no_more(neighbours):
    def mechanism(counts, noise):
        stream = CountStream(epsilon=2, season=2, neighbours=neighbours, noise=noise)
        stream.step(counts[0])
        CountStream.restore(stream.state(), noise=noise).steps(counts[1:])

    counts = np.array([3.5, 0, math.nan, 1e30, 7, -4])
    more, moved = counts.copy(), counts.copy()
    more[1] += 1
    moved[[0, 4]] += [1, -1]
    assert worst_loss(mechanism, counts, more) == (2 if neighbours is ADDED else 1)
    assert worst_loss(mechanism, counts, moved) == (4 if neighbours is ADDED else 2)


def test_a_filtered_stream_keeps_its_options_and_no_exact_count():
    stream = CountStream(**FILTERED, neighbours=REPLACED, noise=OneRow(np.array([9, -9, 40])))
    stream.steps([TOLD, 5, 5])
    assert str(TOLD) not in stream.state().decode()
    again = CountStream.restore(stream.state(), noise=SeededNoise(1))
    assert (again.taken, again.epsilon, again.neighbours, again.method) == (3, Decimal("0.5"), REPLACED, "local_level")
    assert again.state() == stream.state()
    assert repr(again) == "CountStream(epsilon=0.5, neighbours=replace_one, taken=3, guarantee='NOT PRIVATE')"


@pytest.mark.parametrize(
    "changed",
    [{"levels": []}, {"counts": [1.0]}, {"season": 2}, {"recent": [-1.0, 0.0, 0.0]}, {"recent": [0.0, 0.0]},
     {"combined": -1.0}, {"level": "5"}, {"guarantee": "private"}, {"confidence": 2.0}, {"step": 2}, {"more": 1}],
    ids=str,
)  # fmt: skip
def test_what_no_filtered_stream_comes_to_is_refused(changed):
    stream = CountStream(**FILTERED, noise=SeededNoise(1))
    stream.steps([5, 6, 7])
    fields = json.loads(stream.state().split(b"\n", 1)[1])
    written = signed(json.dumps({**fields, **changed}, separators=(",", ":")).encode()).replace(b"m 3 ", b"m 2 ")
    with pytest.raises(InvalidRequest, match="state"):
        CountStream.restore(written)


def test_a_stream_is_no_kind_of_a_request():
    assert "count_stream" not in DIAGNOSTICS
