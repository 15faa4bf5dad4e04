"""A participant's private keys in a file; keys for one agreement are destroyed after its last evaluation.

Masks and noise are derived from private keys, so that every attempt at a round makes the same ones. Whoever got the
keys later could derive these again. So keys for one agreement are destroyed once no evaluation that was paid for is
left. Without further evaluations, a silo destroys its keys when its draft is stored, and a server when all silos have
ended. If evaluations are left at that time, silo and server destroy their keys after the last evaluation.

Keys are destroyed in two steps. The first creates a file ``NAME.closed``; the second overwrites and removes the keys. A
process that is killed before the first step still has its keys, and continues with them. After the first step the
agreement is closed, and the next process that looks for the keys completes the second. Copies that a file system, a
backup or an administrator keeps are out of reach.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.federation import registered_file
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.federation.agreement import Keys


class AgreementClosed(InvalidRequest):
    """The keys were destroyed after the last evaluation that was paid for; no further question can be asked."""


def registered_keys(environ: Mapping[str, str], name: str) -> Keys:
    """The private keys of this silo or server, which lie beside the registered federation of this name.

    Raises:
        AgreementClosed: the keys were destroyed.
        InvalidRequest: there are no keys.
    """
    return read_keys(registered_file(environ, name, "keys"), name=name)


def read_keys(path: Path, *, name: str, field: str = "federation") -> Keys:
    """The keys in a file.

    Args:
        path: path of the file, ``….keys``.
        name: the value that the error states if there are no keys.
        field: the field that the error states.

    Raises:
        AgreementClosed: the keys were destroyed.
        InvalidRequest: there are no keys, or the file cannot be read.
    """
    if is_closed(path):
        with suppress(OSError):  # the folder may be mounted for reading alone
            erase(path)
        raise AgreementClosed(
            field,
            value=name,
            requirement="is closed: its keys were destroyed after the last evaluation that was paid for",
            remedy="agree on a new session, with new keys",
        )
    try:
        return Keys.from_text(path.read_text(encoding="ascii"))
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(
            field, name, "must have private keys, in a file that can be read",
            f"mount {path.name} beside the registration; keys for one agreement are moved there",
        ) from None  # fmt: skip


def is_closed(path: Path) -> bool:
    """Whether the keys of this file were destroyed, or are being destroyed."""
    return path.with_suffix(".closed").exists()


def destroy(path: Path) -> bool:
    """Destroy the keys in a file unless they are for several agreements; return whether they are destroyed.

    Raises:
        OSError: the folder cannot be written to.
    """
    if not is_closed(path):
        with suppress(OSError, InvalidRequest):
            if Keys.from_text(path.read_text(encoding="ascii")).lasting:
                return False
        failpoint("before_close")
        with suppress(FileExistsError), path.with_suffix(".closed").open("x") as file:
            file.write("The keys were destroyed after the last evaluation that was paid for.\n")
            os.fsync(file.fileno())
        _sync(path.parent)
        failpoint("after_close")
    failpoint("before_destroy_keys")
    erase(path)
    failpoint("after_destroy_keys")
    return True


def erase(path: Path) -> None:
    """Overwrite a file and remove it; do nothing if there is none."""
    with suppress(FileNotFoundError):
        with path.open("r+b") as file:
            failpoint("before_overwrite_keys")
            file.write(bytes(path.stat().st_size))
            file.flush()
            os.fsync(file.fileno())
        failpoint("after_overwrite_keys")
        path.unlink()
        _sync(path.parent)


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
