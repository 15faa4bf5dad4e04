"""Views: objects that can be made again from others at any time, such as the report of a stream, and are overwritten.

No release relies on a view: its hash is recorded nowhere, and a lost or outdated view is made again. Readers see the
old bytes or the new ones, never a part.
"""

from __future__ import annotations

import os
import secrets

from spark_jobs.contract.store.conditional_put import ConditionalPutStore
from spark_jobs.contract.store.objects import LocalStore, ObjectStore, local_path

_READABLE = 0o644


def overwrite_view(store: ObjectStore, uri: str, content: bytes) -> None:
    """Write the complete object, in place of an existing one.

    Raises:
        OSError: the store failed.
        TypeError: the store cannot overwrite.
    """
    if isinstance(store, ConditionalPutStore):
        store.overwrite(uri, content)
        return
    if not isinstance(store, LocalStore):
        raise TypeError(f"{type(store).__name__} cannot overwrite an object")
    path = local_path(uri)
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _READABLE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)
