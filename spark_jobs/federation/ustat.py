"""Noisy sums over several parties, and the measurement of a diagnostic on tables that are never pooled.

``UStat`` is the building block of Barczewski, Le Mawass and Ramon: it sums the parties' integer vectors, adds noise and
publishes the result. Every linear measurement of this project needs nothing else, and the distribution of what is
published does not depend on the implementation. Implementations differ in whom the parties must trust:

========== ===========================================================================================
Curator    one trusted party that sees every vector
Servers    ``additive``: servers of which at least one must not collude with the others
Masked     ``masked``: one server that sees sums alone, and parties that may drop out
========== ===========================================================================================

Neighbours and guarantee: a person has rows in at most ``silos_per_person`` silos, and so changes at most that many
vectors. The noise is calibrated to ``silos_per_person`` times the sensitivity of one silo's vector; the published sum
is ``epsilon``-DP for the pooled rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from spark_jobs.arrays import Int64Array
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.federation.additive import Share, add, reconstruct, residues, split
from spark_jobs.federation.masked import Party, Session, unmasked_sum
from spark_jobs.federation.noise_shares import NoiseShare
from spark_jobs.mechanisms.noise import Cost, Noise, SecureNoise


class UStat(Protocol):
    """Publishes noisy sums of the parties' vectors."""

    @property
    def guarantee(self) -> str:
        """The stamp of results with this noise."""

    def noisy_sum(self, vectors: Sequence[Int64Array], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """The sum of one vector of each party, plus noise.

        Args:
            vectors: one vector of each party, all of one shape; in neighbours, each changed vector differs by at most
                ``l1_sensitivity`` in 1-norm.
            epsilon: the cost.
            l1_sensitivity: the 1-norm sensitivity of one party's vector.

        Raises:
            InvalidRequest: the shapes differ, or the noise cannot be drawn at this cost.
        """


@dataclass(frozen=True, kw_only=True)
class Curator:
    """A trusted party that sees all vectors.

    Attributes:
        silos_per_person: the largest number of parties that hold rows of one person.
        noise: sampler of the mechanism's noise (``SecureNoise`` in production).
    """

    silos_per_person: int = 1
    noise: Noise = field(default_factory=SecureNoise)

    @property
    def guarantee(self) -> str:
        """The stamp of results with this noise."""
        return self.noise.guarantee

    def noisy_sum(self, vectors: Sequence[Int64Array], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """See ``UStat.noisy_sum``."""
        total = add([residues(vector) for vector in vectors]).view(np.int64)
        return self.noise.laplace(total, epsilon=epsilon, l1_sensitivity=self.silos_per_person * l1_sensitivity)


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Servers that hold additive shares; each adds a share of the noise to its sum before it publishes it.

    Attributes:
        servers: the number of servers, at least 2.
        colluding: how many servers may collude, at most ``servers - 1``. The noise shares of the other servers suffice
            for the guarantee; if ``servers - 1`` may collude, each server adds the whole noise.
        silos_per_person: the largest number of parties that hold rows of one person.
        noise: source of the uniform bits of shares and noise (``SecureNoise`` in production).
    """

    servers: int = 2
    colluding: int = 1
    silos_per_person: int = 1
    noise: Noise = field(default_factory=SecureNoise)

    @property
    def guarantee(self) -> str:
        """The stamp of results with this noise."""
        return self.noise.guarantee

    def noisy_sum(self, vectors: Sequence[Int64Array], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """See ``UStat.noisy_sum``; each step of the code belongs to one role, and uses only what this role sees."""
        law = NoiseShare(
            epsilon=epsilon,
            l1_sensitivity=self.silos_per_person * l1_sensitivity,
            contributors=self.servers,
            colluding=self.colluding,
        )
        parties = [split(vector, servers=self.servers, noise=self.noise) for vector in vectors]
        return reconstruct([self._published(received, law) for received in zip(*parties, strict=True)])

    def _published(self, received: Sequence[Share], law: NoiseShare) -> Share:
        total = add(received)
        return total + residues(law.draw(total.shape, noise=self.noise))


@dataclass(frozen=True, kw_only=True)
class Masked:
    """One server that learns only noisy sums; each party adds a share of the noise before masking.

    Attributes:
        threshold: how many parties must stay until the end; above half of them.
        colluding: how many parties may collude with the server, below ``2 threshold - parties``.
        silos_per_person: the largest number of parties that hold rows of one person.
        noise: source of the uniform bits of the noise (``SecureNoise`` in production).
    """

    threshold: int
    colluding: int = 0
    silos_per_person: int = 1
    noise: Noise = field(default_factory=SecureNoise)

    @property
    def guarantee(self) -> str:
        """The stamp of results with this noise."""
        return self.noise.guarantee

    def noisy_sum(self, vectors: Sequence[Int64Array | None], *, epsilon: Cost, l1_sensitivity: int) -> Int64Array:
        """See ``UStat.noisy_sum``; None stands for a party that drops out before it sends its vector."""
        session = Session(name=secrets.token_hex(16), parties=len(vectors), threshold=self.threshold)
        if not 0 <= self.colluding < 2 * self.threshold - len(vectors):
            raise InvalidRequest(
                "colluding", self.colluding,
                f"must be from 0 to {2 * self.threshold - len(vectors) - 1} at this threshold", "raise the threshold",
            )  # fmt: skip
        law = NoiseShare(
            epsilon=epsilon,
            l1_sensitivity=self.silos_per_person * l1_sensitivity,
            contributors=self.threshold,
            colluding=self.colluding,
        )
        parties = [Party.join(session, number) for number in range(session.parties)]
        introductions = [party.introduction() for party in parties]
        envelopes = [party.envelopes(introductions) for party in parties]
        masked = {
            party.number: party.masked(vector + law.draw(vector.shape, noise=self.noise), introductions)
            for party, vector in zip(parties, vectors, strict=True)
            if vector is not None
        }
        disclosures = []
        for party in parties:
            if party.number in masked:
                addressed = {sender: sent[party.number] for sender, sent in enumerate(envelopes)}
                disclosures.append(party.disclose(addressed, introductions, arrived=masked))
        return unmasked_sum(session, masked, introductions, disclosures)
