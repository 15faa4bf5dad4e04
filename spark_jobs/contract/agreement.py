"""What silos and servers agree on before a federated release."""

from __future__ import annotations

import hashlib
import json
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Annotated, Self

from pydantic import Field, model_validator

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.objects import require_store
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

    @model_validator(mode="after")
    def _in_a_store(self) -> Self:
        require_store(self.folder, what="folder")
        return self


class Agreement(Frozen):
    """One federated release: who takes part, and what it may cost.

    Attributes:
        session: a text that no other release of these participants has.
        request_sha256: hash of what is released, in hexadecimal.
        epsilon: the cost of the release. No round may ask for less noise than this epsilon needs. Each silo's
            measurement keeps the total cost of its rounds within epsilon; rounds on disjoint rows cost as much as one
            round.
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
                    what, twice[0], "must be different for each participant", f"give each participant another {what}"
                )
        for what, value, limit in (
            ("colluding", self.colluding, len(self.servers) - 1),
            ("silos_per_person", self.silos_per_person, len(self.silos)),
        ):
            if value > limit:
                raise InvalidRequest(
                    what,
                    value,
                    f"must be at most {limit} for this number of silos and servers",
                    "lower it, or add silos or servers",
                )
        return self

    @property
    def noise_factor(self) -> Decimal:
        """The standard deviation of the noise, in units of that of one table at the same epsilon; rounded up.

        The noise covers ``silos_per_person`` times the sensitivity of one silo's vector. Every server adds a share, and
        the shares of the honest servers alone suffice for the guarantee. Exact, with at most 5 decimals.
        """
        honest = len(self.servers) - self.colluding
        with localcontext(prec=30, rounding=ROUND_CEILING):
            shares = (Decimal(len(self.servers)) / honest).sqrt().quantize(Decimal("0.00001"))
            return shares * self.silos_per_person

    @property
    def sha256(self) -> str:
        """The hash of this agreement, which every message of the release carries."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()
