"""Object stores of the clouds: a write carries the precondition that no such object exists.

=========  ========================  ======  ==================================================
store      precondition              extra   folder
=========  ========================  ======  ==================================================
Amazon S3  ``If-None-Match: *``      s3      ``s3://bucket/folder``
Google     ``ifGenerationMatch=0``   gcs     ``gs://bucket/folder``
Azure      ``If-None-Match: *``      azure   ``abfss://container@account.dfs.core.windows.net/folder``
=========  ========================  ======  ==================================================

The file systems of fsspec (s3fs, gcsfs, adlfs) send this precondition for ``pipe_file(..., mode="create")``. By
default, they sign in with the credentials of their machine or its environment; Airflow's processes use those of
Airflow's connections instead (``dp_operators.hooks.stores``).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from spark_jobs.contract.errors import InvalidRequest

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure"}
"""The schemes whose file system is known to send the precondition, and the extra that installs it."""

_EXAMPLES = {"azure": "abfss://container@account.dfs.core.windows.net/folder"}
_AZURE_HOST = re.compile(r"[a-z0-9-]+@([a-z0-9]+)\.dfs\.core\.windows\.net")
_PUT_ATTEMPTS = 5


class ConditionalPutStore:
    """An object store whose writes take a precondition, through its file system of fsspec.

    S3 and Google get an object in one request, whatever its size: for an upload in parts, gcsfs would send the
    precondition when the upload begins, and not with the object. Azure's client commits an upload in parts by one
    request that carries the precondition.

    A refusal comes back as ``FileExistsError``. An S3 store that does not name the failed condition causes a plain
    ``OSError`` (``s3fs.errors.translate_boto_error``), which is why the cause is examined as well. 409
    ConditionalRequestConflict means that another write was in progress: the request is repeated.
    """

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        self._azure = "abfss" in filesystem.protocol

    def create(self, uri: str, content: bytes) -> bool:
        """Put the object unless it exists; return whether the object has this content."""
        whole = {} if self._azure else {"chunksize": len(content) + 1}
        for attempt in range(_PUT_ATTEMPTS):
            with as_os_error():
                try:
                    self._filesystem.pipe_file(uri, content, mode="create", **whole)
                    return True
                except FileExistsError:
                    # the clients repeat a request whose response was lost, and then meet their own object
                    return self.read(uri) == content
                except OSError as error:
                    code = _s3_code(error)
                    if code in ("PreconditionFailed", "412"):
                        return self.read(uri) == content
                    if code not in ("ConditionalRequestConflict", "OperationAborted", "409"):
                        raise
            time.sleep(0.1 * 2**attempt)
        raise OSError("the store kept rejecting a conditional write because of concurrent writes")

    def overwrite(self, uri: str, content: bytes) -> None:
        """Put the object, whatever is there; only for views (``contract.store.views``)."""
        with as_os_error():
            self._filesystem.pipe_file(uri, content)

    def read(self, uri: str, *, limit: int | None = None) -> bytes | None:
        """The object's bytes, or ``limit + 1`` bytes of an object that is larger; None if it does not exist."""
        with as_os_error():
            try:
                # a cached listing would hide what another attempt has just written
                self._filesystem.invalidate_cache()
                if limit is None:
                    return bytes(self._filesystem.cat_file(uri))
                # a range of an empty object is an error
                empty = not self._filesystem.info(uri)["size"]
                return b"" if empty else bytes(self._filesystem.cat_file(uri, start=0, end=limit + 1))
            except FileNotFoundError:
                return None

    def first(self, uri: str) -> str | None:
        """The first key below the folder, relative to it; object stores list keys in order."""
        with as_os_error():
            bucket, folder, _ = self._filesystem.split_path(uri)
            prefix = f"{folder.rstrip('/')}/"
            first = next(_first_keys(self._filesystem, bucket, prefix), None)
        return None if first is None else first[len(prefix) :]

    def remove(self, uri: str) -> None:
        """Remove the object, if it exists."""
        with as_os_error(), contextlib.suppress(FileNotFoundError):
            self._filesystem.rm_file(uri)

    def names(self, uri: str) -> Iterator[str]:
        """The keys below the folder, relative to it."""
        with as_os_error():
            self._filesystem.invalidate_cache()
            paths = self._filesystem.find(uri)
        above = len(str(self._filesystem._strip_protocol(uri)).rstrip("/")) + 1
        return (str(path)[above:] for path in paths)


def require_conditional_put(uri: str, what: str) -> None:
    """Reject a URI of a store that is not known to create objects conditionally; no store is contacted.

    Raises:
        InvalidRequest: the store is not known to do so, or the URI does not have the form in the module's table.
    """
    parts = urlsplit(uri)
    extra = EXTRAS.get(parts.scheme)
    if extra is None:
        raise InvalidRequest(
            what, uri, "must be a store with conditional put: file://, s3://, gs:// or abfss://",
            "release to one of these stores: other stores could publish one release twice",
        )  # fmt: skip
    named = _AZURE_HOST.fullmatch(parts.netloc) if extra == "azure" else parts.netloc
    if not named:
        raise InvalidRequest(
            what, uri, "must name a container and its account" if extra == "azure" else "must name a bucket",
            f"write it like {_EXAMPLES.get(extra, f'{parts.scheme}://bucket/folder')}",
        )  # fmt: skip


def by_environment(uri: str) -> Any:
    """The file system of ``uri``, which signs in with the credentials of the machine or its environment."""
    import fsspec.core

    return fsspec.core.url_to_fs(uri)[0]


_opener: list[Callable[[str], Any]] = [by_environment]


def open_by(opener: Callable[[str], Any]) -> None:
    """Make this process open file systems by ``opener`` from now on."""
    _opener[0] = opener


def conditional_put_store(uri: str, what: str) -> ConditionalPutStore:
    """The store that contains ``uri``, whose scheme is one of ``EXTRAS``.

    Raises:
        InvalidRequest: its file system is not installed, has no credentials, or has those of another account.
    """
    return ConditionalPutStore(opened(uri, what=what))


def opened(uri: str, *, what: str) -> Any:
    """The file system of ``uri``, whose scheme is one of ``EXTRAS``, by the opener of this process (``open_by``).

    Raises:
        InvalidRequest: the file system is not installed, has no credentials, or has those of another account.
    """
    extra = EXTRAS[urlsplit(uri).scheme]
    # else gcsfs asks for a bucket's type by gRPC, for up to a minute, to append to zonal buckets
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        filesystem = _opener[0](uri)
    except ImportError:
        raise InvalidRequest(what, uri, f"needs the {extra} extra", f"install dp-diagnostics[{extra}]") from None
    except InvalidRequest:
        raise
    except Exception as error:  # a client's own complaint may quote credentials
        raise InvalidRequest(
            what, uri, f"must be a store that this machine can sign in to ({type(error).__name__})",
            "check the store's connection, or the variables and identity of the machine",
        ) from None  # fmt: skip
    if extra == "azure":
        _require_account(uri, str(filesystem.service_client.account_name), what)
    return filesystem


def _require_account(uri: str, signed_in: str, what: str) -> None:
    """Reject credentials of another account than the URI names: by them, one name would be of two folders."""
    named = _AZURE_HOST.fullmatch(urlsplit(uri).netloc)
    if named is None or named[1] != signed_in:
        raise InvalidRequest(
            what, uri, f"must be in the account that this machine signs in to, {signed_in}",
            "name that account, or give the credentials of the other account",
        )  # fmt: skip


def _first_keys(filesystem: Any, bucket: str, prefix: str) -> Iterator[str]:
    """The first key, if there is one: a listing of one key, because stores list in the order of bytes."""
    if "s3" in filesystem.protocol:
        page = filesystem.call_s3("list_objects_v2", Bucket=bucket, Prefix=prefix, MaxKeys=1)
        yield from (str(entry["Key"]) for entry in page.get("Contents", ()))
    elif "gs" in filesystem.protocol:
        query = {"prefix": prefix, "maxResults": 1}
        page = filesystem.call("GET", "b/{}/o", bucket, json_out=True, **query)
        while page.get("nextPageToken") and not page.get("items"):  # a page may be empty, and not the last
            page = filesystem.call("GET", "b/{}/o", bucket, json_out=True, pageToken=page["nextPageToken"], **query)
        yield from (str(entry["name"]) for entry in page.get("items", ()))
    else:
        from fsspec.asyn import sync

        first = sync(filesystem.loop, _first_blob, filesystem, bucket, prefix)
        yield from () if first is None else (first,)


async def _first_blob(filesystem: Any, container: str, prefix: str) -> str | None:
    async with filesystem.service_client.get_container_client(container) as client:
        async for name in client.list_blob_names(name_starts_with=prefix, results_per_page=1):
            return str(name)
    return None


@contextlib.contextmanager
def as_os_error() -> Iterator[None]:
    """Convert every error of an object store's client into ``OSError``, the only one that callers expect.

    A login that the store refuses becomes a ``PermissionError``: s3fs raises it itself, gcsfs and adlfs do not.
    """
    try:
        yield
    except OSError as error:
        if _refuses_login(error):
            raise PermissionError("the object store refuses this login") from error
        raise
    except Exception as error:
        if _refuses_login(error):
            raise PermissionError("the object store refuses this login") from error
        raise OSError(f"the object store failed: {type(error).__name__}") from error


def _refuses_login(error: Exception) -> bool:
    codes = (getattr(cause, name, None) for cause in (error, error.__cause__) for name in ("status_code", "code"))
    return any(str(code) in ("401", "403") for code in codes) or str(error).startswith("Forbidden: ")


def _s3_code(error: OSError) -> str:
    response = getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
