"""Objects that are created exactly once, on which every release relies.

Two attempts may race, and a worker believed dead may come back, so each object that matters is created by an *exclusive
create*: complete or not at all, and never a second time. Stores that cannot promise this are rejected.

What a killed attempt leaves behind matters as much: a half-written draw, or one that lost its race, would be a second
noisy answer for one charge. So bytes are never where others can read them before they are the complete object.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.layout import DRAFT_FOLDER

CONDITIONAL_PUT = ("s3", "s3a")
"""Schemes whose fsspec implementation is known to send ``If-None-Match``."""

_OWNER_ONLY = 0o600
_READABLE = 0o644
_OWNERS_FOLDER = 0o700
_OTHERS = 0o077
_PUT_ATTEMPTS = 5


class ObjectStore(Protocol):
    """Reads objects, and creates them exclusively.

    ``create`` returns whether it created the object, as far as the store knows: if a response was lost, the repeated
    request meets its own object. A caller that must know *what* is stored reads it.
    """

    def create(self, uri: str, content: bytes) -> bool:
        """Create the complete object; return False, and change nothing, if it exists.

        Raises:
            OSError: the store failed; the object may or may not exist.
        """

    def read(self, uri: str) -> bytes | None:
        """The object's bytes; None if it does not exist.

        Raises:
            OSError: the store failed.
        """

    def remove(self, uri: str) -> None:
        """Remove an object that can be made again, if it exists; retention alone does so.

        Raises:
            OSError: the store failed.
        """

    def names(self, uri: str) -> Iterator[str]:
        """The paths, relative to the folder ``uri``, of all objects below it; empty if it does not exist.

        Raises:
            OSError: the store failed.
        """

    def first(self, uri: str) -> str | None:
        """The path, relative to the folder, that is first in the order of bytes; None if the folder has no object.

        Raises:
            OSError: the store failed.
        """


class LocalStore:
    """Files of a mounted file system: written without a name, then linked to their name.

    Linking fails if the name is taken, also between machines on NFS. If the file system does not support files without
    a name, they are written under a hidden name that only their owner can read.
    """

    def create(self, uri: str, content: bytes) -> bool:
        """Create the complete file, flushed to disk; return False, and change nothing, if it exists."""
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
                    return False
                if not private and os.fstat(descriptor).st_mode & _READABLE == _OWNER_ONLY:
                    # it is the object only now: whoever may read the folder may read it
                    os.fchmod(descriptor, _OWNER_ONLY | os.fstat(folder).st_mode & _READABLE)
            os.fsync(folder)
        finally:
            os.close(folder)
        return True

    def read(self, uri: str) -> bytes | None:
        """The file's bytes; None if it does not exist."""
        try:
            return local_path(uri).read_bytes()
        except FileNotFoundError:
            return None

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
        """The path of a file below the folder, relative to it, that is first in order."""
        return min(self.names(uri), default=None)


class ConditionalPutStore:
    """An object store whose writes take ``If-None-Match: *``, through fsspec.

    For s3fs, ``pipe_file(..., mode="create")`` puts ``IfNoneMatch="*"`` into the one ``PutObject`` request, and into
    ``CompleteMultipartUpload`` for objects of 100 MB and more (``s3fs.core.S3FileSystem._pipe_file``); the refusal,
    412 PreconditionFailed, comes back as ``FileExistsError`` if it names its condition, as S3 does, and as a plain
    ``OSError`` if not (``s3fs.errors.translate_boto_error``), which is why the cause is examined as well. 409
    ConditionalRequestConflict means that another write was in progress: the request is repeated.
    """

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def create(self, uri: str, content: bytes) -> bool:
        """Put the object unless it exists; return False, and change nothing, if it does."""
        for attempt in range(_PUT_ATTEMPTS):
            with _as_os_error():
                try:
                    self._filesystem.pipe_file(uri, content, mode="create")
                    return True
                except FileExistsError:
                    return False
                except OSError as error:
                    code = _s3_code(error)
                    if code in ("PreconditionFailed", "412"):
                        return False
                    if code not in ("ConditionalRequestConflict", "OperationAborted", "409"):
                        raise
            time.sleep(0.1 * 2**attempt)
        raise OSError("the store kept rejecting a conditional write because of concurrent writes")

    def overwrite(self, uri: str, content: bytes) -> None:
        """Put the object, whatever is there; only for views (``contract.store.views``)."""
        with _as_os_error():
            self._filesystem.pipe_file(uri, content)

    def read(self, uri: str) -> bytes | None:
        """The object's bytes; None if it does not exist."""
        with _as_os_error():
            try:
                # a cached listing would hide what another attempt has just written
                self._filesystem.invalidate_cache()
                return bytes(self._filesystem.cat_file(uri))
            except FileNotFoundError:
                return None

    def first(self, uri: str) -> str | None:
        """The first key of a listing, which object stores return in order, relative to the folder."""
        with _as_os_error():
            bucket, folder, _ = self._filesystem.split_path(uri)
            prefix = f"{folder.rstrip('/')}/"
            page = self._filesystem.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1)
        return next((str(entry["Key"])[len(prefix) :] for entry in page.get("Contents", ())), None)

    def remove(self, uri: str) -> None:
        """Remove the object, if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(uri)

    def names(self, uri: str) -> Iterator[str]:
        """The keys below the folder, relative to it."""
        with _as_os_error():
            self._filesystem.invalidate_cache()
            paths = self._filesystem.find(uri)
        above = len(str(self._filesystem._strip_protocol(uri)).rstrip("/")) + 1
        return (str(path)[above:] for path in paths)


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
    return LocalStore() if urlsplit(uri).scheme in ("", "file") else ConditionalPutStore(_s3(uri, what))


def require_store(uri: str, *, what: str = "output") -> None:
    """Reject a URI of a store that is unknown or cannot create objects exclusively; no store is contacted.

    Raises:
        InvalidRequest: it is of such a store.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that hold no address
        raise InvalidRequest(
            what, value=uri, requirement="must be a path or a URI", remedy="write it like s3://bucket/folder"
        ) from None
    if parts.scheme and (parts.query or parts.fragment):
        raise InvalidRequest(
            what, value=uri, requirement="must be a URI without '?' and '#'", remedy="name the folder without them"
        )
    if parts.scheme in ("", "file"):
        if not local_path(uri).is_absolute() or parts.netloc not in ("", "localhost"):
            raise InvalidRequest(what, value=uri, requirement="must be absolute", remedy="give a full path or a URI")
    elif parts.scheme not in CONDITIONAL_PUT:
        raise InvalidRequest(
            what,
            value=uri,
            requirement="must be a store with conditional put: file:// or s3://",
            remedy="release to one of these; others could publish one release twice",
        )
    elif not parts.netloc:
        raise InvalidRequest(
            what, value=uri, requirement="must name a bucket", remedy="write it like s3://bucket/folder"
        )


def check_store(uri: str, *, what: str = "output") -> ObjectStore:
    """The store of ``uri``, after testing that it can be written and that it rejects a second create.

    Raises:
        InvalidRequest: it cannot be written, or lets an object be created twice.
    """
    store = open_store(uri, what=what)
    # in no folder of its own: one attempt would remove it while another puts its probe there
    probe = f"{uri.rstrip('/')}/.probe-{secrets.token_hex(16)}"
    try:
        first, second = store.create(probe, b""), store.create(probe, b"")
    except OSError as error:  # any failure of a store means one thing here: it cannot be written
        raise _unwritable(uri, what, error) from None
    finally:
        _remove_probe(store, probe)
    if not first or second:
        raise InvalidRequest(
            what,
            value=uri,
            requirement="must be a store that refuses to create an object twice",
            remedy="use a store with exclusive create or If-None-Match",
        )
    return store


def check_writable(uri: str, *, what: str = "output") -> None:
    """Reject a place in which a release cannot be written, without leaving anything there.

    A folder of this machine, or the nearest one above it that exists, is tested by a file that never gets a name. An
    object store, which has no such files, is tested as by ``check_store``.

    Raises:
        InvalidRequest: it cannot be written.
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
        raise _unwritable(uri, what, error) from None


def _unwritable(uri: str, what: str, error: OSError) -> InvalidRequest:
    return InvalidRequest(
        what,
        value=uri,
        requirement="must be a folder that can be written",
        remedy=f"check that it exists and who may write there ({type(error).__name__})",
    )


def _s3(uri: str, what: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem("s3")
    except ImportError:
        raise InvalidRequest(
            what, value=uri, requirement="needs the s3 extra", remedy="install dp-diagnostics[s3]"
        ) from None


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


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Convert every error of an object store's client into ``OSError``, the only one that callers expect."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"the object store failed: {type(error).__name__}") from error


def _s3_code(error: OSError) -> str:
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _remove_probe(store: ObjectStore, probe: str) -> None:
    with contextlib.suppress(Exception):
        if isinstance(store, ConditionalPutStore):
            store._filesystem.rm_file(probe)
        else:
            local_path(probe).unlink(missing_ok=True)
