"""Whether this machine can run the embedded engine; nothing is imported or started to find out."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version

from spark_jobs.contract.embedded_engine import EMBEDDED
from spark_jobs.contract.errors import InvalidRequest

PACKAGE, RELEASE = "pysail", "0.7.2"
"""The engine, and the release of it that is proved to count as Spark does."""
CLIENTS = ("4.2.", "4.3.")
"""The beginnings of the versions of PySpark with which it is."""
PYSPARK, PYSPARK_CLIENT = "pyspark", "pyspark-client"
"""The distributions that bring the package ``pyspark``: with Spark, and the same files without it."""
MIN_MEMORY = 2**30
"""Below these bytes of memory the engine, its client and a report do not fit together."""
REMEDY = "name another master, such as local[*], which runs Spark"


def require_engine() -> None:
    """Refuse a machine that cannot run the embedded engine.

    Raises:
        InvalidRequest: this is not Linux, no temporary folder can be written to, the machine has too little memory, or
            a package is missing or has a version that was never shown to count as Spark does.
    """
    require_one_pyspark()
    if sys.platform != "linux":
        raise InvalidRequest(
            "master", EMBEDDED, "needs Linux, where its process can be protected from other users", REMEDY
        )
    try:
        tempfile.gettempdir()
    except OSError:
        raise InvalidRequest(
            "TMPDIR",
            None,
            "must name a folder that can be written to",
            "set it to such a folder, or make /tmp writable",
        ) from None
    if (memory := machine_memory()) < MIN_MEMORY:
        raise InvalidRequest(
            "master", EMBEDDED,
            f"needs {MIN_MEMORY // 2**20} MiB of memory, and this machine has {memory // 2**20}",
            "run it on a larger machine",
        )  # fmt: skip
    engine, client = _version(PACKAGE), installed_pyspark()[1]
    missing = [] if engine == RELEASE else [(f"{PACKAGE} {RELEASE}", engine)]
    if client is None or not client.startswith(CLIENTS) or importlib.util.find_spec("grpc_status") is None:
        known = " or ".join(f"{one}x" for one in CLIENTS)
        missing.append((f"PySpark {known} with its client", client))
    if missing:
        needed = " and ".join(what for what, _ in missing)
        there = " and ".join(present or "none" for _, present in missing)
        raise InvalidRequest(
            "master", EMBEDDED, f"needs {needed}, and this machine has {there}",
            f"install dp-diagnostics[embedded], or dp-diagnostics[local] without Spark, or {REMEDY}",
        )  # fmt: skip


def machine_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_one_pyspark() -> None:
    """Refuse a machine where two distributions bring the package ``pyspark`` in different versions.

    Raises:
        InvalidRequest: both distributions are installed, in different versions, so that their files are mixed.
    """
    full, client = _version(PYSPARK), _version(PYSPARK_CLIENT)
    if full is not None and client is not None and full != client:
        raise InvalidRequest(
            "pyspark", f"{PYSPARK} {full} and {PYSPARK_CLIENT} {client}",
            "must be only one of the two packages, or both in the same version, because both install the same files",
            f"in a new environment, install only one of them, or {PYSPARK}=={client} beside the other",
        )  # fmt: skip


def require_spark() -> None:
    """Refuse a machine that has PySpark's client alone, without Spark.

    Raises:
        InvalidRequest: only the client is installed.
    """
    if installed_pyspark()[0] == PYSPARK_CLIENT:
        raise InvalidRequest(
            "runner", f"a machine with {PYSPARK_CLIENT}, which has no Spark", "needs Spark",
            "install dp-diagnostics[spark,java] in a new environment",
        )  # fmt: skip


def installed_pyspark() -> tuple[str, str | None]:
    """The distribution that brings the package ``pyspark`` here, and its version; None if none does."""
    full, client = _version(PYSPARK), _version(PYSPARK_CLIENT)
    return (PYSPARK_CLIENT, client) if full is None and client is not None else (PYSPARK, full)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
