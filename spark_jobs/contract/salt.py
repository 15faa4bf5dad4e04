"""Reads the secret salt that decides which rows of a unit are used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import SALT_FILE_VARIABLE, SALT_VARIABLE

MIN_SALT_BYTES = 16


def read_salt(environ: Mapping[str, str]) -> bytes:
    """The secret salt in ``DP_DIAGNOSTICS_SALT``, or in the file that ``DP_DIAGNOSTICS_SALT_FILE`` names.

    Raises:
        InvalidRequest: neither is set, both are, the file cannot be read, or the salt is shorter than 16 bytes.
    """
    text, path = environ.get(SALT_VARIABLE), environ.get(SALT_FILE_VARIABLE)
    if bool(text) == bool(path):
        raise InvalidRequest(
            SALT_VARIABLE, None,
            f"exactly one of {SALT_VARIABLE} and {SALT_FILE_VARIABLE} must be set if the unit is a column",
            f"mount a secret of {MIN_SALT_BYTES} random bytes or more, and keep it the same for all attempts",
        )  # fmt: skip
    try:
        salt = os.fsencode(text) if text else Path(str(path)).read_bytes().rstrip(b"\r\n")
    except OSError:
        raise InvalidRequest(
            SALT_FILE_VARIABLE, path, "must name a file that can be read", "mount the secret there"
        ) from None
    if len(salt) < MIN_SALT_BYTES:
        raise InvalidRequest(
            SALT_VARIABLE if text else SALT_FILE_VARIABLE, None, f"must have at least {MIN_SALT_BYTES} bytes",
            "use a longer secret, e.g. from openssl rand -hex 32",
        )  # fmt: skip
    return salt
