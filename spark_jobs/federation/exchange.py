"""The rounds of a federated release between machines: silos and servers meet in the servers' folders.

A server's folder has, for each round ``r``, an object of each silo, ``r/share-of-SILO``, and the server's ``r/sum``.
Every object is created once, so a participant that is killed and runs again finds what it wrote, and continues. If the
owner of a store deletes an object, the next attempt makes the same object again: a silo's masks depend on its keys and
its vector alone, and a server's noise on its keys and the shares that it sums (``derived``). Before a server draws
noise, it writes the hash of those shares into a folder of its own, and never sums other shares in that round. So nobody
can compare two sums by replacing shares in a store.

If a measurement asks how many rows lie below points, the silos share comparison keys once instead of vectors. Each
later round is a question, a list of points, from any silo. Questions may continue after the release, as long as
evaluations that were paid for are left (``answering``).

A round ends with the sum of each server, or with a server's refusal if a share is missing after the agreed time or is
not valid. After a refusal nothing of the release can be published: every silo fails with the reason, and cannot try
again under the same agreement. A release ends when every silo has written the hash of its draw, and all hashes are
equal.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.privacy import exact_decimal, plain
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.objects import open_store
from spark_jobs.federation.additive import Share, reconstruct, residues, split
from spark_jobs.federation.agreement import Agreement, Keys, Participant, Server
from spark_jobs.federation.answering import hidden, keys_of, tag_of
from spark_jobs.federation.derived import DerivedWords, derived_key
from spark_jobs.federation.messages import Header, MessageRejected, context, encrypt, read, sign, vector
from spark_jobs.mechanisms.noise import Cost
from spark_jobs.mechanisms.paid_counts import Evaluate

T = TypeVar("T")
EVERYBODY = "all"


class FederationFailed(Exception):
    """A federated release has ended without a result; the text says who was missing, or what was wrong."""


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """What silos and servers have in common: the agreement, their keys, and reading a server's folder.

    Attributes:
        agreement: the agreement of this release.
        keys: this participant's private keys.
        poll_seconds: the pause between two checks of a folder.
    """

    agreement: Agreement
    keys: Keys
    poll_seconds: float = 1.0

    def _wait(self, find: Callable[[], T | None], *, for_whom: str, seconds: float | None = None) -> T:
        seconds = self.agreement.wait_seconds if seconds is None else seconds
        deadline = time.monotonic() + seconds
        while (content := find()) is None:
            if time.monotonic() > deadline:
                raise MessageRejected(f"{for_whom} has sent nothing within {seconds:g} seconds")
            time.sleep(self.poll_seconds)
        return content

    def left(self) -> int | None:
        """How many of the evaluations that were paid for are left; None if the release has not ended."""
        _, deposit, ended, points = self._history()
        if not ended:
            return None
        return 0 if deposit is None else deposit.l1_sensitivity - len(points)

    def _history(self) -> tuple[int, Header | None, bool, tuple[int, ...]]:
        """What the first server has answered so far: the next round, keys, whether it has ended, and points."""
        server, deposit, ended = self.agreement.servers[0], None, False
        store, points, turn = open_store(server.folder), dict[int, None](), 0
        while (content := store.read(sum_uri(server, turn))) is not None:
            try:
                header, _ = self._opened(content, server, turn, kinds=("sum", "kept", "end"))
                deposit, ended = header if header.kind == "kept" else deposit, ended or header.kind == "end"
                points |= dict.fromkeys(self._points(server, header))
            except MessageRejected:
                pass  # a question that was refused
            turn += 1
        return turn, deposit, ended, tuple(points)

    def _points(self, server: Server, answered: Header) -> Iterator[int]:
        """The points of the question that a server has answered; none if it was no question."""
        for silo in self.agreement.silos:
            content = open_store(server.folder).read(share_uri(server, answered.turn, silo.name))
            if content is None or answered.kind != "sum":
                continue
            kinds = ("share", "keys", "question", "end")
            header, payload = read(
                content,
                agreement=self.agreement,
                sender=silo,
                kinds=kinds,
                turn=answered.turn,
                recipient=server.name,
            )
            if header.kind == "question" and tag_of(payload) == answered.tag:
                yield from vector(payload, shape=answered.shape, sender=silo.name).tolist()
                return

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
class Silo(Meeting):
    """One silo's side of all rounds of a federated release.

    Attributes:
        silo: the silo's name.
    """

    silo: str
    _turns: Iterator[int] = field(default_factory=itertools.count, repr=False)

    def __post_init__(self) -> None:
        require_own(self.agreement.silos, self.silo, self.keys)

    def require_unrefused(self) -> None:
        """Fail at once if a server has refused a round: nothing of this release can be published any more.

        Raises:
            FederationFailed: a server has refused a round.
        """
        for server in self.agreement.servers:
            store, turn = open_store(server.folder), 0
            while (content := store.read(sum_uri(server, turn))) is not None:
                try:
                    header, _ = self._opened(content, server, turn, kinds=("sum", "kept", "end"))
                except MessageRejected as problem:
                    raise FederationFailed(str(problem)) from None
                if header.kind == "end":
                    break
                turn += 1

    def exchange(self, values: Int64Array, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """Share a vector with the servers, and return the noisy sum of all silos' vectors.

        Raises:
            FederationFailed: a server refused the round, did not answer in time, or gave an invalid answer.
        """
        header, servers = self._header("share", values.shape, epsilon, l1_sensitivity), self.agreement.servers
        try:
            answers = self._shared(header, values, lambda words: split(values, servers=len(servers), noise=words))
            return reconstruct([vector(sum_, shape=header.shape, sender=by.sender) for by, sum_ in answers])
        except MessageRejected as problem:
            raise FederationFailed(str(problem)) from None

    def deposit(self, counts: Int64Array, *, epsilon: Cost, evaluations: int, capacity: int) -> Evaluate:
        """Give both servers comparison keys of this silo's rows; return a function that counts rows below edges.

        Args:
            counts: exact counts per cell of the grid; private.
            epsilon: the cost of all evaluations.
            evaluations: how many edges may be asked for, in all rounds together.
            capacity: how many keys there are, which is public; see ``answering.hidden``.

        Raises:
            FederationFailed: as for ``exchange``.
        """
        values, bits = hidden(counts, capacity)
        header = self._header("keys", (capacity, bits), epsilon, evaluations)
        try:
            self._shared(header, values, lambda words: keys_of(values, bits, words))
        except MessageRejected as problem:
            raise FederationFailed(str(problem)) from None
        return lambda edges: self.ask(header, edges)

    def ask(self, deposit: Header, points: Int64Array) -> Int64Array:
        """The noisy numbers of all silos' rows below points.

        Args:
            deposit: the header of the silos' comparison keys.
            points: edges of the grid, by number, shape (m,).

        Raises:
            FederationFailed: as for ``exchange``; or too few evaluations are left.
        """
        payload = points.astype("<u8").tobytes()
        header = replace(
            self._header("question", points.shape, deposit.epsilon, deposit.l1_sensitivity), tag=tag_of(payload)
        )
        for server in self.agreement.servers:
            self._write(server, header.turn, sign(replace(header, recipient=server.name), payload, keys=self.keys))
        try:
            sums = []
            for server in self.agreement.servers:
                answered, content = self._sum_of(server, header, kinds=("sum",))
                if answered.tag != header.tag:
                    raise MessageRejected(f"server {server.name} was asked for other points in round {header.turn}")
                sums.append(vector(content, shape=header.shape, sender=server.name))
            return reconstruct(sums)
        except MessageRejected as problem:
            raise FederationFailed(str(problem)) from None

    def resumed(self) -> tuple[Self, Header, tuple[int, ...]]:
        """This silo after the last answered round, the header of the silos' keys, and the points asked for so far.

        Raises:
            FederationFailed: the release has not ended, or its silos have sent no keys.
        """
        turn, deposit, ended, points = self._history()
        if deposit is None or not ended:
            raise FederationFailed(
                "the release must have ended, and must have keys of comparisons, before more evaluations are requested"
            )
        return replace(self, _turns=itertools.count(turn)), deposit, points

    def end(self, draw_sha256: str) -> None:
        """Publish the hash of this silo's draw, and wait until every server has the same hash from all silos.

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

    def _header(self, kind: str, shape: tuple[int, ...], epsilon: Cost, l1_sensitivity: int) -> Header:
        return Header(
            agreement=self.agreement.sha256,
            kind=kind,
            turn=next(self._turns),
            sender=self.silo,
            recipient="",
            shape=shape,
            epsilon=plain(exact_decimal(epsilon)),
            l1_sensitivity=l1_sensitivity,
        )

    def _shared(
        self, header: Header, values: Int64Array, parts: Callable[[DerivedWords], Sequence[Share]]
    ) -> list[tuple[Header, bytes]]:
        """Send each server its part of a vector, and return the servers' answers."""
        tag, masks = (
            derived_key(self.keys, purpose, header=header, vectors=[residues(values)]) for purpose in ("tag", "masks")
        )
        for server, part in zip(self.agreement.servers, parts(DerivedWords(masks)), strict=True):
            sealed = replace(header, recipient=server.name)
            payload = encrypt(part, tag=tag, recipient=server, context=context(sealed))
            self._write(server, header.turn, sign(sealed, payload, keys=self.keys))
        answers = [self._sum_of(server, header, kinds=("sum", "kept")) for server in self.agreement.servers]
        codes = {
            answered.sender: dict(item.partition("=")[::2] for item in answered.tag.split(","))
            for answered, _ in answers
        }
        for one, other in itertools.combinations(codes, 2):
            if codes[one].get(other) != codes[other].get(one):
                raise MessageRejected(
                    f"servers {one} and {other} have shares of different vectors in round {header.turn}, of a silo "
                    "whose table has changed between two attempts; begin a new session"
                )
        return answers

    def _write(self, server: Server, turn: int, content: bytes) -> None:
        failpoint("before_share")
        open_store(server.folder).create(share_uri(server, turn, self.silo), content)
        failpoint("after_share")

    def _sum_of(self, server: Server, header: Header, *, kinds: tuple[str, ...]) -> tuple[Header, bytes]:
        answered, payload = self._answer(server, header.turn, kinds=kinds)
        if answered.terms != header.terms:
            raise MessageRejected(f"server {server.name} has summed other vectors than this silo's")
        return answered, payload

    def _answer(self, server: Server, turn: int, *, kinds: tuple[str, ...]) -> tuple[Header, bytes]:
        store = open_store(server.folder)
        content = self._wait(lambda: store.read(sum_uri(server, turn)), for_whom=f"server {server.name}")
        return self._opened(content, server, turn, kinds=kinds)


def draw_hash(draw: object) -> str:
    """The hash of a draw's plain JSON types, on which all silos must agree."""
    return hashlib.sha256(json.dumps(draw, sort_keys=True).encode()).hexdigest()


def require_own(participants: Sequence[Participant], name: str, keys: Keys) -> None:
    """Refuse keys that are not those of this participant."""
    known = {participant.name: participant.signing_key for participant in participants}
    if known.get(name) != keys.public("own").signing_key:
        raise InvalidRequest(
            "name", name, f"must be one of {', '.join(known)}, with the keys that the agreement names",
            "use the keys whose public parts are in the agreement",
        )  # fmt: skip


def share_uri(server: Server, turn: int, silo: str) -> str:
    """The URI at which a server finds what a silo sends it in a round."""
    return f"{server.folder.rstrip('/')}/{turn}/share-of-{silo}"


def sum_uri(server: Server, turn: int) -> str:
    """The URI of a server's answer to a round."""
    return f"{server.folder.rstrip('/')}/{turn}/sum"
