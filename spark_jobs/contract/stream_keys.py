"""The keys that encrypt the states of streams, and where they are read from; no store or ledger contains them.

A file or an environment variable holds one key per line, ``NAME:`` and 64 hexadecimal digits. The first key encrypts;
all of them decrypt. To replace a key, put the new one first and remove the old one once every stream has moved on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from spark_jobs.contract.errors import InvalidRequest

STREAM_KEYS_VARIABLE = "DP_DIAGNOSTICS_STREAM_KEYS"
STREAM_KEYS_FILE_VARIABLE = "DP_DIAGNOSTICS_STREAM_KEYS_FILE"
_LINE = re.compile(r"(?P<name>[A-Za-z0-9_.-]{1,40}):(?P<key>[0-9a-fA-F]{64})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class StreamKeys:
    """The keys of a deployment's streams, by name.

    Attributes:
        keys: a key of 32 bytes for each name; the first one encrypts.
    """

    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """The keys in ``DP_DIAGNOSTICS_STREAM_KEYS``, or in the file that ``DP_DIAGNOSTICS_STREAM_KEYS_FILE`` names.

        Raises:
            InvalidRequest: neither is set, both are, the file cannot be read, or a line is not a key; the error quotes
                no line.
        """
        text, path = environ.get(STREAM_KEYS_VARIABLE), environ.get(STREAM_KEYS_FILE_VARIABLE)
        if bool(text) == bool(path):
            raise InvalidRequest(
                STREAM_KEYS_VARIABLE, None,
                f"exactly one of {STREAM_KEYS_VARIABLE} and {STREAM_KEYS_FILE_VARIABLE} must be set to run " "a stream",
                "mount a secret with a line such as k1:<64 hexadecimal digits>, from openssl rand -hex 32",
            )  # fmt: skip
        try:
            lines = (text or Path(str(path)).read_text(encoding="ascii")).split()
        except (OSError, ValueError):
            raise InvalidRequest(
                STREAM_KEYS_FILE_VARIABLE, path, "must name a file of ASCII text that can be read",
                "mount the secret there",
            ) from None  # fmt: skip
        parsed = [_LINE.fullmatch(line) for line in lines]
        keys = {match["name"]: bytes.fromhex(match["key"]) for match in parsed if match is not None}
        if not keys or len(keys) != len(lines):
            raise InvalidRequest(
                STREAM_KEYS_VARIABLE if text else STREAM_KEYS_FILE_VARIABLE, None,
                "must have lines of a name, a colon and 64 hexadecimal digits, each name once",
                "write a key like k1:<64 hexadecimal digits>, from openssl rand -hex 32",
            )  # fmt: skip
        return cls(keys=keys)

    @classmethod
    def take_from(cls, environ: MutableMapping[str, str]) -> Self:
        """The keys, as ``read`` finds them; the variable that holds them is removed from ``environ``.

        Raises:
            InvalidRequest: see ``read``.
        """
        keys = cls.read(environ)
        environ.pop(STREAM_KEYS_VARIABLE, None)
        return keys

    @property
    def current(self) -> str:
        """The name of the key that encrypts."""
        return next(iter(self.keys))

    def key(self, name: str) -> bytes:
        """The key of this name.

        Raises:
            InvalidRequest: there is no key of this name.
        """
        if name not in self.keys:
            raise InvalidRequest(
                STREAM_KEYS_VARIABLE, name, "must include the key that encrypted the stream's state",
                "mount that key again, after the current one",
            )  # fmt: skip
        return self.keys[name]
