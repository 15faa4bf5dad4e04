"""Signed messages between silos and servers, through stores that nobody needs to trust.

A message is a header, a payload and an Ed25519 signature of both. The header binds it to one agreement, round, sender
and recipient, so that it can be neither replayed nor passed off as another. A share is encrypted to its server (an
ephemeral X25519 key, HKDF-SHA256 and AES-256-GCM), because the shares of all servers together give the counts. A share
comes with a tag, which distinguishes the vectors of its silo. The tag is derived from the silo's key and the vector,
and is encrypted too: with the tag, and later the key, one could confirm a guess of the counts. Two servers compare
their tags by a code under a key that only they share (``tags_code``). Published sums are in the clear.
"""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import NonNegativeInt, TypeAdapter

from spark_jobs.federation.additive import Share
from spark_jobs.federation.agreement import Agreement, Keys, Participant

VERSION = 3
"""Counts changes of messages, of what keys derive and of the modulus; participants with another version are refused."""
_SIGNATURE_BYTES = 64
_KEY_BYTES = 32
TAG_BYTES = 32


class MessageRejected(Exception):
    """A message is not what its sender signed for this place; the text says what is wrong, without numbers from it."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """The header of a message: what it is, and which agreement, round and recipient it belongs to.

    Attributes:
        agreement: hash of the agreement.
        kind: of a silo "share", "keys", "question" or "end"; of a server "sum", "kept" (the keys), "end" or "refusal".
        turn: the round, from 0.
        sender, recipient: names; the recipient of a sum or a refusal is "all".
        shape: shape of the vector.
        epsilon, l1_sensitivity: those of the noise that the measurement asks for.
        tag: for a question, the hash of its points; for a sum, the code of the silos' tags for each other server.
        version: version of the protocol.
    """

    agreement: str
    kind: str
    turn: NonNegativeInt
    sender: str
    recipient: str
    shape: tuple[NonNegativeInt, ...] = ()
    epsilon: str = "0"
    l1_sensitivity: NonNegativeInt = 0
    tag: str = ""
    version: int = VERSION

    @property
    def terms(self) -> tuple[tuple[int, ...], str, int]:
        """The fields that must be the same in all shares of a round."""
        return self.shape, self.epsilon, self.l1_sensitivity


_HEADER = TypeAdapter(Header)


def sign(header: Header, payload: bytes, *, keys: Keys) -> bytes:
    """The bytes of a message: header, payload and signature."""
    text = json.dumps(asdict(header), sort_keys=True).encode()
    signed = len(text).to_bytes(4, "big") + text + payload
    return signed + keys.signing.sign(signed)


def read(
    content: bytes, *, agreement: Agreement, sender: Participant, kinds: tuple[str, ...], turn: int, recipient: str
) -> tuple[Header, bytes]:
    """The header and the payload of a message that was found where this one is expected.

    Raises:
        MessageRejected: the sender did not sign it, or signed it for another place.
    """
    signed, signature = content[:-_SIGNATURE_BYTES], content[-_SIGNATURE_BYTES:]
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(sender.signing_key)).verify(signature, signed)
        length = int.from_bytes(signed[:4], "big")
        header = _HEADER.validate_json(signed[4 : 4 + length], strict=True)
    except (InvalidSignature, ValueError):
        raise MessageRejected(f"a message of {sender.name} has no valid signature by this participant") from None
    place = {"agreement": agreement.sha256, "sender": sender.name, "turn": turn, "recipient": recipient}
    for name, value in {"version": VERSION, **place}.items():
        if getattr(header, name) != value:
            raise MessageRejected(f"a message of {sender.name} belongs to another {name}")
    if header.kind not in kinds:
        raise MessageRejected(f"a message of {sender.name} is a {header.kind}, where {' or '.join(kinds)} was due")
    return header, signed[4 + length :]


def encrypt(share: Share, *, tag: bytes, recipient: Participant, context: str) -> bytes:
    """A share and its tag of 32 bytes, encrypted so that only the share's server can read them."""
    ephemeral = X25519PrivateKey.generate()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(recipient.encryption_key)))
    public = ephemeral.public_key().public_bytes_raw()
    # the key is used once, so its nonce may be fixed
    content = tag + share.astype("<u8").tobytes()
    return public + AESGCM(_derived(shared, public)).encrypt(bytes(12), content, context.encode())


def decrypt(payload: bytes, *, keys: Keys, context: str, shape: tuple[int, ...], sender: str) -> tuple[bytes, Share]:
    """The tag and the share in a message of ``encrypt``.

    Raises:
        MessageRejected: the message was encrypted for another server or place, or has no vector of this shape.
    """
    public, text = payload[:_KEY_BYTES], payload[_KEY_BYTES:]
    try:
        shared = keys.encryption.exchange(X25519PublicKey.from_public_bytes(public))
        content = AESGCM(_derived(shared, public)).decrypt(bytes(12), text, context.encode())
    except (InvalidTag, ValueError):
        raise MessageRejected(f"a share of {sender} was not encrypted for this server and round") from None
    return content[:TAG_BYTES], vector(content[TAG_BYTES:], shape=shape, sender=sender)


def tags_code(tags: Sequence[bytes], header: Header, *, keys: Keys, other: Participant) -> str:
    """A code by which two servers check that they have received shares of the same vectors; it tells others nothing.

    Both servers compute the same code if and only if their tags are the same; only these two servers have the code's
    key.

    Args:
        tags: the tags of all silos' shares in a round, in the agreement's order.
        header: the header of a message of the round; the code depends on its agreement and round.
        keys: this server's private keys.
        other: the other server.
    """
    shared = keys.encryption.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other.encryption_key)))
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"tags of {header.agreement}".encode()).derive(shared)
    text = json.dumps([header.turn, [tag.hex() for tag in tags]]).encode()
    return hmac.digest(key, text, "sha256").hex()


def vector(content: bytes, *, shape: tuple[int, ...], sender: str) -> Share:
    """The vector of residues modulo 2^64 in a payload.

    Raises:
        MessageRejected: the payload's length does not fit the shape.
    """
    if len(content) != 8 * math.prod(shape):
        raise MessageRejected(f"a vector of {sender} has another length than its header says")
    return np.frombuffer(content, dtype="<u8").astype(np.uint64).reshape(shape)


def context(header: Header) -> str:
    """The associated data that an encrypted share is bound to."""
    return json.dumps([header.agreement, header.turn, header.sender, header.recipient])


def _derived(shared: bytes, public: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=public, info=b"federated share").derive(shared)
