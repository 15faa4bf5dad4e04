"""What silos and servers agree on before a federated release, and the keys of each of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.values import Frozen

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Participant(Frozen):
    """A silo or a server, as the others know it.

    Attributes:
        name: of lower-case letters, digits and hyphens; no other participant has it.
        signing_key: verifies its messages; an Ed25519 public key in hexadecimal.
        encryption_key: encrypts messages to it; an X25519 public key in hexadecimal.
    """

    name: Name
    signing_key: PublicKey
    encryption_key: PublicKey


class Server(Participant):
    """A server and the folder that it and the silos exchange objects in.

    Attributes:
        folder: an absolute path or URI of a store with exclusive create. Only the server and the silos may write there.
    """

    folder: Annotated[str, Field(min_length=1, max_length=1000)]


class Agreement(Frozen):
    """One federated release: who takes part, and what it may cost.

    Attributes:
        session: a text that no other release of these participants has.
        request_sha256: hash of what is released, in hexadecimal.
        epsilon: the cost of the release. No round may ask for less noise; the total is kept by each silo's measurement,
            since rounds on disjoint rows are paid for once.
        silos: at least two.
        servers: at least two, of owners that do not all collude.
        colluding: how many servers may collude without harm to the guarantee of the noise.
        silos_per_person: the largest number of silos that hold rows of one person.
        wait_seconds: how long a participant waits for another in each round.

    Raises:
        InvalidRequest: names or keys are not all different, or a number does not fit the participants.
    """

    session: Annotated[str, Field(min_length=1, max_length=200)]
    request_sha256: PublicKey
    epsilon: Decimal = Field(gt=0)
    silos: Annotated[tuple[Participant, ...], Field(min_length=2, max_length=1000)]
    servers: Annotated[tuple[Server, ...], Field(min_length=2, max_length=20)]
    colluding: Annotated[int, Field(ge=0)] = 1
    silos_per_person: Annotated[int, Field(ge=1)] = 1
    wait_seconds: Annotated[float, Field(gt=0, le=7 * 86400)] = 3600.0

    @model_validator(mode="after")
    def _of_different_participants(self) -> Self:
        everybody = (*self.silos, *self.servers)
        for what, values in (
            ("name", [participant.name for participant in everybody]),
            ("signing_key", [participant.signing_key for participant in everybody]),
            ("encryption_key", [participant.encryption_key for participant in everybody]),
            ("folder", [server.folder.rstrip("/") for server in self.servers]),
        ):
            twice = sorted({value for value in values if values.count(value) > 1})
            if twice:
                raise InvalidRequest(
                    what, value=twice[0], requirement="must be of one participant alone", remedy="give each its own"
                )
        for what, value, limit in (
            ("colluding", self.colluding, len(self.servers) - 1),
            ("silos_per_person", self.silos_per_person, len(self.silos)),
        ):
            if value > limit:
                raise InvalidRequest(
                    what,
                    value=value,
                    requirement=f"must be at most {limit} here",
                    remedy="lower it, or add participants",
                )
        return self

    @property
    def sha256(self) -> str:
        """The hash that every message of this release carries."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Keys:
    """A participant's private keys.

    Attributes:
        signing: signs its messages.
        encryption: opens messages to it, and is the secret from which a silo derives the masks of its shares.
    """

    signing: Ed25519PrivateKey = field(repr=False)
    encryption: X25519PrivateKey = field(repr=False)

    @classmethod
    def generate(cls) -> Keys:
        """Fresh keys."""
        return cls(signing=Ed25519PrivateKey.generate(), encryption=X25519PrivateKey.generate())

    @classmethod
    def from_text(cls, text: str) -> Keys:
        """The keys that ``to_text`` wrote.

        Raises:
            InvalidRequest: the text is none of its.
        """
        try:
            signing, encryption = (bytes.fromhex(word) for word in text.split())
            return cls(
                signing=Ed25519PrivateKey.from_private_bytes(signing),
                encryption=X25519PrivateKey.from_private_bytes(encryption),
            )
        except ValueError:
            raise InvalidRequest(
                "keys",
                requirement="must be two private keys of 64 hexadecimal digits",
                remedy="use a file that `python -m spark_jobs.federation keys` wrote",
            ) from None

    def to_text(self) -> str:
        """Both keys in hexadecimal; a secret."""
        return f"{self.signing.private_bytes_raw().hex()} {self.encryption.private_bytes_raw().hex()}\n"

    def public(self, name: str) -> Participant:
        """What the others need to know."""
        return Participant(
            name=name,
            signing_key=self.signing.public_key().public_bytes_raw().hex(),
            encryption_key=self.encryption.public_key().public_bytes_raw().hex(),
        )
