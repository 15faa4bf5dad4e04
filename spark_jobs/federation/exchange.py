"""The rounds of a federated release between machines: silos and servers meet in the servers' folders.

A server's folder has, for each round ``r``, an object of each silo, ``r/share-of-SILO``, and the server's ``r/sum``.
Every object is created once, so whoever is killed and runs again finds what it wrote, and goes on. Where the owner of a
store deletes an object, the next attempt makes the same one again: a silo's masks depend on its keys and its vector
alone, and a server's noise on its keys and the shares that it sums (``derived``). Before a server draws, it writes the
hash of those shares into a folder of its own, and never sums others in that round, so that nobody who replaces shares
in a store can compare two sums.

A round ends with a sum of each server, or with its refusal if a share is missing after the agreed time or is not right.
After a refusal nothing of the release can be published: every silo fails with the reason, and cannot ask again under
the same agreement. A release ends when every silo has written the hash of its draw, and all hashes are equal.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import Federation, Registration
from spark_jobs.contract.privacy import exact_decimal, plain
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.federation.additive import Share, add, reconstruct, residues, split
from spark_jobs.federation.agreement import Agreement, Keys, Participant, Server, registered_keys, server_of
from spark_jobs.federation.derived import DerivedWords, derived_key
from spark_jobs.federation.messages import Header, MessageRejected, context, decrypt, encrypt, read, sign, vector
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.mechanisms.noise import Cost

EVERYBODY = "all"
_MAX_ROUNDS = 1000


class FederationFailed(Exception):
    """A federated release has ended without a result; the text says who was missing, or what was not right."""


@dataclass(frozen=True, kw_only=True)
class _Meeting:
    """What both roles need.

    Attributes:
        agreement: of this release.
        keys: this participant's.
        poll_seconds: the pause between two looks into a folder.
    """

    agreement: Agreement
    keys: Keys
    poll_seconds: float = 1.0

    def _wait(self, find: Callable[[], bytes | None], *, for_whom: str) -> bytes:
        deadline = time.monotonic() + self.agreement.wait_seconds
        while (content := find()) is None:
            if time.monotonic() > deadline:
                raise MessageRejected(f"{for_whom} has sent nothing within {self.agreement.wait_seconds:g} seconds")
            time.sleep(self.poll_seconds)
        return content


@dataclass(frozen=True, kw_only=True)
class Silo(_Meeting):
    """A silo's side of all rounds.

    Attributes:
        silo: the silo's name.
    """

    silo: str
    _turns: Iterator[int] = field(default_factory=itertools.count, repr=False)

    def __post_init__(self) -> None:
        _require_own(self.agreement.silos, self.silo, self.keys)

    def require_unrefused(self) -> None:
        """Fail at once if a server has refused a round: nothing of this release can be published any more.

        Raises:
            FederationFailed: a server has.
        """
        for server in self.agreement.servers:
            store, turn = open_store(server.folder), 0
            while (content := store.read(_sum_uri(server, turn))) is not None:
                try:
                    self._opened(content, server, turn, kinds=("sum", "end"))
                except MessageRejected as problem:
                    raise FederationFailed(str(problem)) from None
                turn += 1

    def exchange(self, values: Int64Array, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """Share a vector with the servers, and return the noisy sum of all silos' vectors.

        Raises:
            FederationFailed: a server refused the round, or did not answer in time, or not rightly.
        """
        turn = next(self._turns)
        header = Header(
            agreement=self.agreement.sha256,
            kind="share",
            turn=turn,
            sender=self.silo,
            recipient="",
            shape=values.shape,
            epsilon=plain(exact_decimal(epsilon)),
            l1_sensitivity=l1_sensitivity,
        )
        tag, masks = (
            derived_key(self.keys, purpose, header=header, vectors=[residues(values)]) for purpose in ("tag", "masks")
        )
        header = replace(header, tag=tag.hex())
        shares = split(values, servers=len(self.agreement.servers), noise=DerivedWords(masks))
        for server, share in zip(self.agreement.servers, shares, strict=True):
            sealed = replace(header, recipient=server.name)
            payload = encrypt(share, recipient=server, context=context(sealed))
            self._write(server, turn, sign(sealed, payload, keys=self.keys))
        try:
            for server in self.agreement.servers:
                self._require_same(server, header)
            return reconstruct([self._sum_of(server, header) for server in self.agreement.servers])
        except MessageRejected as problem:
            raise FederationFailed(str(problem)) from None

    def end(self, draw_sha256: str) -> None:
        """Say which draw this silo has made, and wait until every server has seen the same one of all silos.

        Raises:
            FederationFailed: the silos' draws differ, or a server did not answer in time.
        """
        turn = next(self._turns)
        header = Header(agreement=self.agreement.sha256, kind="end", turn=turn, sender=self.silo, recipient="")
        for server in self.agreement.servers:
            addressed = replace(header, recipient=server.name)
            self._write(server, turn, sign(addressed, draw_sha256.encode(), keys=self.keys))
        try:
            for server in self.agreement.servers:
                self._answer(server, turn, kinds=("end",))
        except MessageRejected as problem:
            raise FederationFailed(str(problem)) from None

    def _require_same(self, server: Server, header: Header) -> None:
        """Reject an earlier attempt's share of another vector: the shares of two vectors do not fit together."""
        own = next(silo for silo in self.agreement.silos if silo.name == self.silo)
        content = open_store(server.folder).read(_share_uri(server, header.turn, self.silo)) or b""
        earlier, _ = read(
            content, agreement=self.agreement, sender=own, kinds=("share",), turn=header.turn, recipient=server.name
        )
        if earlier.tag != header.tag:
            raise MessageRejected(
                f"an earlier attempt of silo {self.silo} has shared another vector in round {header.turn}; "
                "begin a new session"
            )

    def _write(self, server: Server, turn: int, content: bytes) -> None:
        failpoint("before_share")
        open_store(server.folder).create(_share_uri(server, turn, self.silo), content)
        failpoint("after_share")

    def _sum_of(self, server: Server, header: Header) -> Share:
        answered, payload = self._answer(server, header.turn, kinds=("sum",))
        if answered.terms != header.terms:
            raise MessageRejected(f"server {server.name} has summed other vectors than this silo's")
        return vector(payload, shape=header.shape, sender=server.name)

    def _answer(self, server: Server, turn: int, *, kinds: tuple[str, ...]) -> tuple[Header, bytes]:
        store = open_store(server.folder)
        content = self._wait(lambda: store.read(_sum_uri(server, turn)), for_whom=f"server {server.name}")
        return self._opened(content, server, turn, kinds=kinds)

    def _opened(self, content: bytes, server: Server, turn: int, *, kinds: tuple[str, ...]) -> tuple[Header, bytes]:
        header, payload = read(
            content,
            agreement=self.agreement,
            sender=server,
            kinds=(*kinds, "refusal"),
            turn=turn,
            recipient=EVERYBODY,
        )
        if header.kind == "refusal":
            raise MessageRejected(f"server {server.name} refused round {turn}: {payload.decode()}")
        return header, payload


@dataclass(frozen=True, kw_only=True)
class Summing(_Meeting):
    """A server's side of all rounds.

    Attributes:
        server: the server's name.
        receipts: a folder or URI that this server alone can write to; it outlives every attempt.
    """

    server: str
    receipts: str

    def __post_init__(self) -> None:
        _require_own(self.agreement.servers, self.server, self.keys)

    @classmethod
    def registered(cls, environ: Mapping[str, str], name: str, *, poll_seconds: float = 1.0) -> Self:
        """The server's side of a federation that its administrator has registered under this name.

        Raises:
            InvalidRequest: there is none, or it is a silo's.
        """
        registration = Registration.read(environ, Federation(name=name).name)
        if registration.receipts is None:
            raise InvalidRequest(
                "federation", value=name, requirement="must be registered for a server, with a folder of receipts",
                remedy="register it with --receipts: `python -m spark_jobs.federation join`",
            )  # fmt: skip
        keys, agreement = registered_keys(environ, name), registration.agreement
        return cls(
            agreement=agreement,
            keys=keys,
            server=server_of(agreement, keys),
            receipts=registration.receipts,
            poll_seconds=poll_seconds,
        )

    def serve(self) -> int:
        """Answer rounds until all silos have ended with the same draw, and return how many sums were published.

        Raises:
            FederationFailed: a round was refused.
        """
        for turn in range(_MAX_ROUNDS):
            answer = self._store.read(_sum_uri(self._own, turn))
            if answer is None:
                answered = self._answered(turn)
                failpoint("before_answer")
                self._store.create(_sum_uri(self._own, turn), answered)
                failpoint("after_answer")
                answer = self._store.read(_sum_uri(self._own, turn)) or b""
            header, payload = read(
                answer,
                agreement=self.agreement,
                sender=self._own,
                kinds=("sum", "end", "refusal"),
                turn=turn,
                recipient=EVERYBODY,
            )
            if header.kind == "refusal":
                raise FederationFailed(f"round {turn} was refused: {payload.decode()}")
            if header.kind == "end":
                return turn
        raise FederationFailed(f"the silos have asked for more than {_MAX_ROUNDS} rounds")

    @property
    def _own(self) -> Server:
        return next(server for server in self.agreement.servers if server.name == self.server)

    @property
    def _store(self) -> ObjectStore:
        return open_store(self._own.folder)

    def _answered(self, turn: int) -> bytes:
        """The signed answer to a round: a sum, the end, or a refusal."""
        blank = Header(
            agreement=self.agreement.sha256, kind="refusal", turn=turn, sender=self.server, recipient=EVERYBODY
        )
        try:
            received = [self._received(silo, turn) for silo in self.agreement.silos]
            kinds = {header.kind for header, _ in received}
            if kinds == {"end"}:
                if len({payload for _, payload in received}) > 1:
                    raise MessageRejected("the silos have made different draws")
                return sign(replace(blank, kind="end"), received[0][1], keys=self.keys)
            if len(kinds) > 1 or len({header.terms for header, _ in received}) > 1:
                raise MessageRejected("the silos measure different things")
            header = received[0][0]
            if exact_decimal(header.epsilon) > self.agreement.epsilon:
                raise MessageRejected("the silos ask for less noise than was agreed")
            total = self._noisy_sum(received)
        except (MessageRejected, InvalidRequest) as problem:
            return sign(blank, str(problem).encode(), keys=self.keys)
        summed = replace(header, kind="sum", sender=self.server, recipient=EVERYBODY)
        return sign(summed, total.astype("<u8").tobytes(), keys=self.keys)

    def _received(self, silo: Participant, turn: int) -> tuple[Header, bytes]:
        uri = _share_uri(self._own, turn, silo.name)
        content = self._wait(lambda: self._store.read(uri), for_whom=f"silo {silo.name}")
        return read(
            content,
            agreement=self.agreement,
            sender=silo,
            kinds=("share", "end"),
            turn=turn,
            recipient=self.server,
        )

    def _noisy_sum(self, received: Sequence[tuple[Header, bytes]]) -> Share:
        shares = [
            decrypt(payload, keys=self.keys, context=context(header), shape=header.shape, sender=header.sender)
            for header, payload in received
        ]
        header = received[0][0]
        law = NoiseShare(
            epsilon=header.epsilon,
            l1_sensitivity=self.agreement.silos_per_person * header.l1_sensitivity,
            contributors=len(self.agreement.servers),
            colluding=self.agreement.colluding,
        )
        receipt, key = (
            derived_key(self.keys, purpose, header=header, vectors=shares) for purpose in ("receipt", "noise")
        )
        self._require_unsummed(header, receipt)
        return add([*shares, residues(law.draw(header.shape, noise=DerivedWords(key)))])

    def _require_unsummed(self, header: Header, receipt: bytes) -> None:
        """Reject the shares if this server has summed others in this round, or on other terms."""
        store = open_store(self.receipts)
        uri = f"{self.receipts.rstrip('/')}/{header.agreement}/{header.turn}"
        failpoint("before_keep_receipt")
        store.create(uri, receipt)
        failpoint("after_keep_receipt")
        if store.read(uri) != receipt:
            raise MessageRejected(f"round {header.turn} has been summed from other shares; begin a new session")


def draw_hash(draw: object) -> str:
    """The hash of a draw's plain JSON types, on which all silos must agree."""
    return hashlib.sha256(json.dumps(draw, sort_keys=True).encode()).hexdigest()


def _require_own(participants: Sequence[Participant], name: str, keys: Keys) -> None:
    known = {participant.name: participant.signing_key for participant in participants}
    if known.get(name) != keys.public("own").signing_key:
        raise InvalidRequest(
            "name",
            value=name,
            requirement=f"must be one of {', '.join(known)}, with the keys that the agreement names",
            remedy="use the keys whose public parts are in the agreement",
        )


def _share_uri(server: Server, turn: int, silo: str) -> str:
    return f"{server.folder.rstrip('/')}/{turn}/share-of-{silo}"


def _sum_uri(server: Server, turn: int) -> str:
    return f"{server.folder.rstrip('/')}/{turn}/sum"
