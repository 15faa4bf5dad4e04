"""The objects of a stream: each holds some consecutive steps, wholly encrypted, and carries the hash of the one before.

An object holds a *segment*: the steps that one run draws together. The object's name depends only on the first of these
steps, and the object is made by exclusive create. So, of several runs that begin at the same step, only one counts. A
segment has two parts:

- the *state* after its last step, encrypted under a key of the deployment that the store and the ledger do not have:
  only the application opens it (AES-256-GCM; the key's name is in the header);
- the *release* of its steps, sealed with the charge's secret and bound to the state: the committer opens it, and
  publishes it once the ledger has the object's hash. The committer never sees the state.

The state is bound to the stream's key, its charge, its request, the numbers of its steps and the hash of the object
before, so that no state of another stream, step, fork or request can be opened in its place. The ledger has the hash of
the newest object; what the store holds counts only if it has this hash.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import ReleaseLayout
from spark_jobs.contract.store.sealing import Seal, SealBroken, padded, sha256, unpadded
from spark_jobs.contract.stream_keys import StreamKeys

GENESIS = "0" * 64
"""The hash before the first object."""
STREAM_NAME = "stream.json"
STEPS_FOLDER = "steps"
_MAGIC = b"dp-diagnostics stream 1\n"
_NONCE_BYTES = 12
_DIGITS = 12


@dataclass(frozen=True, kw_only=True)
class StreamLayout:
    """The URIs of one stream's objects.

    Attributes:
        release: the layout of the stream's release: the folders of its key and of its charge.
    """

    release: ReleaseLayout

    @classmethod
    def of(cls, output: str, key: str, charge_id: str) -> Self:
        """The layout of ``key`` under ``output``, paid by ``charge_id``.

        Raises:
            InvalidRequest: the key is empty, or the charge id does not have the form of a ledger's.
        """
        return cls(release=ReleaseLayout.of(output, key, charge_id))

    @property
    def root(self) -> str:
        """URI of the stream's folder."""
        return self.release.root

    @property
    def description(self) -> str:
        """URI of the published description of the stream."""
        return f"{self.root}/{STREAM_NAME}"

    def segment(self, first: int) -> str:
        """URI of the encrypted object whose first step has this number."""
        return f"{self.release.draft}/{STEPS_FOLDER}/{first:0{_DIGITS}d}"

    def published(self, name: str) -> str:
        """URI of a published file."""
        return f"{self.root}/{name}"

    def request(self, request_sha256: str) -> str:
        """URI of the request of a run, by its hash; runs may read different snapshots."""
        return f"{self.release.draft}/requests/{request_sha256}.json"


def segment_file(first: int, suffix: str) -> str:
    """The name of a published file of the segment whose first step has this number."""
    return f"{STEPS_FOLDER}/{first:0{_DIGITS}d}.{suffix}"


@dataclass(frozen=True, kw_only=True)
class SegmentPlace:
    """The position of a segment in its stream, to which its parts are bound.

    Attributes:
        key: the stream's key.
        first, steps: the number of its first step, and how many steps it has.
        previous: hash of the object before; ``GENESIS`` for the first.
    """

    key: str
    first: int
    steps: int
    previous: str


@dataclass(frozen=True, kw_only=True)
class StreamSegment:
    """The object of a segment, parsed but not decrypted.

    Attributes:
        place: the position that its header states; verified only once a part is opened, or the ledger has its hash.
        key_name: the name of the key that encrypts the state.
        state, release: the encrypted parts.
        content: all bytes.
    """

    place: SegmentPlace
    key_name: str
    state: bytes
    release: bytes
    content: bytes

    @cached_property
    def sha256(self) -> str:
        """The hash of the object, as the ledger records it."""
        return sha256(self.content)

    @property
    def ends(self) -> int:
        """The number of the step after the segment's last one."""
        return self.place.first + self.place.steps

    @classmethod
    def close(cls, place: SegmentPlace, *, state: bytes, release: bytes, keys: StreamKeys, seal: Seal) -> Self:
        """Encrypt a state and a release as one object."""
        name, nonce = keys.current, secrets.token_bytes(_NONCE_BYTES)
        encrypted = AESGCM(keys.key(name)).encrypt(nonce, padded(state), _bound_to(place, name, seal))
        header = {
            "first": place.first, "steps": place.steps, "previous": place.previous, "key": name,
            "state": len(nonce) + len(encrypted),
        }  # fmt: skip
        opening = _MAGIC + json.dumps(header).encode() + b"\n" + nonce + encrypted
        sealed = seal.close(_sealed_name(place), release, draw_sha256=sha256(opening))
        return cls.parse(opening + sealed, key=place.key)

    @classmethod
    def parse(cls, content: bytes, *, key: str) -> Self:
        """The parts of an object of the stream ``key``.

        Raises:
            SealBroken: ``content`` is not such an object.
        """
        try:
            if not content.startswith(_MAGIC):
                raise ValueError
            start = content.index(b"\n", len(_MAGIC)) + 1
            fields = json.loads(content[len(_MAGIC) : start])
            place = SegmentPlace(
                key=key, first=int(fields["first"]), steps=int(fields["steps"]), previous=str(fields["previous"])
            )
            end = start + int(fields["state"])
            if place.first < 0 or place.steps < 1 or not start + _NONCE_BYTES <= end <= len(content):
                raise ValueError
            return cls(
                place=place,
                key_name=str(fields["key"]),
                state=content[start:end],
                release=content[end:],
                content=content,
            )
        except (ValueError, KeyError, TypeError):
            raise SealBroken("an object of the stream is damaged, or of another version") from None

    def open_state(self, keys: StreamKeys, seal: Seal) -> bytes:
        """The state after the last step; private.

        Raises:
            InvalidRequest: the key is missing, or is a different one under the same name; or the object was not made
                for this stream and these steps.
        """
        nonce, encrypted = self.state[:_NONCE_BYTES], self.state[_NONCE_BYTES:]
        cipher = AESGCM(keys.key(self.key_name))
        try:
            opened = cipher.decrypt(nonce, encrypted, _bound_to(self.place, self.key_name, seal))
        except (InvalidTag, ValueError):
            raise InvalidRequest(
                "state", self.key_name,
                "must be readable with the key of this name, and must be the state of this stream after this step",
                "mount the key that encrypted the state, or begin a new stream under another key",
            ) from None  # fmt: skip
        return unpadded(opened)

    def open_release(self, seal: Seal) -> bytes:
        """The release of the steps, as the application wrote it.

        Raises:
            SealBroken: the release was not sealed for this charge, these steps and this state.
        """
        opening = self.content[: len(self.content) - len(self.release)]
        return seal.open(_sealed_name(self.place), self.release, draw_sha256=sha256(opening))


def pack_files(facts: Mapping[str, object], files: Mapping[str, bytes]) -> bytes:
    """The facts of some steps and the files that are published for them, joined as one byte string."""
    header = {"facts": dict(facts), "files": [[name, len(content)] for name, content in files.items()]}
    return json.dumps(header, separators=(",", ":"), allow_nan=False).encode() + b"\n" + b"".join(files.values())


def unpack_files(content: bytes) -> tuple[dict[str, object], dict[str, bytes]]:
    """The facts and files that ``pack_files`` joined.

    Raises:
        SealBroken: the content has another form.
    """
    header, _, rest = content.partition(b"\n")
    try:
        fields = json.loads(header)
        files, start = {}, 0
        for name, size in fields["files"]:
            files[str(name)] = rest[start : start + int(size)]
            start += int(size)
        if start != len(rest):
            raise ValueError
        return dict(fields["facts"]), files
    except (ValueError, KeyError, TypeError):
        raise SealBroken("the release of some steps has another form") from None


def _bound_to(place: SegmentPlace, key_name: str, seal: Seal) -> bytes:
    return json.dumps(
        [place.key, seal.charge_id, seal.request_sha256, place.first, place.steps, place.previous, key_name]
    ).encode()


def _sealed_name(place: SegmentPlace) -> str:
    return f"{STEPS_FOLDER}/{place.first}+{place.steps} after {place.previous}"
