"""The Spark session of a release on a Spark Connect server, whose own settings must keep private values inside."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from spark_jobs.contract.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE_VARIABLE = "SPARK_REMOTE"
"""The environment variable in which PySpark takes the server's address."""
SERVER_SETTINGS = {
    "spark.ui.enabled": ("true", "false"),
    "spark.eventLog.enabled": ("false", "false"),
    "spark.io.encryption.enabled": ("false", "true"),
}
"""Settings that only a server's start can set: what Spark takes by default, and what a release needs."""


def connects(master: str | None) -> bool:
    """Whether the session is one of a Spark Connect server; it is not if a master is named."""
    return master is None and REMOTE_VARIABLE in os.environ


def open_remote_session(settings: Mapping[str, str]) -> SparkSession:
    """A session of the Spark Connect server that the environment names, with these SQL settings.

    When this process is asked to end, the session ends first, and with it the server's work for the session.

    Raises:
        InvalidRequest: the server does not answer, or its settings would show rows outside the boundary.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        spark = SparkSession.builder.appName("dp-diagnostics").getOrCreate()
        for name, value in settings.items():
            spark.conf.set(name, value)
        given = {name: spark.conf.get(name, default) for name, (default, _) in SERVER_SETTINGS.items()}
    except PySparkException:
        raise InvalidRequest(
            "spark_conn_id", None, "must be a Spark Connect server that answers", "check its state"
        ) from None
    wrong = [f"{name}={needed}" for name, (_, needed) in SERVER_SETTINGS.items() if given[name] != needed]
    if wrong:
        spark.stop()
        raise InvalidRequest(
            "spark_conn_id", None, f"must be a Spark Connect server that was started with {' and '.join(wrong)}",
            "start the server with these settings, because no client can set them",
        )  # fmt: skip
    signal.signal(signal.SIGTERM, _leave)
    return spark


def _leave(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)
