"""The files of a table, as far as this machine can list and open them; nothing is written, and no row is read."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import Place
from spark_jobs.contract.store.conditional_put import as_os_error, opened
from spark_jobs.contract.store.pipelines import WORKER_SCHEMES, hidden

_MAX_LINE = 1 << 20
"""The most bytes of a first line that are read."""


_LIKELY_FOOTER = 1 << 16
"""How many bytes of a file's end are read at once; most footers are shorter."""
_UNPACK: dict[str, Callable[[IO[bytes]], IO[bytes]]] = {"gz": gzip.open, "bz2": bz2.open}  # type: ignore[dict-item]
_LOGS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
"""The folders in which formats of tables say which files count."""
_PACKED = ("deflate", "lz4", "snappy", "zst")
"""Ways to compress text that an engine reads and this machine may not."""


class UnlistedStore(OSError):
    """The table's store cannot be listed from this machine; only the engine may know it."""


class ListedFiles(Protocol):
    """The listed files of a folder."""

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the files below the folder, in order."""
        ...

    @property
    def log(self) -> str:
        """The table format whose log lies among the files; empty if there is no log."""
        ...


@dataclass(frozen=True, kw_only=True)
class TableFiles:
    """The files of a folder that an engine would read, by their paths below it.

    Attributes:
        folder: the folder's URI.
        names: the paths of the files, in order; hidden ones, which no engine reads, are left out.
        filesystem: the file system of fsspec; None for this machine's.
        log: the table format whose log lies among the files (``log_among``); empty if there is no log.
    """

    folder: str
    names: tuple[str, ...]
    filesystem: Any = None
    log: str = ""

    @classmethod
    def of(cls, place: Place) -> TableFiles:
        """The files below a folder; none if there is no such folder.

        Raises:
            UnlistedStore: the folder cannot be listed from here.
        """
        if place.local is not None:
            names = list(_local_names(place.local))
            return cls(folder=place.local, names=_shown(names), log=log_among(names))
        if not place.identity.startswith(WORKER_SCHEMES):
            raise UnlistedStore("a store that only the engine knows")
        try:
            filesystem = opened(place.folder, what="table.path")
            with as_os_error():
                filesystem.invalidate_cache()
                above = len(str(filesystem._strip_protocol(place.folder)).rstrip("/")) + 1
                names = [str(path)[above:] for path in filesystem.find(place.folder)]
        except (OSError, InvalidRequest):
            raise UnlistedStore("the store does not answer, or not to this machine") from None
        return cls(folder=place.folder, names=_shown(names), filesystem=filesystem, log=log_among(names))

    def open(self, name: str) -> IO[bytes]:
        """A file for reading.

        Raises:
            OSError: the file cannot be read.
        """
        if self.filesystem is None:
            return Path(self.folder, name).open("rb")
        with as_os_error():
            opened_file: IO[bytes] = self.filesystem.open(f"{self.folder}/{name}", "rb", block_size=1 << 16)
        return opened_file

    @property
    def texts(self) -> tuple[str, ...]:
        """The files whose first line can be read here."""
        return tuple(name for name in self.names if name.rpartition(".")[2] not in _PACKED)

    def first_line(self, name: str) -> bytes | None:
        """The first line of a text file, without its end; None if it cannot be read or does not end within a megabyte.

        An empty file, which has no rows and no header, returns ``b""``; an empty line is returned with its end.

        Raises:
            OSError: the store failed.
        """
        damaged = suppress(EOFError, ValueError, zlib.error, gzip.BadGzipFile)
        with self.open(name) as file, as_os_error(), damaged:
            unpack = _UNPACK.get(name.rpartition(".")[2])
            source = file if unpack is None else unpack(file)
            line = source.readline(_MAX_LINE)
            return None if len(line) == _MAX_LINE else line.split(b"\r")[0].rstrip(b"\n") or line[:1]
        return None

    def tail(self, name: str) -> bytes | None:
        """The footer of a Parquet file, after four bytes of magic number and before its length and the magic number.

        None for a file without a footer; an empty file, which engines skip, returns ``b""``.

        Raises:
            OSError: the store failed.
        """
        with self.open(name) as file, as_os_error():
            size = file.seek(0, os.SEEK_END)

            def last(count: int) -> bytes:
                file.seek(max(size - count, 0))
                return file.read()

            return footer_bytes(size, last)

    def below(self, folders: int) -> dict[str, TableFiles]:
        """The files below each folder at the depth ``folders``, by the folder's path."""
        versions: dict[str, list[str]] = {}
        for name in self.names:
            parts = name.split("/")
            if len(parts) > folders:
                versions.setdefault("/".join(parts[:folders]), []).append("/".join(parts[folders:]))
        return {
            version: TableFiles(folder=f"{self.folder}/{version}", names=tuple(names), filesystem=self.filesystem)
            for version, names in versions.items()
        }


def require_all_rows(files: ListedFiles, *, field: str, value: object) -> None:
    """Reject files if not all of them, together, are the rows of one table.

    Raises:
        InvalidRequest: files lie at two depths, or in folders that name no column, so that an engine would leave some
            out; or a log beside the files decides which of them count.
    """
    if files.log:
        raise InvalidRequest(
            field, value, f"must not be the folder of a {files.log} table, whose log says which files count and which "
            "rows were removed",
            "bind it with `--format delta`" if files.log == "Delta" else "write a state of it elsewhere",
        )  # fmt: skip
    names = files.names
    if len({partition_columns(name) for name in names}) > 1 or any(
        "=" not in folder for name in names for folder in name.split("/")[:-1]
    ):
        raise InvalidRequest(
            field, value, "must have all its files at the same depth, in folders named column=value, with the same "
            "column at each level, because other files would silently be left out", "move the files that lie elsewhere",
        )  # fmt: skip


def footer_bytes(size: int, last: Callable[[int], bytes]) -> bytes | None:
    """The footer of a Parquet file, as ``TableFiles.tail`` returns it.

    Args:
        size: the size of the file in bytes.
        last: reads the last bytes of the file, as many as its argument.
    """
    if size == 0:
        return b""
    end = last(min(size, _LIKELY_FOOTER))
    if size < 12 or end[-4:] not in (b"PAR1", b"PARE"):
        return None
    length = int.from_bytes(end[-8:-4], "little") + 8
    if length > size - 4:
        return None
    end = end if len(end) >= length else last(length)
    return b"PAR1" + end[-length:]


def partition_columns(name: str) -> tuple[str, ...]:
    """The columns in the names of a file's folders: ``day`` in ``day=2026-11-21/part-0.parquet``."""
    return tuple(folder.partition("=")[0] for folder in name.split("/")[:-1])


NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of the folder of the rows that have none."""
_ESCAPED, _TO_ESCAPE = re.compile("%([0-9A-Fa-f]{2})"), re.compile("%(?=[0-9A-Fa-f]{2})|[/\0]")


def folder_values(name: str) -> tuple[str | None, ...]:
    """The values in the names of a file's folders as engines read them: ``%XX`` is the character of code XX."""
    values = (folder.partition("=")[2] for folder in name.split("/")[:-1])
    return tuple(
        None if value == NO_VALUE else _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), value) for value in values
    )


def folder_of(column: str, value: str | None) -> str:
    """The shortest name of a folder from which ``folder_values`` reads this value."""
    text = (
        NO_VALUE if value is None else re.sub("%(?=[0-9A-Fa-f]{2})|[/\0]", lambda part: f"%{ord(part[0]):02X}", value)
    )
    return f"{column}={text}"


def log_among(names: Iterable[str]) -> str:
    """The table format whose log is among these files, such as ``Delta``; empty if there is no log."""
    folders = {folder for name in names for folder in name.split("/")[:-1]}
    return next((form for folder, form in _LOGS.items() if folder in folders), "")


def _shown(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if not hidden(name)))


def _local_names(folder: str) -> Iterable[str]:
    def unless_missing(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise UnlistedStore("the folder cannot be listed") from None

    for above, _, files in os.walk(folder, onerror=unless_missing):
        yield from (Path(above, name).relative_to(folder).as_posix() for name in files)
