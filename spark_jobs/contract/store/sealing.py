"""Sealed objects: what an application and the committer of its release exchange through a store they do not trust.

Whoever owns a store can read, delete, replace and replay its objects. Only the two programs that have the charge's
secret can read a sealed object, and only under the name for which it was sealed: AES-256-GCM under that secret, with
the charge, the request, the object's name and the draw that it was made from as associated data. Deleting and replaying
remain possible; against these, the ledger records the hash of the one draw that counts.

The size of an object that is never published must reveal little about its content, so contents are padded to a power of
two.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Self, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

from spark_jobs.contract.errors import InvalidRequest

RUN_SECRET_VARIABLE = "DP_DIAGNOSTICS_RUN_SECRET"  # noqa: S105 - a name; "secret" in it makes Spark hide its value
"""The environment variable with a run's secret, in hexadecimal."""

SECRET_BYTES = 32
_MAGIC = b"dp-diagnostics sealed 1\n"
_NONCE_BYTES = 12
_LENGTH_BYTES = 8
_MIN_SIZE = 1024
_PIECE = 2**20

T = TypeVar("T")


class SealBroken(Exception):
    """An object is not as it was sealed under this name with the secret of this charge."""


_AGAIN = (0.05, 0.25)
"""Seconds before an object that could not be opened is read again."""


def open_whole(read: Callable[[], bytes | None], opener: Callable[[bytes], T], *, must: bool = False) -> T | None:
    """Open an object on whose content a charge depends; if it arrives incomplete, it is read again a few times.

    Args:
        read: reads the object; None if it does not exist.
        opener: opens its bytes.
        must: whether the object is known to exist, so that it is also read again if it seems to be missing.

    Returns:
        The opened content; None if there is no object.

    Raises:
        SealBroken: no read returned the object as it was sealed.
        OSError: the store failed.
    """
    for pause in (*_AGAIN, None):
        content = read()
        try:
            if content is not None:
                return opener(content)
        except SealBroken:
            if pause is None:
                raise
        if content is None and (pause is None or not must):
            return None
        time.sleep(pause or 0.0)
    return None


@dataclass(frozen=True, kw_only=True)
class Seal:
    """Seals and opens the objects of one charge.

    Attributes:
        secret: the charge's secret, 32 random bytes; the same for all its runs.
        charge_id: the ledger's charge.
        request_sha256: hash of the request that the charge pays for.
    """

    secret: bytes = field(repr=False)
    charge_id: str
    request_sha256: str

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise ValueError(f"a run's secret has {SECRET_BYTES} bytes")

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str], *, charge_id: str, request_sha256: str) -> Self:
        """The seal of a run that was started with its secret in ``environ``, from which the secret is removed.

        Raises:
            InvalidRequest: ``environ`` has no valid secret.
        """
        try:
            secret = bytes.fromhex(environ.pop(RUN_SECRET_VARIABLE, ""))
            return cls(secret=secret, charge_id=charge_id, request_sha256=request_sha256)
        except ValueError:
            raise InvalidRequest(
                RUN_SECRET_VARIABLE, None, "must hold the secret of the charged run",
                "start charged runs by `dp-budget run` or the operator, which set it",
            ) from None  # fmt: skip

    def close(self, name: str, content: bytes, *, draw_sha256: str = "") -> bytes:
        """``content`` sealed as the object ``name``, bound to the draw with this hash if it was made from one."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed, encryptor = BytesIO(), Cipher(AES(self.secret), GCM(nonce)).encryptor()
        encryptor.authenticate_additional_data(self._bound_to(name, draw_sha256))
        sealed.write(_MAGIC + nonce)
        for piece in _padded_pieces(content):
            sealed.write(encryptor.update(piece))
        sealed.write(encryptor.finalize() + encryptor.tag)
        return sealed.getvalue()

    def open(self, name: str, sealed: bytes, *, draw_sha256: str = "") -> bytes:
        """The content that was sealed as the object ``name``.

        Raises:
            SealBroken: ``sealed`` is not such an object of this charge and draw.
        """
        start = len(_MAGIC) + _NONCE_BYTES
        if not sealed.startswith(_MAGIC):
            raise SealBroken(f"{name} is not sealed")
        nonce, text = sealed[len(_MAGIC) : start], memoryview(sealed)[start:]
        try:
            opened = AESGCM(self.secret).decrypt(nonce, text, self._bound_to(name, draw_sha256))
        except (InvalidTag, ValueError):  # ValueError: the nonce was cut short
            raise SealBroken(f"{name} was not sealed for charge {self.charge_id}") from None
        return unpadded(opened)

    def _bound_to(self, name: str, draw_sha256: str) -> bytes:
        return json.dumps([self.charge_id, self.request_sha256, name, draw_sha256]).encode()


def sha256(content: bytes) -> str:
    """SHA-256 in hexadecimal, as the ledger records it for a sealed draw."""
    return hashlib.sha256(content).hexdigest()


def unpadded(content: bytes) -> bytes:
    """The content without the length and the padding that ``padded`` added."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "big")
    return content[_LENGTH_BYTES : _LENGTH_BYTES + length]


def padded(content: bytes) -> bytes:
    """``content`` with its length in front, padded to a size that is a power of two."""
    return b"".join(_padded_pieces(content))


def _padded_pieces(content: bytes) -> Iterator[bytes | memoryview]:
    """``padded(content)`` in pieces, so that a long content is not copied."""
    size = _LENGTH_BYTES + len(content)
    yield len(content).to_bytes(_LENGTH_BYTES, "big")
    view = memoryview(content)
    for start in range(0, len(content), _PIECE):
        yield view[start : start + _PIECE]
    missing = max(_MIN_SIZE, 1 << (size - 1).bit_length()) - size
    for start in range(0, missing, _PIECE):
        yield bytes(min(_PIECE, missing - start))
