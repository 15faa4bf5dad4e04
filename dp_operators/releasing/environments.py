"""What the machine of a release has to have, looked at before anything is charged."""

from __future__ import annotations

import os
from collections.abc import Mapping

from spark_jobs.application.java import java_home
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.contract.salt import read_salt


def check_salt(request: ReleaseRequest, environment: Mapping[str, str]) -> None:
    """Refuse a request that needs the salt, where the application will have none.

    Raises:
        InvalidRequest: it has none, or one that is too short or cannot be read.
    """
    if request.unit.column is not None:
        read_salt(environment)


def check_java(environment: Mapping[str, str]) -> None:
    """Refuse a machine without a Java that Spark can use.

    Raises:
        InvalidRequest: it has none, or one that is too old.
    """
    java_home(environment)


def check_snapshot(request: ReleaseRequest) -> None:
    """Refuse a folder of this machine that is not there; where tables lie elsewhere, the application looks first.

    A partition that is not there is an empty table: that it is not would be an answer about rows.

    Raises:
        InvalidRequest: there is no such folder, or nothing in it.
    """
    folder = request.table.pinned.local
    if folder is None:
        return
    try:
        if any(os.scandir(folder)):
            return
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:  # who may not look cannot tell
        return
    raise InvalidRequest(
        "table.path",
        value=folder,
        requirement="must be a table that exists",
        remedy="check the path and its version",
    )
