"""A participant's private keys in a file, and their end: keys for one agreement outlive its last evaluation by nothing.

Masks and noise are derived from private keys, so that every attempt at a round makes the same ones. Whoever got keys
later could derive them again. So keys for one agreement are destroyed once nothing can be asked any more that was paid
for: by a silo when its draft is stored, by a server when all silos have ended, by either when no evaluation is left.

First a file ``NAME.closed`` says so; then the keys are overwritten and removed. A process that is killed before the
first step has its keys, and goes on with them. After it the agreement is closed, and whoever looks for the keys does
what is left of the second step. Copies that a file system, a backup or an administrator keeps are out of reach.
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
    """The keys were destroyed after the last evaluation that was paid for: nothing can be asked any more."""


def registered_keys(environ: Mapping[str, str], name: str) -> Keys:
    """The private keys of this silo or server, which lie beside the registered federation of this name.

    Raises:
        AgreementClosed: they were destroyed.
        InvalidRequest: there are none.
    """
    return read_keys(registered_file(environ, name, "keys"), name=name)


def read_keys(path: Path, *, name: str, field: str = "federation") -> Keys:
    """The keys in a file.

    Args:
        path: of the file, ``….keys``.
        name: what is refused if there are none.
        field: what that is.

    Raises:
        AgreementClosed: they were destroyed.
        InvalidRequest: there are none, or the file cannot be read.
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
    """Destroy the keys in a file if they are for one agreement; whether there are none any more.

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
    """Overwrite a file and remove it; nothing if there is none."""
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
