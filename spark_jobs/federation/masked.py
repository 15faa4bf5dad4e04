"""Secure aggregation by pairwise masks: a server learns only the sum of the parties' vectors; parties may drop out.

Each pair of parties agrees on a mask; one of the two adds it to its vector and the other subtracts it, so that these
masks cancel in the sum. Each party also adds a mask of its own. The secrets behind both masks are shared between all
parties (Shamir 1979) before any vector is sent. Once the vectors have arrived, ``threshold`` parties disclose shares of
secrets to the server. If a party's vector arrived, the shares are those of its own mask; otherwise, those of its
pairwise secret. Shares of both are never disclosed for one party.

Source: Bonawitz et al., CCS 2017, figure 4, for servers that follow the protocol (without its signatures). A server
that colludes with fewer than ``2 threshold - parties`` parties learns nothing of the vectors but the sum, even if it
lies about who was absent: any two sets of ``threshold`` parties then have an honest party in common, which answers only
once. Messages of parties must be authenticated. Sums are taken modulo 2^64; a malicious party can move the sum by any
amount.

The sum is disclosed to the server, so parties must add their shares of the noise (``noise_shares``) before masking:
only ``threshold`` shares are certain to arrive.

Keys: X25519, HKDF-SHA256, AES-GCM and AES-CTR of ``cryptography``.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.additive import Share, add, residues

_PRIME = (1 << 521) - 1
"""Shamir's field, larger than any 32-byte secret."""
_FIELD_BYTES = 66


@dataclass(frozen=True, kw_only=True)
class Session:
    """What all participants agree on beforehand.

    Attributes:
        name: a text that no other aggregation has, such as the hash of the request and the number of the round.
        parties: the number of parties, which are numbered from 0.
        threshold: how many parties must stay until the end.

    Raises:
        InvalidRequest: the threshold is not above half of the parties.
    """

    name: str
    parties: int
    threshold: int

    def __post_init__(self) -> None:
        if not self.parties < 2 * self.threshold <= 2 * self.parties:
            raise InvalidRequest(
                "threshold", self.threshold,
                f"must be above {self.parties / 2:g} and at most {self.parties}, the number of parties",
                "give the number of parties that must stay until the end",
            )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Introduction:
    """A party's public keys: for the pairwise masks, and for messages to this party."""

    party: int
    mask_key: bytes
    message_key: bytes


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """What one party discloses at the end: shares of the secrets of others' own masks or pairwise masks, by party."""

    party: int
    own: Mapping[int, int] = field(repr=False)
    pairwise: Mapping[int, int] = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Party:
    """One party's secrets, for one aggregation; ``Party.join`` draws them."""

    session: Session
    number: int
    _mask_key: X25519PrivateKey = field(repr=False)
    _message_key: X25519PrivateKey = field(repr=False)
    _own: bytes = field(repr=False)
    _answered: set[tuple[frozenset[int], frozenset[Introduction]]] = field(default_factory=set, repr=False)

    @classmethod
    def join(cls, session: Session, number: int) -> Party:
        """A party with fresh secrets."""
        return cls(
            session=session,
            number=number,
            _mask_key=X25519PrivateKey.generate(),
            _message_key=X25519PrivateKey.generate(),
            _own=secrets.token_bytes(32),
        )

    def introduction(self) -> Introduction:
        """The message of the first round, to everybody."""
        return Introduction(
            party=self.number,
            mask_key=self._mask_key.public_key().public_bytes_raw(),
            message_key=self._message_key.public_key().public_bytes_raw(),
        )

    def envelopes(self, introductions: Sequence[Introduction]) -> dict[int, bytes]:
        """The messages of the second round: by recipient, an encrypted share of both secrets.

        Raises:
            InvalidRequest: too few parties have introduced themselves, or one has done so twice.
        """
        peers = _by_party(self.session, introductions)
        own = _shamir_shares(self._own, self.session)
        pairwise = _shamir_shares(self._mask_key.private_bytes_raw(), self.session)
        sealed = {}
        for number, peer in peers.items():
            message = b"".join(share[number].to_bytes(_FIELD_BYTES, "big") for share in (own, pairwise))
            cipher, bound = self._channel(peer, sender=self.number, recipient=number)
            nonce = secrets.token_bytes(12)
            sealed[number] = nonce + cipher.encrypt(nonce, message, bound)
        return sealed

    def masked(self, vector: Int64Array, introductions: Sequence[Introduction]) -> Share:
        """The message of the third round: the vector behind this party's masks.

        Args:
            vector: whole numbers, this party's share of the noise included.
            introductions: those of the parties whose envelopes have arrived, including this party.
        """
        peers = _by_party(self.session, introductions)
        total = residues(vector) + _mask(self._own, vector.shape)
        for number, peer in peers.items():
            if number != self.number:
                mask = _mask(_pair_key(self._mask_key, peer.mask_key, self.session), vector.shape)
                total = total + mask if number > self.number else total - mask
        return total

    def disclose(
        self, envelopes: Mapping[int, bytes], introductions: Sequence[Introduction], *, arrived: Collection[int]
    ) -> Disclosure:
        """The message of the last round; a party answers only one list of absent parties.

        From answers to two lists, a server would get both secrets of a party that is on only one of them, and so its
        vector.

        Args:
            envelopes: the envelopes addressed to this party, by sender.
            introductions: as in ``masked``.
            arrived: the parties whose masked vectors are in the sum.

        Raises:
            InvalidRequest: fewer vectors than the threshold have arrived, an envelope is missing or damaged, or another
                list was answered.
        """
        peers = _by_party(self.session, introductions)
        _require_enough(self.session, set(arrived) & set(peers), "arrived")
        self._answer_once(frozenset(arrived) & frozenset(peers), frozenset(introductions))
        own, pairwise = {}, {}
        for number, peer in peers.items():
            cipher, bound = self._channel(peer, sender=number, recipient=self.number)
            sealed = envelopes.get(number, b"")
            try:
                message = cipher.decrypt(sealed[:12], sealed[12:], bound)
            except (InvalidTag, ValueError) as error:
                raise InvalidRequest(
                    f"envelope of party {number}", None, "must be as that party sealed it for this one",
                    "begin a new session",
                ) from error  # fmt: skip
            if number in arrived:
                own[number] = int.from_bytes(message[:_FIELD_BYTES], "big")
            else:
                pairwise[number] = int.from_bytes(message[_FIELD_BYTES:], "big")
        return Disclosure(party=self.number, own=own, pairwise=pairwise)

    def _answer_once(self, arrived: frozenset[int], introductions: frozenset[Introduction]) -> None:
        self._answered.add((arrived, introductions))
        if len(self._answered) > 1:
            raise InvalidRequest(
                "arrived", None, "must be the list that this party has already answered, because answers to two lists "
                "could unmask a vector",
                "begin a new session",
            )  # fmt: skip

    def _channel(self, peer: Introduction, *, sender: int, recipient: int) -> tuple[AESGCM, bytes]:
        key = _pair_key(self._message_key, peer.message_key, self.session)
        return AESGCM(key), f"{self.session.name} from {sender} to {recipient}".encode()


def unmasked_sum(
    session: Session,
    vectors: Mapping[int, Share],
    introductions: Sequence[Introduction],
    disclosures: Sequence[Disclosure],
) -> Int64Array:
    """The server's last step: the sum of the vectors that have arrived.

    Args:
        session: the agreed session.
        vectors: the masked vectors, by party.
        introductions: as in ``Party.masked``.
        disclosures: those of at least ``threshold`` parties.

    Raises:
        InvalidRequest: too few vectors or disclosures have arrived, or the vectors differ in shape.
    """
    peers = _by_party(session, introductions)
    arrived, absent = vectors.keys() & peers.keys(), peers.keys() - vectors.keys()
    _require_enough(session, arrived, "vectors")
    complete = {d.party: d for d in disclosures if d.own.keys() == arrived and d.pairwise.keys() == absent}
    _require_enough(session, complete, "disclosures")
    answers = [complete[party] for party in sorted(complete)[: session.threshold]]
    total = add([vectors[number] for number in sorted(arrived)])
    for number in arrived:
        total = total - _mask(_secret({answer.party: answer.own[number] for answer in answers}), total.shape)
    for missing in absent:
        secret = _secret({answer.party: answer.pairwise[missing] for answer in answers})
        key = X25519PrivateKey.from_private_bytes(secret)
        for number in arrived:
            mask = _mask(_pair_key(key, peers[number].mask_key, session), total.shape)
            total = total - mask if missing > number else total + mask
    return total.view(np.int64)


def _by_party(session: Session, introductions: Sequence[Introduction]) -> dict[int, Introduction]:
    peers = {peer.party: peer for peer in introductions}
    _require_enough(session, peers, "introductions")
    if len(peers) != len(introductions) or not all(0 <= number < session.parties for number in peers):
        raise InvalidRequest(
            "introductions", ", ".join(str(peer.party) for peer in introductions),
            f"must be of different parties from 0 to {session.parties - 1}", "begin a new session",
        )  # fmt: skip
    return peers


def _require_enough(session: Session, parties: Collection[int], what: str) -> None:
    if len(parties) < session.threshold:
        raise InvalidRequest(
            what, f"{len(parties)} parties", f"must be of at least {session.threshold} parties, the threshold",
            "begin a new session when more of them can be reached",
        )  # fmt: skip


def _pair_key(own: X25519PrivateKey, other: bytes, session: Session) -> bytes:
    agreed = own.exchange(X25519PublicKey.from_public_bytes(other))
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=session.name.encode()).derive(agreed)


def _mask(key: bytes, shape: tuple[int, ...]) -> Share:
    """Residues modulo 2^64 from AES-CTR; each key makes one mask."""
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * int(np.prod(shape)))), dtype=np.uint64).reshape(shape)


def _shamir_shares(secret: bytes, session: Session) -> list[int]:
    """By party, the value at ``party + 1`` of a random polynomial of degree ``threshold - 1`` with this value at 0."""
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(_PRIME) for _ in range(session.threshold - 1))]
    shares = []
    for party in range(session.parties):
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * (party + 1) + coefficient) % _PRIME
        shares.append(value)
    return shares


def _secret(shares: Mapping[int, int]) -> bytes:
    """The polynomial's value at 0, by Lagrange's formula."""
    total = 0
    for party, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != party:
                above = above * (other + 1) % _PRIME
                below = below * (other - party) % _PRIME
        total = (total + share * above * pow(below, -1, _PRIME)) % _PRIME
    return (total % (1 << 256)).to_bytes(32, "big")
