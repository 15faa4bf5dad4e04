"""Reads the metadata of an Iceberg table on this machine, to find which files make up a snapshot of the table.

A snapshot never changes, so every read gives the same files. Metadata and manifests are read by pyiceberg; their
statistics of rows are not used. Columns are identified by their numbers, whatever their names in a file. Tables with
features that are not read here, such as delete files, are refused by their metadata, and never by a row. Metadata name
files by absolute paths, which whoever can write to the store can choose. So a path is read only if it lies in the
table's folder. Source: the Iceberg table specification, https://iceberg.apache.org/spec/.
"""

from __future__ import annotations

import gzip
import io
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.delta_log import UNREADABLE_VERSION, read_small
from spark_jobs.contract.store.layout import MAX_MANIFEST

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_DAMAGED = "must have metadata that are intact", "let the program that writes the table check it"
_METADATA = re.compile(r"(?:v(\d+)|(\d+)-[^/]+?)(\.gz)?\.metadata\.json(\.gz)?")
_TYPES = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
_PLAIN = ("boolean", "int", "float", "double", "date", "string")
_LOCAL = re.compile(r"(?:file:(?://)?)?(/(?!/)[^\x00-\x1f?#]*)")
"""A path of this machine as Iceberg writes it, of which no reader of URLs takes a part for something else."""
_MAX_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class IcebergVersion:
    """A snapshot of an Iceberg table.

    Attributes:
        types: the types of its columns as bindings spell them, by name; ``nested`` for types without a spelling.
        numbers: Iceberg's number (field id) of each column, by name.
        of_partitions: the numbers of the columns by which its files are partitioned.
        files: its files, by their paths below the table's folder.
    """

    types: Mapping[str, str]
    numbers: Mapping[str, int]
    of_partitions: frozenset[int]
    files: tuple[str, ...]

    @classmethod
    def of(cls, folder: str, snapshot: int) -> IcebergVersion:
        """The snapshot with the number ``snapshot`` of the table in ``folder``.

        Raises:
            InvalidRequest: there is no such table or snapshot, one of its files is gone, its metadata are damaged or
                have features that are not read here, or pyiceberg is not installed.
        """
        _require_reader()
        try:
            version = cls._read(Path(folder), snapshot)
        except InvalidRequest:
            raise
        except OSError:
            raise InvalidRequest("table.path", folder, *UNREADABLE_VERSION) from None
        except Exception:  # its reader raises whatever a damaged file leads it to, with what is in the file
            raise InvalidRequest("table.path", folder, *_DAMAGED) from None
        if not all(Path(folder, name).is_file() for name in version.files):
            raise InvalidRequest("table.path", folder, *UNREADABLE_VERSION)
        return version

    @classmethod
    def _read(cls, folder: Path, number: int) -> IcebergVersion:
        metadata, snapshot = _metadata_with(folder, number)
        if metadata.format_version > _MAX_FORMAT:
            raise _refused(f"be of version {_MAX_FORMAT} of the format or below")
        current = snapshot.schema_id if snapshot.schema_id is not None else metadata.current_schema_id
        fields = next(schema for schema in metadata.schemas if schema.schema_id == current).fields
        parted = (part.source_id for spec in metadata.partition_specs for part in spec.fields)
        return cls(
            types={field.name: _type_of(str(field.field_type)) for field in fields},
            numbers={field.name: field.field_id for field in fields},
            of_partitions=frozenset(parted),
            files=tuple(sorted(set(_files_of(folder, snapshot)))),
        )

    def fault_of(self, folder: str, name: str, column: str) -> str | None:
        """Why reading ``column`` by name from a file is wrong; None if it is right, or the file lacks the column.

        Raises:
            InvalidRequest: the file cannot be read.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            schema = pq.read_schema(Path(folder, name))
        except (OSError, ValueError, pa.ArrowException):  # a name may be no text
            raise InvalidRequest("table.path", folder, *_DAMAGED) from None
        of_file = [(field.name.lower(), (field.metadata or {}).get(b"PARQUET:field_id")) for field in schema]
        number = str(self.numbers[column]).encode()
        # engines take a name in any case
        named = [one for spelled, one in of_file if spelled == column.lower()]
        if named:
            return None if named == [number] else "another column under this name"
        if number in [one for _, one in of_file]:
            return "it under another name"
        return "none, but its folder's value" if self.numbers[column] in self.of_partitions else None


def _require_reader() -> None:
    try:
        import pyiceberg  # noqa: F401
    except ImportError:
        raise InvalidRequest(
            "table.format", "iceberg", "needs pyiceberg with the embedded engine", "install dp-diagnostics[iceberg]"
        ) from None


def _metadata_with(folder: Path, number: int) -> tuple[TableMetadata, Snapshot]:
    """The table's last metadata, and the snapshot in them.

    Raises:
        OSError: there are none, or they do not have it.
    """
    from pyiceberg.table.metadata import TableMetadataUtil

    numbered: dict[int, list[Path]] = {}
    for file in sorted((folder / "metadata").iterdir()):
        if (named := _METADATA.fullmatch(file.name)) is not None:
            numbered.setdefault(int(named[1] or named[2]), []).append(file)
    for file in numbered[max(numbered)] if numbered else ():
        content = read_small(file)
        if ".gz" in file.suffixes:
            with gzip.open(io.BytesIO(content)) as packed:
                content = packed.read(MAX_MANIFEST)  # of more, the rest is missing
        metadata = TableMetadataUtil.parse_raw(content.decode())
        snapshot = metadata.snapshot_by_id(number)
        if snapshot is not None:
            return metadata, snapshot
    raise FileNotFoundError(number)


def _files_of(folder: Path, snapshot: Snapshot) -> Iterator[str]:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent

    class FolderFiles(PyArrowFileIO):
        """Files of the table's folder; without settings of the table, which could name a program or a server."""

        def new_input(self, location: str) -> Any:
            file = folder / _below(folder, location)
            if not stat.S_ISREG(file.lstat().st_mode):
                raise FileNotFoundError(location)
            return super().new_input(str(file))

    files = FolderFiles()
    for manifest in snapshot.manifests(files):
        if manifest.content == ManifestContent.DELETES:
            raise _refused("be without files of deletes, as `write.delete.mode` copy-on-write leaves it")
        for entry in manifest.fetch_manifest_entry(files, discard_deleted=True):
            if entry.data_file.file_format != FileFormat.PARQUET or entry.data_file.content != DataFileContent.DATA:
                raise _refused("have all rows in files of Parquet")
            yield _below(folder, entry.data_file.file_path)


def _below(folder: Path, path: Any) -> str:
    """A path below the table's folder, relative to it."""
    named = _LOCAL.fullmatch(str(path))
    local = Path(named[1]) if named else Path()
    if not local.is_absolute() or ".." in local.parts or not local.is_relative_to(folder):
        raise _refused("have its files in its own folder, where it was written")
    return str(local.relative_to(folder))


def _type_of(written: str) -> str:
    if written.startswith("decimal("):
        return written.replace(" ", "")
    return _TYPES.get(written, written if written in _PLAIN else "nested")


def _refused(requirement: str) -> InvalidRequest:
    return InvalidRequest(
        "table.format", "iceberg", f"must {requirement}, with the embedded engine",
        "write a copy of the table without, or run it on Spark with Iceberg's connector",
    )  # fmt: skip
