"""Spark's errors about a table, replaced by one line of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import EMPTY
from spark_jobs.contract.store.delta_log import UNREADABLE_VERSION as UNREADABLE_VERSION
from spark_jobs.tables.java_errors import JAVA_ERRORS

_ERRORS: tuple[type[Exception], ...] = (PySparkException, *JAVA_ERRORS)
_DAMAGED = "must contain only intact files of its format", "find the damaged file, or one that may not be read"
_REFUSALS = {
    "PATH_NOT_FOUND": ("must be a table that exists", "check the path and its version"),
    "UNABLE_TO_INFER_SCHEMA": EMPTY,
    "TABLE_OR_VIEW_NOT_FOUND": ("must be a table that exists", "check its name in the catalog"),
    "CATALOG_NOT_FOUND": (
        "must be a table of a catalog that Spark knows by the first part of the name",
        "check the name, or configure the catalog by spark.sql.catalog and its name",
    ),
    "SCHEMA_NOT_FOUND": ("must be a table that exists", "check its name in the catalog"),
    "UNSUPPORTED_FEATURE.TIME_TRAVEL": (
        "must be a table that keeps its versions, to be pinned by table_version",
        "pin it by snapshot.partition",
    ),
    "DATA_SOURCE_NOT_FOUND": (
        "must be of a format that Spark can read",
        "add the connector of its format by spark.jars; the master embedded reads Delta tables of one machine",
    ),
    "CANNOT_MERGE_SCHEMAS": ("must have one type for each column in all its files", "write the files again"),
    "COLUMN_ALREADY_EXISTS": ("must have column names that differ in more than case", "rename one of them"),
    "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER": _DAMAGED,
    "FAILED_READ_FILE.NO_HINT": _DAMAGED,
}
_NO_FILE_SYSTEM = ("No FileSystem for scheme", "ClassNotFoundException: Class ")
_NO_STORE = "must be in a store that Spark can read", "add the connector of its scheme by spark.jars, or to the cluster"
UNREADABLE = ("must be a table that can be read", "check its address, its format and the permission to read it")


@contextmanager
def refusing(field: str, given: object, *, unreadable: tuple[str, str] = UNREADABLE) -> Iterator[None]:
    """Replace Spark's errors by one line of our own, because Spark's messages may quote what was read."""
    try:
        yield
    except _ERRORS as error:
        bound, remedy = next((_REFUSALS[name] for name in _conditions(error) if name in _REFUSALS), unreadable)
        if any(words in str(error) for words in _NO_FILE_SYSTEM):
            bound, remedy = _NO_STORE
        raise InvalidRequest(field, given, bound, remedy) from None


def _conditions(error: Exception) -> list[str]:
    """The names of Spark's error conditions in ``error``, outermost first."""
    return re.findall(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\]", str(error))
