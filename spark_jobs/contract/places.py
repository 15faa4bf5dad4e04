"""Where a table or a release lies: each place has exactly one name, which alone determines the path that is read.

A request names its table by text, an account is bound to a table, and Spark reads a path. If each understood the text
in its own way, a request could be charged to one table and read another. So text is parsed here and nowhere else, and
whatever two programs could understand in two ways is rejected: relative paths, ``.`` and ``..``, ``#``, ``?`` and
``%``, patterns, control characters, and accented letters that are not in Unicode's composed form.

===========================  ================================================================================
text                         place
===========================  ================================================================================
``/lake/t``                  ``file:///lake/t``, as are ``file:/lake/t`` and ``file://localhost/lake//t/``
``s3a://bucket/t``           ``s3://bucket/t``, as is ``s3n://bucket/t``; Spark is given ``s3a://bucket/t``
``HDFS://Name:8020/t``       ``hdfs://name/t``; any other port stays
``gs://``, ``abfss://``      as they are; ``abfs://`` is ``abfss://``
``catalog:Sales.Visits``     ``catalog:spark_catalog.sales.visits``: the first of three parts names the catalog
``jdbc:lake.public.visits``  as it is, case kept: a connection of the administrator's, a schema and a table
===========================  ================================================================================

Other schemes are rejected: they would be second names for the same files (``webhdfs``, ``viewfs``), or do not belong to
a data lake.
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass

from spark_jobs.contract.errors import InvalidRequest

CATALOG = "catalog:"
DATABASE = "jdbc:"
_DEFAULT_CATALOG = "spark_catalog"
_SCHEMES = {
    "file": "file",
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "hdfs": "hdfs",
    "gs": "gs",
    "abfs": "abfss",
    "abfss": "abfss",
}
# the scheme for which Hadoop has a connector without further settings
_READ_AS = {"s3": "s3a"}
_DEFAULT_PORTS = {"hdfs": ":8020"}

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)(//[^/]*)?(/.*)?")
_AUTHORITIES = {
    "file": (re.compile(r"(?:localhost)?", re.IGNORECASE), "no host but this one", "file:///lake/visits"),
    "s3": (re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"), "a bucket, in lower case", "s3://bucket/visits"),
    "gs": (re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?"), "a bucket, in lower case", "gs://bucket/visits"),
    "hdfs": (
        re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(:[1-9][0-9]{0,4})?"),
        "a name node or name service",
        "hdfs://namenode/lake/visits",
    ),
    "abfss": (
        re.compile(r"[A-Za-z0-9-]+@[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"),
        "a container and an account",
        "abfss://container@account.dfs.core.windows.net/visits",
    ),
}
_PATTERNS = "*?{}[]\\"
_NAME = re.compile(r"[A-Za-z0-9_$-]+")
_CATALOG_PARTS = 8
_SELECTOR = re.compile(r"(branch|tag)_.*|(at_timestamp|snapshot_id)_[0-9]+", re.IGNORECASE)
"""What Iceberg takes, as the part after a table's name, for one of its states: those of branches and tags change."""
_DATABASE_TABLE = re.compile(r"jdbc:[a-z0-9][a-z0-9_-]*(\.[A-Za-z_][A-Za-z0-9_$]*){2}")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A folder of a lake or of a store of releases, or a table of a catalog.

    Attributes:
        identity: its only name; accounts are bound to it, and the ledger compares it.
        path: what Spark reads: a URI, or the full name of a catalog's table.
    """

    identity: str
    path: str

    @classmethod
    def parse(cls, text: str, *, what: str = "path") -> Place:
        """The place that ``text`` names: an absolute path, a URI, or ``catalog:`` or ``jdbc:`` and a table's name.

        Args:
            text: what a user wrote.
            what: the field that contains it, for messages.

        Raises:
            InvalidRequest: the text does not name a place, or could be understood in more than one way.
        """
        if text.lower().startswith(CATALOG):
            return cls.of_catalog(text[len(CATALOG) :], what=what)
        if text.startswith(DATABASE):
            return cls.of_database(text, what=what)
        return cls.of_folder(text, what=what)

    @classmethod
    def of_folder(cls, text: str, *, what: str = "path") -> Place:
        """The folder that ``text`` names, an absolute path or a URI.

        Raises:
            InvalidRequest: as for ``parse``.
        """
        _require_plain(text, what)
        match = _URI.fullmatch(text)
        if match is None and (not text.startswith("/") or text.startswith("//")):
            raise InvalidRequest(
                what, text, "must be an absolute path or a URI", "write it like /lake/visits or s3://lake/visits"
            )
        written, authority, path = ("file", None, text) if match is None else match.groups()
        scheme = _SCHEMES.get(written.lower())
        if scheme is None:
            raise InvalidRequest(
                what, text, f"must be a path or a URI of {', '.join(sorted(set(_SCHEMES)))}",
                "name the folder by one of these",
            )  # fmt: skip
        segments = [segment for segment in (path or "").split("/") if segment]
        if "." in segments or ".." in segments:
            raise InvalidRequest(
                what, text, "must not contain '.' or '..' as the name of a folder", "write the path without them"
            )
        return cls._of(scheme, _authority(scheme, authority, text, what), segments)

    @classmethod
    def of_catalog(cls, name: str, *, what: str = "name") -> Place:
        """The place of a catalog's table, e.g. ``sales.visits`` or ``lake.sales.visits``; case does not matter.

        A name of two parts belongs to Spark's own catalog, ``spark_catalog``, whatever a session's default catalog is.

        Raises:
            InvalidRequest: ``name`` is not the name of a catalog's table.
        """
        parts = name.split(".")
        plain = all(_NAME.fullmatch(part) for part in parts) and 2 <= len(parts) <= _CATALOG_PARTS
        if not plain or (len(parts) == 2 and parts[0].lower() == _DEFAULT_CATALOG):
            raise InvalidRequest(
                what, name, "must be a name such as sales.visits, or with its catalog such as lake.sales.visits",
                "name the table's database too, in letters, digits, _, $ and -",
            )  # fmt: skip
        if len(parts) > 3 and _SELECTOR.fullmatch(parts[-1]):
            raise InvalidRequest(
                what, name, "must not end in a part that Iceberg reads as a branch, a tag or a time of a table",
                "name the table itself, and pin a snapshot by its number in snapshot.table_version",
            )  # fmt: skip
        full = ".".join([_DEFAULT_CATALOG, *parts] if len(parts) == 2 else parts).lower()
        return cls(identity=f"{CATALOG}{full}", path=full)

    @classmethod
    def of_database(cls, text: str, *, what: str = "name") -> Place:
        """The place of a database's table, such as ``jdbc:warehouse.public.visits``; case matters, as in the database.

        Raises:
            InvalidRequest: ``text`` is not such a name.
        """
        if not _DATABASE_TABLE.fullmatch(text):
            raise InvalidRequest(
                what, text, "must name a connection, a schema and a table",
                "write it like jdbc:warehouse.public.visits",
            )  # fmt: skip
        return cls(identity=text, path=text.removeprefix(DATABASE))

    @classmethod
    def _of(cls, scheme: str, authority: str, segments: list[str]) -> Place:
        rest = f"://{authority}/{'/'.join(segments)}"
        return cls(identity=f"{scheme}{rest}", path=f"{_READ_AS.get(scheme, scheme)}{rest}")

    def below(self, version: str, *, what: str = "path_version") -> Place:
        """The folder below this one at the plain relative path ``version``, such as ``v3`` or ``2026/11/21``.

        Raises:
            InvalidRequest: ``version`` is not such a path.
        """
        require_relative(version, what)
        add = version if self.identity.endswith("/") else f"/{version}"
        return Place(identity=f"{self.identity}{add}", path=f"{self.path}{add}")

    def contains(self, other: Place) -> bool:
        """Whether ``other`` is this place or lies below it."""
        end = "." if self.identity.startswith((CATALOG, DATABASE)) else "/"
        return f"{other.identity.rstrip(end)}{end}".startswith(f"{self.identity.rstrip(end)}{end}")

    def overlaps(self, other: Place) -> bool:
        """Whether one of the two contains the other."""
        return self.contains(other) or other.contains(self)

    @property
    def local(self) -> str | None:
        """The path on this machine, if the place is on a mounted file system; else None."""
        return self.identity.removeprefix("file://") if self.identity.startswith("file://") else None

    @property
    def folder(self) -> str:
        """The place as a store of releases names it: the path on this machine, or else the identity."""
        return self.identity if self.local is None else self.local

    def resolved(self, *, what: str = "path") -> Place:
        """The place with the symbolic links of this machine resolved; itself if there are none or it is not local.

        Raises:
            InvalidRequest: the links lead to a folder whose path is not allowed.
        """
        return self if self.local is None else Place.parse(os.path.realpath(self.local), what=what)

    def require_real(self, *, what: str = "path") -> None:
        """Reject a place on this machine whose path has a symbolic link: it would be a second name of another place.

        Raises:
            InvalidRequest: the place's path has a symbolic link.
        """
        if self.local is not None and os.path.realpath(self.local) != self.local:
            raise InvalidRequest(
                what, self.identity, "must not lead through a symbolic link",
                "name the folder itself, because the ledger knows it by that name alone",
            )  # fmt: skip


def require_relative(version: str, what: str) -> None:
    """Reject anything but a plain relative path below a folder.

    Raises:
        InvalidRequest: ``version`` is not such a path.
    """
    _require_plain(version, what)
    if any(segment in ("", ".", "..") for segment in version.split("/")):
        raise InvalidRequest(
            what, version, "must be a plain relative path below the table's path", "write it like 'v3' or '2026/11/21'"
        )


def _require_plain(text: str, what: str) -> None:
    """Reject characters that are not part of a name to all of Python, Hadoop and Spark's readers."""
    spaced = any(segment != segment.strip() for segment in text.split("/"))
    if not text or not text.isprintable() or spaced or text != unicodedata.normalize("NFC", text):
        raise InvalidRequest(
            what, text, "must be printable text in Unicode's composed form (NFC), with no spaces around the names of "
            "folders", "correct the path, or rename the folder",
        )  # fmt: skip
    # a pattern would read several versions together, and a person more than once
    if any(character in text for character in f"{_PATTERNS}#%"):
        raise InvalidRequest(
            what, text, f"must not contain any of {' '.join(_PATTERNS)} # %",
            "name one folder as it is, without patterns and escapes",
        )  # fmt: skip


def _authority(scheme: str, written: str | None, text: str, what: str) -> str:
    """The host, bucket or container of a URI, in its canonical spelling."""
    pattern, description, example = _AUTHORITIES[scheme]
    authority = (written or "//")[2:]
    if not pattern.fullmatch(authority):
        raise InvalidRequest(what, text, f"must name {description}", f"write it like {example}")
    if scheme == "file":
        return ""
    return authority.lower().removesuffix(_DEFAULT_PORTS.get(scheme, "//"))
