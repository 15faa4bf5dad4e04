"""Objects that are created exactly once, on which every release relies.

Two attempts may race, and a worker believed dead may come back, so each object that matters is created by an *exclusive
create*: complete or not at all, and never a second time. Stores that cannot promise this are rejected.

What a killed attempt leaves behind matters as much: a half-written draw, or one that lost its race, would be a second
noisy answer for one charge. So no bytes can be read by others before they are the complete object under its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.conditional_put import conditional_put_store, require_conditional_put
from spark_jobs.contract.store.layout import DRAFT_FOLDER

_OWNER_ONLY = 0o600
_READABLE = 0o644
_OWNERS_FOLDER = 0o700
_OTHERS = 0o077
_NOT_THERE = (PermissionError, FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
_NEVER = (errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)


class ObjectStore(Protocol):
    """Reads objects, and creates them exclusively."""

    def create(self, uri: str, content: bytes) -> bool:
        """Create the complete object unless it exists, and change nothing if it does.

        Returns:
            Whether the object has this content now, whoever created it: a store's response may be lost, and the
            repeated request meets its own object.

        Raises:
            OSError: the store failed; the object may or may not exist.
        """

    def read(self, uri: str, *, limit: int | None = None) -> bytes | None:
        """The object's bytes; None if it does not exist.

        Args:
            uri: the object.
            limit: the largest size that is accepted, where the object's writer is not trusted. Of a larger object,
                ``limit + 1`` bytes are returned, by which the caller recognises it. A link, or anything else that is
                not a regular file, reads as empty.

        Raises:
            OSError: the store failed.
        """

    def remove(self, uri: str) -> None:
        """Remove an object that can be made again, if it exists; only the retention policy calls this.

        Raises:
            OSError: the store failed.
        """

    def names(self, uri: str) -> Iterator[str]:
        """The paths, relative to the folder ``uri``, of all objects below it; empty if it does not exist.

        Raises:
            OSError: the store failed.
        """

    def first(self, uri: str) -> str | None:
        """The path, relative to the folder ``uri``, that is first in byte order; None if the folder has no object.

        Raises:
            OSError: the store failed.
        """


class LocalStore:
    """A store on a mounted file system: files are written without a name, then linked to their name.

    Linking fails if the name is taken, also between machines on NFS. If the file system does not support files without
    a name, they are written under a hidden name that only their owner can read.
    """

    def create(self, uri: str, content: bytes) -> bool:
        """Create the complete file, flushed to disk, unless it exists; return whether the file has this content."""
        path = local_path(uri)
        private = DRAFT_FOLDER in path.parent.parts
        _make_folder(path.parent)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _unlinked(folder, _OWNER_ONLY if private else _READABLE) as (descriptor, source):
                _write_all(descriptor, content)
                os.fsync(descriptor)
                try:
                    os.link(source, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
                except FileExistsError:
                    return self.read(uri) == content
                if not private and os.fstat(descriptor).st_mode & _READABLE == _OWNER_ONLY:
                    # it is the object only now: whoever may read the folder may read it
                    os.fchmod(descriptor, _OWNER_ONLY | os.fstat(folder).st_mode & _READABLE)
            os.fsync(folder)
        finally:
            os.close(folder)
        return True

    def read(self, uri: str, *, limit: int | None = None) -> bytes | None:
        """The file's bytes; None if it does not exist. A pipe in its place reads as empty, without waiting."""
        try:
            if limit is None:
                with open(local_path(uri), "rb", opener=_at_once) as file:
                    return file.read()
            with open(local_path(uri), "rb", opener=_at_once_unlinked) as file:
                is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
                return file.read(limit + 1) if is_file else b""
        except FileNotFoundError:
            return None
        except OSError as error:
            if limit is not None and error.errno in _NO_FILE:
                return b""
            raise

    def remove(self, uri: str) -> None:
        """Remove the file, if it exists."""
        local_path(uri).unlink(missing_ok=True)

    def names(self, uri: str) -> Iterator[str]:
        """The paths of all files below the folder, relative to it."""
        root = local_path(uri)
        for folder, _, files in os.walk(root, onerror=_unless_missing):
            for name in files:
                yield Path(folder, name).relative_to(root).as_posix()

    def first(self, uri: str) -> str | None:
        """The path, relative to the folder, of the first file below it in byte order; None if it has no file."""
        return min(self.names(uri), default=None)


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _at_once_unlinked(path: str, flags: int) -> int:
    return _at_once(path, flags | os.O_NOFOLLOW)


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def local_path(uri: str) -> Path:
    """The path of a ``file://`` URI or of a bare path."""
    parts = urlsplit(uri)
    return Path(unquote(parts.path) if parts.scheme == "file" else uri)


def open_store(uri: str, *, what: str = "output") -> ObjectStore:
    """The store that contains ``uri``.

    Raises:
        InvalidRequest: the store is unknown, or cannot create objects exclusively.
    """
    require_store(uri, what=what)
    return LocalStore() if urlsplit(uri).scheme in ("", "file") else conditional_put_store(uri, what)


def require_store(uri: str, *, what: str = "output") -> None:
    """Reject a URI of a store that is unknown or cannot create objects exclusively; no store is contacted.

    Raises:
        InvalidRequest: the URI is of such a store.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that hold no address
        raise InvalidRequest(what, uri, "must be a path or a URI", "write it like s3://bucket/folder") from None
    if parts.scheme and (parts.query or parts.fragment):
        raise InvalidRequest(what, uri, "must be a URI without '?' and '#'", "name the folder without them")
    if parts.scheme in ("", "file"):
        if not local_path(uri).is_absolute() or parts.netloc not in ("", "localhost"):
            raise InvalidRequest(what, uri, "must be absolute", "give a full path or a URI")
    else:
        require_conditional_put(uri, what)


def check_store(uri: str, *, what: str = "output") -> ObjectStore:
    """The store of ``uri``, after testing that it can be written and that it rejects a second create.

    A folder of this machine is left as it was. In an object store, one object ``.probe`` stays, so that no permission
    to delete is needed; every later test uses the same object.

    Raises:
        InvalidRequest: the store may not be written, or lets an object be created twice.
        OSError: the store failed, which says nothing about the request.
    """
    store = open_store(uri, what=what)
    # in no folder of its own: one attempt would remove it while another puts its probe there
    probe, local = f"{uri.rstrip('/')}/.probe", isinstance(store, LocalStore)
    if local:
        probe = f"{probe}-{secrets.token_hex(16)}"
    try:
        # what is refused is proof enough: a store that creates twice creates the first as well
        twice = store.create(probe, secrets.token_bytes(16)) and store.create(probe, b"")
    except OSError as error:
        raise _unwritable(uri, what, error) or error from None
    finally:
        if local:
            with contextlib.suppress(OSError):
                store.remove(probe)
    if twice:
        raise InvalidRequest(
            what, uri, "must be in a store that refuses to create the same object twice",
            "use a store with exclusive create or If-None-Match",
        )  # fmt: skip
    return store


def check_writable(uri: str, *, what: str = "output") -> None:
    """Reject a place in which a release cannot be written; a folder of this machine is left as it was.

    A folder of this machine, or the nearest existing one above it, is tested by a file that never gets a name. An
    object store has no such files: it is tested by ``check_store``, which leaves one object ``.probe`` there.

    Raises:
        InvalidRequest: the place may not be written.
        OSError: the store failed.
    """
    if not isinstance(open_store(uri, what=what), LocalStore):
        check_store(uri, what=what)
        return
    path = local_path(uri)
    existing = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    try:
        folder = os.open(existing, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with _unlinked(folder, _OWNER_ONLY):
                pass
        finally:
            os.close(folder)
    except OSError as error:
        raise _unwritable(uri, what, error) or error from None


def _unwritable(uri: str, what: str, error: OSError) -> InvalidRequest | None:
    """The refusal of a place that may not be written; None if the store failed, so that a retry may find it well."""
    if not (isinstance(error, _NOT_THERE) or error.errno in _NEVER):
        return None
    return InvalidRequest(
        what, uri, "must be a folder that can be written",
        f"check that it exists and who may write there ({type(error).__name__})",
    )  # fmt: skip


def _make_folder(folder: Path) -> None:
    """Create ``folder`` and its parents, flushed to disk: a lost folder would lose the draw in it.

    Folders of drafts are accessible to their owner alone; one that is open to others is closed to them.
    """
    private = DRAFT_FOLDER in folder.parts
    if folder.is_dir():
        if private and folder.stat().st_mode & _OTHERS:
            folder.chmod(_OWNERS_FOLDER)
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True, mode=_OWNERS_FOLDER if private else 0o777)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _unlinked(folder: int, mode: int) -> Iterator[tuple[int, str]]:
    """A new file in ``folder`` that nobody else can read yet, and the path to link it from."""
    hidden = None
    try:
        descriptor = os.open(".", os.O_WRONLY | getattr(os, "O_TMPFILE", os.O_DIRECTORY), mode, dir_fd=folder)
    except OSError:  # not every system supports them; a folder that cannot be written raises again below
        hidden = f".{secrets.token_hex(16)}"
        descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY, dir_fd=folder)
    try:
        yield descriptor, hidden or f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
        if hidden is not None:
            os.unlink(hidden, dir_fd=folder)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
