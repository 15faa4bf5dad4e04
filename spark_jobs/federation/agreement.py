"""The private keys of a silo or a server; ``contract.agreement`` has what all of them agree on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from spark_jobs.contract.agreement import Agreement as Agreement
from spark_jobs.contract.agreement import Participant as Participant
from spark_jobs.contract.agreement import Server as Server
from spark_jobs.contract.errors import InvalidRequest

_LASTING = "lasting"


@dataclass(frozen=True, kw_only=True)
class Keys:
    """A participant's private keys.

    Attributes:
        signing: signs its messages.
        encryption: opens messages to it, and is the secret from which a silo derives the masks of its shares.
        lasting: whether the keys are for several agreements; otherwise they are destroyed after the first.
    """

    signing: Ed25519PrivateKey = field(repr=False)
    encryption: X25519PrivateKey = field(repr=False)
    lasting: bool = False

    @classmethod
    def generate(cls, *, lasting: bool = False) -> Keys:
        """Fresh keys."""
        return cls(signing=Ed25519PrivateKey.generate(), encryption=X25519PrivateKey.generate(), lasting=lasting)

    @classmethod
    def from_text(cls, text: str) -> Keys:
        """The keys that ``to_text`` wrote.

        Raises:
            InvalidRequest: the text was not written by ``to_text``.
        """
        try:
            *words, last = text.split()
            lasting = last == _LASTING
            signing, encryption = (bytes.fromhex(word) for word in (words if lasting else [*words, last]))
            return cls(
                lasting=lasting,
                signing=Ed25519PrivateKey.from_private_bytes(signing),
                encryption=X25519PrivateKey.from_private_bytes(encryption),
            )
        except ValueError:
            raise InvalidRequest(
                "keys", None, "must be two private keys of 64 hexadecimal digits",
                "use a file that `python -m spark_jobs.federation keys` wrote",
            ) from None  # fmt: skip

    def to_text(self) -> str:
        """Both keys in hexadecimal, and whether they are for several agreements; a secret."""
        words = [key.private_bytes_raw().hex() for key in (self.signing, self.encryption)]
        return f"{' '.join([*words, *[_LASTING] * self.lasting])}\n"

    def public(self, name: str) -> Participant:
        """The public keys, which the other participants need."""
        return Participant(
            name=name,
            signing_key=self.signing.public_key().public_bytes_raw().hex(),
            encryption_key=self.encryption.public_key().public_bytes_raw().hex(),
        )


def silo_of(agreement: Agreement, keys: Keys) -> str:
    """The name of the silo whose keys these are.

    Raises:
        InvalidRequest: no silo of the agreement has these keys.
    """
    return _owner(keys, agreement.silos, "a silo")


def server_of(agreement: Agreement, keys: Keys) -> str:
    """The name of the server whose keys these are.

    Raises:
        InvalidRequest: no server of the agreement has these keys.
    """
    return _owner(keys, agreement.servers, "a server")


def _owner(keys: Keys, participants: Sequence[Participant], what: str) -> str:
    own = keys.public("own").signing_key
    for participant in participants:
        if participant.signing_key == own:
            return participant.name
    raise InvalidRequest(
        "keys", None, f"must be the keys of {what} of the agreement: "
        f"{', '.join(member.name for member in participants)}",
        "use the keys whose public parts are in the agreement",
    )  # fmt: skip
