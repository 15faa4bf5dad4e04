"""Checks of a table's files before a charge: by names, first lines and footers, never by a row.

A worker and the application make the same checks, each as far as it can list and open the files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol
from urllib.parse import unquote

from spark_jobs.contract.binding import Format
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.first_line import fault_of, header_names, text_of
from spark_jobs.contract.footers import DamagedFile, Footer, common_types, footer_of, require_readable, require_types
from spark_jobs.contract.store.table_files import TableFiles, folder_values, partition_columns, require_all_rows
from spark_jobs.contract.tables import TableSource

FILES: tuple[Format, ...] = ("parquet", "orc", "csv", "json")
"""The formats of tables that are folders of files, which nothing but their names puts together."""
HEADER = (
    "must contain csv files that all begin with the same header line of the table's column names",
    "write the column names into the first line of each file, in the order of the account's binding",
)
"""What is said of every wrong header: which name is missing would answer a question about the first line."""
DAMAGED = ("must contain only intact files of its format", "find the damaged file, or one that may not be read")
EMPTY = ("must be a table with files in it", "check the path and its version")
_AT_ONCE = 16


class FootedFiles(Protocol):
    """Files whose footers can be read."""

    def tail(self, name: str) -> bytes | None:
        """The footer of a file, as ``store.table_files.footer_bytes`` returns it."""
        ...


def check_files(source: TableSource) -> None:
    """Reject a table whose files, if they can be listed from here, could not be read or would be read only in part.

    Raises:
        InvalidRequest: files lie at two depths, a header is not the bound one, or a footer shows a file that no engine
            can read or types that no cast reconciles.
    """
    if source.form not in FILES or source.path is None:
        return
    try:
        files = TableFiles.of(source.pinned)
        require_all_rows(files, field="table.path", value=source.path)
        names = pinned_names(source, files.names)
        if source.form == "parquet":
            check_footers(source, footers_of(source, files, names))
        elif source.form == "csv":
            _check_headers(source, replace(files, names=names))
    except OSError:
        return  # what cannot be listed or opened here, the application looks at


def column_names(source: TableSource) -> tuple[str, ...]:
    """The names of the columns in a table's files; empty if the files cannot be listed or opened from here.

    The first line of a csv file is used only if it has all bound names: any other might be a person's row.
    """
    if source.form not in ("parquet", "csv") or source.path is None:
        return ()
    try:
        files = TableFiles.of(source.pinned)
        names = pinned_names(source, files.names)
        if source.form == "parquet":
            footers = footers_of(source, files, names[:_AT_ONCE])
            return tuple(dict.fromkeys(name for footer in footers.values() for name in footer.types))
        form, texts = source.file_form or FileForm(), replace(files, names=names).texts
        header = header_names(text_of(files.first_line(texts[0]) or b"", form.encoding) or "", form) if texts else []
    except (OSError, InvalidRequest):
        return ()
    folders = partition_columns(names[0])
    bound = {column.name for column in source.columns or ()} - set(folders)
    return tuple(header) if bound and bound <= set(header) else ()


def pinned_names(source: TableSource, names: Iterable[str]) -> tuple[str, ...]:
    """The files of the pinned partition; all of them where a version is a folder."""
    # in a draft, the number 1 pins a folder named 01 too
    pinned = (source.snapshot.partition or {}).items()
    pins = {name.lower(): value for name, value in pinned if isinstance(value, str)}

    def is_pinned(path: str) -> bool:
        columns = (unquote(column).lower() for column in partition_columns(path))
        values = dict(zip(columns, folder_values(path), strict=True))
        return all(values.get(name, value) == value for name, value in pins.items())

    return tuple(name for name in names if is_pinned(name))


def footers_of(source: TableSource, files: FootedFiles, names: Sequence[str]) -> dict[str, Footer]:
    """The footers of Parquet files, by the files' names; empty files are left out.

    Raises:
        InvalidRequest: a file has no footer, or all files are empty.
        OSError: the store failed.
    """
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            tails = dict(zip(names, pool.map(files.tail, names), strict=True))
        footers = {name: footer_of(tail or b"") for name, tail in tails.items() if tail != b""}
    except DamagedFile:
        raise InvalidRequest("table.path", source.path, DAMAGED[0], DAMAGED[1]) from None
    if names and not footers:
        raise InvalidRequest("table.path", source.path, EMPTY[0], EMPTY[1])
    return footers


def require_no_links(source: TableSource) -> None:
    """Reject symbolic links in a table's folder: they may lead to another table, or to the same rows twice.

    Raises:
        InvalidRequest: the folder contains a link.
    """
    folders = [] if source.pinned.local is None else [source.pinned.local]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                members = list(entries)
        except OSError:
            continue  # an engine reports what cannot be read
        if any(entry.is_symlink() for entry in members):
            raise InvalidRequest(
                "table.path", source.path, "must be a folder without symbolic links in it",
                "replace the links by the files",
            )  # fmt: skip
        folders += [entry.path for entry in members if entry.is_dir(follow_symlinks=False)]


def check_footers(source: TableSource, footers: Mapping[str, Footer]) -> None:
    """Reject Parquet files that no engine reads, or whose types no cast reconciles with the bound ones.

    Raises:
        InvalidRequest: names the codec, or the column and its types.
    """
    require_readable(tuple(footers.values()), field="table.path", value=source.path)
    if source.columns is None:
        common_types(footers.values())
    else:
        folders = {folder for name in footers for folder in partition_columns(name)}
        require_types(footers.values(), source.columns, folders=folders)


def _check_headers(source: TableSource, files: TableFiles) -> None:
    form = source.file_form or FileForm()
    folders = {folder.lower() for folder in partition_columns(files.names[0])} if files.names else set()
    wanted = [column.name for column in source.columns or () if column.name.lower() not in folders]
    lines = [files.first_line(name) for name in files.texts]
    # a file without a byte has no rows; but some file must have a header
    for line in [line for line in lines if line != b""] or lines[:1]:
        names = header_names(text_of(line or b"", form.encoding) or "", form)
        if fault_of(line, form) is not None or (source.is_bound and names != wanted):
            raise InvalidRequest("table.path", source.path, HEADER[0], HEADER[1])
