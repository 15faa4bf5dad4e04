"""The keys of a silo or a server; what all of them agree on is ``contract.agreement``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from spark_jobs.contract.agreement import Agreement as Agreement
from spark_jobs.contract.agreement import Participant as Participant
from spark_jobs.contract.agreement import Server as Server
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import registered_file


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


def registered_keys(environ: Mapping[str, str], name: str) -> Keys:
    """The private keys of this silo or server, which lie beside the registered federation of this name.

    Raises:
        InvalidRequest: there are none.
    """
    path = registered_file(environ, name, "keys")
    try:
        return Keys.from_text(path.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(
            "federation",
            value=name,
            requirement="must be registered with private keys, in a file that can be read",
            remedy=f"mount {path.name} beside the registration",
        ) from None


def silo_of(agreement: Agreement, keys: Keys) -> str:
    """The name of the silo whose keys these are.

    Raises:
        InvalidRequest: they are the keys of no silo of the agreement.
    """
    return _owner(keys, agreement.silos, "a silo")


def server_of(agreement: Agreement, keys: Keys) -> str:
    """The name of the server whose keys these are.

    Raises:
        InvalidRequest: they are the keys of no server of the agreement.
    """
    return _owner(keys, agreement.servers, "a server")


def _owner(keys: Keys, participants: Sequence[Participant], what: str) -> str:
    own = keys.public("own").signing_key
    for participant in participants:
        if participant.signing_key == own:
            return participant.name
    raise InvalidRequest(
        "keys",
        requirement=f"must be those of {what} of the agreement: {', '.join(member.name for member in participants)}",
        remedy="use the keys whose public parts are in the agreement",
    )
