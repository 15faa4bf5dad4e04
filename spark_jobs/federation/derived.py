"""Uniform words derived from a participant's keys, so that every attempt at one step uses the same words.

Stores are not trusted: whoever owns a store can delete a published sum and have it made again. Fresh noise could then
be averaged away, and two vectors under the same masks would reveal their difference. So masks and noise are derived, by
HKDF-SHA256 and AES-256-CTR, from a secret key and from everything that they apply to: the same inputs give the same
words, and other inputs give words that nobody without the key can tell from independent uniform ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from spark_jobs.arrays import UInt64Array
from spark_jobs.federation.additive import Share
from spark_jobs.federation.agreement import Keys
from spark_jobs.federation.messages import Header


def derived_key(keys: Keys, purpose: str, *, header: Header, vectors: Iterable[Share]) -> bytes:
    """A key of 32 bytes for one purpose, in one round of one agreement, for the terms of the round and these vectors.

    Args:
        keys: the keys whose secret the bytes depend on.
        purpose: a text; no two uses share one.
        header: the header of a message of the round; the bytes depend on its agreement, round, shape, epsilon and
            sensitivity.
        vectors: residues that the bytes depend on.
    """
    digest = hashlib.sha256()
    for vector in vectors:
        digest.update(json.dumps(vector.shape).encode() + vector.astype("<u8").tobytes())
    bound = json.dumps([purpose, header.agreement, header.turn, header.terms, digest.hexdigest()]).encode()
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=bound).derive(keys.encryption.private_bytes_raw())


class DerivedWords:
    """A stream of uniform 64-bit words from a key; a source for ``split`` and for shares of noise.

    Args:
        key: 32 bytes that are used for nothing else.
    """

    def __init__(self, key: bytes) -> None:
        self._stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def words(self, count: int) -> UInt64Array:
        """The next ``count`` words."""
        return np.frombuffer(self._stream.update(bytes(8 * count)), dtype="<u8").astype(np.uint64)
