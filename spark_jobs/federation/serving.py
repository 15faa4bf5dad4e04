"""A server's side of the rounds of ``exchange``: it sums the silos' shares, answers questions, and adds its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import Federation, Registration, registered_file
from spark_jobs.contract.privacy import exact_decimal
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.objects import ObjectStore, open_store
from spark_jobs.federation.additive import Share, add, residues
from spark_jobs.federation.agreement import Participant, Server, server_of
from spark_jobs.federation.answering import Answering, key_words, opened_keys, tag_of
from spark_jobs.federation.derived import DerivedWords, derived_key
from spark_jobs.federation.exchange import EVERYBODY, FederationFailed, Meeting, require_own, share_uri, sum_uri
from spark_jobs.federation.messages import Header, MessageRejected, context, decrypt, read, sign, tags_code, vector
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.federation.own_keys import destroy, registered_keys

_MAX_ROUNDS = 20_000


@dataclass(frozen=True, kw_only=True)
class Summing(Meeting):
    """A server's side of all rounds.

    Attributes:
        server: the server's name.
        receipts: a folder or URI that this server alone can write to; it outlives every attempt.
        keys_file: the file of the server's keys, which are destroyed when no evaluation is left; None to keep them.
    """

    server: str
    receipts: str
    keys_file: Path | None = None

    def __post_init__(self) -> None:
        require_own(self.agreement.servers, self.server, self.keys)

    @classmethod
    def registered(cls, environ: Mapping[str, str], name: str, *, poll_seconds: float = 1.0) -> Self:
        """The server's side of a federation that its administrator has registered under this name.

        Raises:
            InvalidRequest: no federation has this name, or it is registered for a silo.
        """
        registration = Registration.read(environ, Federation(name=name).name)
        if registration.receipts is None:
            raise InvalidRequest(
                "federation", name, "must be registered for a server, with a folder of receipts",
                "register it with --receipts: `python -m spark_jobs.federation join`",
            )  # fmt: skip
        keys, agreement = registered_keys(environ, name), registration.agreement
        return cls(
            agreement=agreement,
            keys=keys,
            server=server_of(agreement, keys),
            receipts=registration.receipts,
            poll_seconds=poll_seconds,
            keys_file=registered_file(environ, name, "keys"),
        )

    def serve(self, *, answer_seconds: float = 0.0) -> int:
        """Answer rounds until all silos have ended with the same draw, and return how many rounds there were.

        Args:
            answer_seconds: how long to wait, after the release has ended, for each further question while evaluations
                are left.

        Raises:
            FederationFailed: a round was refused.
        """
        answering, ended = None, None
        for turn in range(_MAX_ROUNDS):
            answer = self._store.read(sum_uri(self._own, turn))
            if answer is None:
                if ended is not None and not self._has_question(turn, answering, answer_seconds):
                    if self.keys_file is not None and (answering is None or answering.left == 0):
                        destroy(self.keys_file)
                    return ended
                answered = self._answered(turn, answering)
                failpoint("before_answer")
                self._store.create(sum_uri(self._own, turn), answered)
                failpoint("after_answer")
                answer = self._store.read(sum_uri(self._own, turn)) or b""
            header, payload = read(
                answer,
                agreement=self.agreement,
                sender=self._own,
                kinds=("sum", "kept", "end", "refusal"),
                turn=turn,
                recipient=EVERYBODY,
            )
            if header.kind == "refusal" and ended is None:
                raise FederationFailed(f"round {turn} was refused: {payload.decode()}")
            if header.kind == "kept":
                answering, _ = self._answering_with([self._received(silo, turn) for silo in self.agreement.silos])
            if header.kind == "end":
                ended = turn
        raise FederationFailed(f"the silos have asked for more than {_MAX_ROUNDS} rounds")

    def _has_question(self, turn: int, answering: Answering | None, seconds: float) -> bool:
        """Whether a question comes after the end that can be answered."""
        if answering is None or answering.left == 0:
            return False
        try:
            return bool(self._first(turn, seconds=seconds))
        except MessageRejected:
            return False

    @property
    def _own(self) -> Server:
        return next(server for server in self.agreement.servers if server.name == self.server)

    @property
    def _store(self) -> ObjectStore:
        return open_store(self._own.folder)

    def _answered(self, turn: int, answering: Answering | None) -> bytes:
        """The signed answer to a round: a sum, that keys are kept, the end, or a refusal."""
        blank = Header(
            agreement=self.agreement.sha256, kind="refusal", turn=turn, sender=self.server, recipient=EVERYBODY
        )
        try:
            if answering is not None:
                question, points = self._received(self._first(turn), turn)
                if question.kind == "question":
                    return self._evaluated(question, points, answering)
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
            answer = replace(header, sender=self.server, recipient=EVERYBODY, kind="sum")
            if kinds == {"keys"}:
                tags = self._answering_with(received)[1]
                return sign(replace(answer, kind="kept", tag=self._codes(tags, header)), b"", keys=self.keys)
            tags, total = self._noisy_sum(received)
        except (MessageRejected, InvalidRequest) as problem:
            return sign(blank, str(problem).encode(), keys=self.keys)
        return sign(replace(answer, tag=self._codes(tags, header)), total.astype("<u8").tobytes(), keys=self.keys)

    def _codes(self, tags: Sequence[bytes], header: Header) -> str:
        """By other server, what tells whether it has shares of the same vectors."""
        others = [server for server in self.agreement.servers if server.name != self.server]
        return ",".join(f"{other.name}={tags_code(tags, header, keys=self.keys, other=other)}" for other in others)

    def _received(self, silo: Participant, turn: int) -> tuple[Header, bytes]:
        uri = share_uri(self._own, turn, silo.name)
        content = self._wait(lambda: self._store.read(uri), for_whom=f"silo {silo.name}")
        return read(
            content,
            agreement=self.agreement,
            sender=silo,
            kinds=("share", "keys", "question", "end"),
            turn=turn,
            recipient=self.server,
        )

    def _first(self, turn: int, *, seconds: float | None = None) -> Participant:
        """A silo that has sent something in this round."""
        return self._wait(
            lambda: next(
                (silo for silo in self.agreement.silos if self._store.read(share_uri(self._own, turn, silo.name))),
                None,
            ),
            for_whom="every silo",
            seconds=seconds,
        )

    def _answering_with(self, received: Sequence[tuple[Header, bytes]]) -> tuple[Answering, list[bytes]]:
        """The comparison keys that every silo has sent to this server, and their tags.

        Raises:
            MessageRejected: there are not two servers, a silo's keys are not right, or this server has kept others.
        """
        if len(self.agreement.servers) != 2:
            raise MessageRejected("comparisons need two servers")
        header = received[0][0]
        tags, vectors = self._decrypted(received, key_words(header.shape))
        number = self.agreement.servers.index(self._own)
        silo_keys = [
            opened_keys(words, header.shape, server=number, sender=sent.sender)
            for words, (sent, _) in zip(vectors, received, strict=True)
        ]
        receipt = derived_key(self.keys, "receipt", header=header, vectors=vectors)
        self._require_unsummed(header, receipt)
        answering = Answering(
            silo_keys=silo_keys,
            header=header,
            keys=self.keys,
            receipt=receipt,
            places=f"{self.receipts.rstrip('/')}/{header.agreement}/evaluations-{header.turn}",
            silos_per_person=self.agreement.silos_per_person,
        )
        return answering, tags

    def _decrypted(
        self, received: Sequence[tuple[Header, bytes]], shape: tuple[int, ...]
    ) -> tuple[list[bytes], list[Share]]:
        """The tags and the vectors of what all silos have sent."""
        opened = [
            decrypt(payload, keys=self.keys, context=context(sent), shape=shape, sender=sent.sender)
            for sent, payload in received
        ]
        return [tag for tag, _ in opened], [words for _, words in opened]

    def _evaluated(self, question: Header, points: bytes, answering: Answering) -> bytes:
        """The signed shares of the numbers of rows below the points of a question."""
        if question.terms[1:] != answering.header.terms[1:] or len(question.shape) != 1:
            raise MessageRejected(f"the terms of silo {question.sender}'s question differ from the terms of the keys")
        places = vector(points, shape=question.shape, sender=question.sender)
        total = answering.answer(places.view(np.int64))
        summed = replace(question, kind="sum", sender=self.server, recipient=EVERYBODY, tag=tag_of(points))
        return sign(summed, total.astype("<u8").tobytes(), keys=self.keys)

    def _noisy_sum(self, received: Sequence[tuple[Header, bytes]]) -> tuple[list[bytes], Share]:
        header = received[0][0]
        tags, shares = self._decrypted(received, header.shape)
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
        return tags, add([*shares, residues(law.draw(header.shape, noise=DerivedWords(key)))])

    def _require_unsummed(self, header: Header, receipt: bytes) -> None:
        """Reject the shares if this server has summed others in this round, or on other terms."""
        store = open_store(self.receipts)
        uri = f"{self.receipts.rstrip('/')}/{header.agreement}/{header.turn}"
        failpoint("before_keep_receipt")
        store.create(uri, receipt)
        failpoint("after_keep_receipt")
        if store.read(uri) != receipt:
            raise MessageRejected(f"round {header.turn} has been summed from other shares; begin a new session")
