"""Objects that are created once: the ground every release stands on.

Two attempts may race, and a worker believed dead may come back, so each object that matters is made by *exclusive
create*: complete or not at all, and never a second time. Stores that cannot promise this are refused.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from spark_jobs.contract.errors import RequestRefused


class ObjectStore(Protocol):
    """Reads objects, and creates them exclusively."""

    def create(self, uri: str, content: bytes) -> bool:
        """Create the object, complete; False, changing nothing, if there is one already."""

    def read(self, uri: str) -> bytes | None:
        """The object's bytes; None if there is none."""


class LocalStore:
    """Files on this machine: written aside, then linked to their name, which fails if it is taken."""

    def create(self, uri: str, content: bytes) -> bool:
        """Create the file, complete and flushed; False, changing nothing, if there is one already."""
        path = local_path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            try:
                os.link(aside, path)
            except FileExistsError:
                return False
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
            return True
        finally:
            aside.unlink(missing_ok=True)

    def read(self, uri: str) -> bytes | None:
        """The file's bytes; None if there is none."""
        try:
            return local_path(uri).read_bytes()
        except FileNotFoundError:
            return None


class ConditionalPutStore:
    """An object store whose writes take ``If-None-Match: *``, through fsspec."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def create(self, uri: str, content: bytes) -> bool:
        """Put the object if there is none; False, changing nothing, if there is one already."""
        try:
            self._filesystem.pipe_file(uri, content, mode="create")
        except FileExistsError:
            return False
        return True

    def read(self, uri: str) -> bytes | None:
        """The object's bytes; None if there is none."""
        try:
            # a cached listing would hide what another attempt has just written
            self._filesystem.invalidate_cache()
            return bytes(self._filesystem.cat_file(uri))
        except FileNotFoundError:
            return None


CONDITIONAL_PUT = ("s3", "s3a")
"""Schemes whose fsspec implementation is known to send ``If-None-Match``."""


def local_path(uri: str) -> Path:
    """The path of a ``file://`` URI or of a bare path."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path) if parts.scheme == "file" else uri)


def open_store(uri: str, *, what: str = "output") -> ObjectStore:
    """The store that ``uri`` lies in.

    Raises:
        RequestRefused: the store is unknown, or cannot create objects exclusively.
    """
    scheme = urlsplit(uri).scheme
    if scheme in ("", "file"):
        if not local_path(uri).is_absolute():
            raise RequestRefused(what, given=uri, bound="must be absolute", remedy="give a full path or a URI")
        return LocalStore()
    if scheme in CONDITIONAL_PUT:
        import fsspec

        try:
            return ConditionalPutStore(fsspec.filesystem("s3"))
        except ImportError:
            raise RequestRefused(
                what, given=uri, bound="needs the s3 extra", remedy="install airflow-provider-dp-diagnostics[s3]"
            ) from None
    raise RequestRefused(
        what,
        given=uri,
        bound="must be a store with conditional put: file:// or s3://",
        remedy="release to one of these; others could publish one release twice",
    )


def check_store(uri: str, *, what: str = "output") -> ObjectStore:
    """The store of ``uri``, after trying that it can be written and that a second create is refused.

    Raises:
        RequestRefused: it cannot be written, or lets an object be created twice.
    """
    store = open_store(uri, what=what)
    probe = f"{uri.rstrip('/')}/.probe/{secrets.token_hex(16)}"
    try:
        first, second = store.create(probe, b""), store.create(probe, b"")
    except Exception as error:  # any failure of a store means one thing here: it cannot be written
        raise RequestRefused(
            what,
            given=uri,
            bound="must be a folder that can be written",
            remedy=f"check that it exists and who may write there ({type(error).__name__})",
        ) from None
    finally:
        _remove_probe(probe)
    if not first or second:
        raise RequestRefused(
            what,
            given=uri,
            bound="must be a store that refuses to create an object twice",
            remedy="use a store with exclusive create or If-None-Match",
        )
    return store


def _remove_probe(probe: str) -> None:
    import contextlib

    with contextlib.suppress(Exception):
        if urlsplit(probe).scheme in ("", "file"):
            path = local_path(probe)
            path.unlink(missing_ok=True)
            path.parent.rmdir()
        else:
            import fsspec

            fsspec.filesystem("s3").rm_file(probe)
