"""The objects of a stream open only for their key, charge, request, steps and predecessor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.store.sealing import Seal, SealBroken
from spark_jobs.contract.store.stream_objects import (
    GENESIS,
    SegmentPlace,
    StreamLayout,
    StreamSegment,
    pack_files,
    unpack_files,
)
from spark_jobs.contract.stream_keys import STREAM_KEYS_FILE_VARIABLE, STREAM_KEYS_VARIABLE, StreamKeys

KEYS = StreamKeys(keys={"k1": b"1" * 32})
SEAL = Seal(secret=b"s" * 32, charge_id="c1", request_sha256="r" * 64)
PLACE = SegmentPlace(key="ward", first=3, steps=2, previous="a" * 64)
STATE, RELEASE = b"exact counts", b"noisy counts"


def closed(**changes: Any) -> StreamSegment:
    fields = {"state": STATE, "release": RELEASE, "keys": KEYS, "seal": SEAL, **changes}
    return StreamSegment.close(fields.pop("place", PLACE), **fields)


def test_both_parts_open_and_nothing_is_readable() -> None:
    segment = StreamSegment.parse(closed().content, key="ward")
    assert (segment.place, segment.ends) == (PLACE, 5)
    assert (segment.open_state(KEYS, SEAL), segment.open_release(SEAL)) == (STATE, RELEASE)
    assert STATE not in segment.content
    assert RELEASE not in segment.content
    assert segment.sha256 != closed().sha256, "every object has a nonce of its own"


@pytest.mark.parametrize(
    "place",
    [
        replace(PLACE, key="other stream"),
        replace(PLACE, first=4),
        replace(PLACE, steps=3),
        replace(PLACE, previous=GENESIS),
    ],
)
def test_an_object_of_another_place_does_not_open(place: SegmentPlace) -> None:
    segment = replace(closed(), place=place)
    with pytest.raises(
        InvalidRequest, match="must be readable with the key of this name, and must be the state of this stream"
    ):
        segment.open_state(KEYS, SEAL)
    if place.key == PLACE.key:  # the charge's secret is that of one stream
        with pytest.raises(SealBroken):
            segment.open_release(SEAL)


@pytest.mark.parametrize("changes", [{"secret": b"t" * 32}, {"charge_id": "c2"}, {"request_sha256": "q" * 64}])
def test_another_charge_opens_nothing(changes: dict[str, Any]) -> None:
    other = replace(SEAL, **changes)
    with pytest.raises(SealBroken):
        closed().open_release(other)
    if "secret" not in changes:
        with pytest.raises(InvalidRequest):
            closed().open_state(KEYS, other)


def test_a_release_is_bound_to_the_state_beside_it() -> None:
    one, other = closed(), closed()
    mixed = one.content[: -len(one.release)] + other.release
    with pytest.raises(SealBroken):
        StreamSegment.parse(mixed, key="ward").open_release(SEAL)


def test_the_committer_cannot_open_the_state() -> None:
    with pytest.raises(InvalidRequest):
        closed().open_state(StreamKeys(keys={"k1": SEAL.secret}), SEAL)


@pytest.mark.parametrize("at", [5, 40, 120, 1200, -3])
def test_a_changed_byte_is_noticed(at: int) -> None:
    content = bytearray(closed().content)
    content[at] ^= 1
    with pytest.raises(SealBroken):
        StreamSegment.parse(bytes(content), key="ward").open_release(SEAL)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"dp-diagnostics stream 1\n", b"dp-diagnostics stream 2\n{}\n"])
def test_anything_else_is_no_object(content: bytes) -> None:
    with pytest.raises(SealBroken, match="damaged, or of another version"):
        StreamSegment.parse(content, key="ward")


def test_an_old_key_opens_what_it_closed_and_the_first_closes() -> None:
    both = StreamKeys(keys={"k2": b"2" * 32, **KEYS.keys})
    assert closed().open_state(both, SEAL) == STATE
    assert closed(keys=both).key_name == "k2"
    with pytest.raises(InvalidRequest, match="got 'k2'; must include the key that encrypted the stream's state"):
        closed(keys=both).open_state(KEYS, SEAL)


def test_files_are_packed_with_their_facts() -> None:
    facts, files = {"guarantee": "x"}, {"stream.json": b"{}\n", "steps/0.parquet": b"\0\1\2"}
    assert unpack_files(pack_files(facts, files)) == (facts, files)
    with pytest.raises(SealBroken):
        unpack_files(pack_files(facts, files) + b"more")


def test_objects_are_named_by_their_first_step() -> None:
    layout = StreamLayout.of("/out", "ward", "c1")
    assert layout.segment(7).endswith("/_draft/c1/steps/000000000007")


def test_keys_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    lines = f"new:{'ab' * 32}\nold:{'cd' * 32}\n"
    (tmp_path / "keys").write_text(lines)
    environ = {STREAM_KEYS_VARIABLE: lines}
    for keys in (StreamKeys.take_from(environ), StreamKeys.read({STREAM_KEYS_FILE_VARIABLE: str(tmp_path / "keys")})):
        assert (keys.current, keys.key("old")) == ("new", b"\xcd" * 32)
        assert "abab" not in repr(keys)
    assert environ == {}


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({}, "exactly one of"),
        ({STREAM_KEYS_VARIABLE: "x", STREAM_KEYS_FILE_VARIABLE: "y"}, "exactly one of"),
        ({STREAM_KEYS_FILE_VARIABLE: "/no/such/file"}, "must name a file of ASCII text that can be read"),
        ({STREAM_KEYS_VARIABLE: "secret"}, "must have lines of a name, a colon and 64 hexadecimal digits"),
        ({STREAM_KEYS_VARIABLE: f"k:{'ab' * 32} k:{'cd' * 32}"}, "each name once"),
    ],
)
def test_keys_that_cannot_be_used_are_one_line_that_quotes_none(environ: dict[str, str], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        StreamKeys.read(environ)
    assert line in str(refused.value)
    assert "secret'" not in str(refused.value)
