"""Sealed objects open as what they were sealed as, for those who hold the secret, and as nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.sealing import RUN_SECRET_VARIABLE, Seal, SealBroken

SEAL = Seal(secret=bytes(range(32)), charge_id="c1", request_sha256="a" * 64)


@given(st.binary(max_size=5000))
def test_what_was_sealed_is_opened_and_cannot_be_read(content: bytes) -> None:
    sealed = SEAL.close("draw", content, draw_sha256="d")
    assert SEAL.open("draw", sealed, draw_sha256="d") == content
    if len(content) > 8:
        assert content not in sealed[24:]


@pytest.mark.parametrize(
    ("seal", "name", "draw"),
    [
        (replace(SEAL, secret=bytes(32)), "draw", "d"),
        (replace(SEAL, charge_id="c2"), "draw", "d"),
        (replace(SEAL, request_sha256="b" * 64), "draw", "d"),
        (SEAL, "release", "d"),
        (SEAL, "draw", "e"),
        (SEAL, "draw", ""),
    ],
    ids=["secret", "charge", "request", "name", "draw", "no draw"],
)
def test_object_of_something_else_does_not_open(seal: Seal, name: str, draw: str) -> None:
    sealed = SEAL.close("draw", b"noise", draw_sha256="d")
    with pytest.raises(SealBroken):
        seal.open(name, sealed, draw_sha256=draw)


@pytest.mark.parametrize(
    "content", [b"", b'{"kind": "draw"}', b"dp-diagnostics sealed 1\n", b"dp-diagnostics sealed 1\nx"]
)
def test_what_was_never_sealed_does_not_open(content: bytes) -> None:
    with pytest.raises(SealBroken):
        SEAL.open("draw", content)


def test_every_changed_byte_breaks_the_seal() -> None:
    sealed = SEAL.close("draw", b"noise")
    for place in range(0, len(sealed), 7):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(SealBroken):
            SEAL.open("draw", bytes(changed))
    with pytest.raises(SealBroken):
        SEAL.open("draw", sealed[:-1])


def test_size_tells_a_power_of_two_alone() -> None:
    assert len({len(SEAL.close("draw", bytes(size))) for size in (0, 1, 1000, 1016)}) == 1
    assert len({len(SEAL.close("draw", bytes(size))) for size in (1017, 1500, 2040)}) == 1


def test_same_content_is_never_sealed_alike() -> None:
    assert SEAL.close("draw", b"noise") != SEAL.close("draw", b"noise")


def test_secret_is_taken_out_of_the_environment_and_shown_nowhere() -> None:
    environ = {RUN_SECRET_VARIABLE: SEAL.secret.hex(), "PATH": "/bin"}
    assert Seal.take_from(environ, charge_id="c1", request_sha256="a" * 64) == SEAL
    assert environ == {"PATH": "/bin"}
    assert SEAL.secret.hex() not in repr(SEAL)
    assert repr(SEAL.secret) not in repr(SEAL)


@pytest.mark.parametrize("given", ["", "not hexadecimal", "00" * 31])
def test_run_without_its_secret_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest, match="must hold the secret of the charged run") as refused:
        Seal.take_from({RUN_SECRET_VARIABLE: given}, charge_id="c1", request_sha256="a" * 64)
    assert given == "" or given not in str(refused.value)
