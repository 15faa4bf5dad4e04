"""Whether this machine can run the embedded engine; nothing is imported or started to find out."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version

from spark_jobs.contract.embedded_engine import EMBEDDED
from spark_jobs.contract.errors import InvalidRequest

PACKAGE, RELEASE = "pysail", "0.7.2"
"""The engine, and the release of it that is proved to count as Spark does."""
CLIENTS = ("4.3.",)
"""The beginnings of the versions of PySpark with which it is."""
REMEDY = "name another master, such as local[*], which runs Spark"


def require_engine() -> None:
    """Refuse a machine that cannot run the embedded engine.

    Raises:
        InvalidRequest: this is not Linux, no folder is temporary, or a package is missing or of a version that
            nothing was proved of.
    """
    if sys.platform != "linux":
        raise InvalidRequest("master", EMBEDDED, "needs Linux, where other users can be kept from it", REMEDY)
    try:
        tempfile.gettempdir()
    except OSError:
        raise InvalidRequest(
            "TMPDIR", None, "must name a folder that can be written to", "set it, or make /tmp so"
        ) from None
    engine, client = _version(PACKAGE), _version("pyspark")
    missing = [] if engine == RELEASE else [(f"{PACKAGE} {RELEASE}", engine)]
    if client is None or not client.startswith(CLIENTS) or importlib.util.find_spec("grpc_status") is None:
        missing.append((f"PySpark {CLIENTS[0]}x with its client", client))
    if missing:
        needed = " and ".join(what for what, _ in missing)
        there = " and ".join(present or "none" for _, present in missing)
        raise InvalidRequest(
            "master", EMBEDDED, f"needs {needed}, and this machine has {there}",
            f"install dp-diagnostics[embedded], or {REMEDY}",
        )  # fmt: skip


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
