"""Checks of this machine that run before anything is charged: the salt, Java, and the table's folder."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from contextlib import suppress

from spark_jobs.application.java import java_home
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.jdbc import connection_of
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.salt import read_salt
from spark_jobs.contract.stream_keys import StreamKeys
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.contract.table_request import TableRequest
from spark_jobs.federation.agreement import silo_of
from spark_jobs.federation.own_keys import AgreementClosed, registered_keys


def check_salt(request: TableRequest, environment: Mapping[str, str]) -> None:
    """Refuse a request that needs the salt if the application will not have it.

    Raises:
        InvalidRequest: the salt is missing, too short, or cannot be read.
    """
    if request.unit.column is not None:
        read_salt(environment)


def check_stream_keys(request: TableRequest, environment: Mapping[str, str]) -> None:
    """Refuse a stream if the application will not have the keys that encrypt its state.

    Raises:
        InvalidRequest: the keys are missing, or cannot be read.
    """
    if isinstance(request, StreamRequest):
        StreamKeys.read(environment)


def check_federation(request: TableRequest, environment: Mapping[str, str]) -> None:
    """Refuse a request with a federation if the application will not have this silo's keys.

    Destroyed keys are not refused: a draft that the store has lost can be made again from the stored draw, and without
    a draw the application refuses before it reads a row.

    Raises:
        InvalidRequest: the keys are missing, cannot be read, or are not those of a silo.
    """
    federation = request.federation if isinstance(request, ReleaseRequest) else None
    if federation is not None and federation.agreement is not None:
        with suppress(AgreementClosed):
            silo_of(federation.agreement, registered_keys(environment, federation.name))


DRIVER = ("matplotlib", "numpy", "opendp", "scipy", "threadpoolctl")
"""What a driver imports besides Spark; the Airflow side is installed without it."""


def check_driver(*packages: str, field: str = "runner") -> None:
    """Refuse a driver on this machine if a package that it imports is not installed.

    Raises:
        InvalidRequest: a package is missing; the message names the first one.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise InvalidRequest(
                field, f"a machine without {package}", "needs the Spark side with its engine",
                "install dp-diagnostics[spark] there",
            )  # fmt: skip


def check_database(request: TableRequest, environment: Mapping[str, str]) -> None:
    """Refuse a table of a database that the application will not be allowed to read.

    Raises:
        InvalidRequest: no connection is configured for it, its password cannot be read, or the connection does not
            allow the table.
    """
    if request.table.form == "jdbc":
        connection_of(request.table.place.path, environment).password()


def check_java(environment: Mapping[str, str]) -> None:
    """Refuse a machine without a Java that Spark can use.

    Raises:
        InvalidRequest: Java is missing or too old.
    """
    java_home(environment)


def check_snapshot(request: TableRequest) -> None:
    """Refuse a table whose folder on this machine is missing or empty; tables elsewhere are left to the application.

    A missing partition is not refused: it counts as an empty table, because whether it has rows is private.

    Raises:
        InvalidRequest: the folder is missing or empty.
    """
    folder = request.table.pinned.local
    if folder is not None and _is_missing_or_empty(folder):
        raise InvalidRequest("table.path", folder, "must be a table that exists", "check the path and its version")


def _is_missing_or_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return not any(entries)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # a folder that this user may not list may still hold a table
        return False
