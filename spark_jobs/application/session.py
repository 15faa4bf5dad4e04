"""The Spark session of a release, which shows no private values outside the application."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from spark_jobs.application.connect import connects, open_remote_session
from spark_jobs.application.java import java_home
from spark_jobs.application.progress import Announcer
from spark_jobs.contract.embedded_engine import EMBEDDED
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.store.failpoints import failpoint
from spark_jobs.contract.store.layout import ApplicationStage
from spark_jobs.statistics.spark.settings import SESSION_SETTINGS

if TYPE_CHECKING:
    from subprocess import Popen

    from pyspark.sql import SparkSession

Rows = TypeVar("Rows")

BOUNDARY_SETTINGS = {
    # Spark would show or store private rows outside the application
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.io.encryption.enabled": "true",
    # an ANSI error quotes the value that caused it, and reveals that such a value exists
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings that keep raw values inside the application; a submitter's own settings do not override them."""
SQL_SETTINGS = {name: value for name, value in BOUNDARY_SETTINGS.items() if ".sql." in name}
"""Those of them that a session of a server has."""


_GATEWAY_OBJECTS = ("t", "j", "GATEWAY_SERVER")
"""The names of the gateway's own objects: its entry point, its view of Java, and itself."""


def under_spark_submit() -> bool:
    """Whether ``spark-submit`` started this process, and so chose the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(master: str | None) -> SparkSession:
    """The session: on ``master``, on a Spark Connect server, where ``spark-submit`` decided, or on all cores here.

    Raises:
        InvalidRequest: no usable Java, or the master cannot be reached.
        PySparkException: Java has ended.
    """
    if connects(master):
        return open_remote_session(SQL_SETTINGS)
    _prepare_environment()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("dp-diagnostics")
    if not under_spark_submit():
        master = master or "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for name, value in {**SESSION_SETTINGS, **BOUNDARY_SETTINGS}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkException as failed:
        if failed.getCondition() == "JAVA_GATEWAY_EXITED":
            raise  # Java was killed, or had no memory: no fault of the request, and another attempt may succeed
        raise InvalidRequest(
            "master", master, "must be a Spark master that answers", "check its address and state"
        ) from None


def start_java() -> Popen[bytes]:
    """Start the Java process to which the sessions of this process's forks connect, one after the other.

    It ends with the last of these processes, because its standard input is closed then.

    Raises:
        InvalidRequest: no usable Java.
        PySparkException: Java has ended.
    """
    _prepare_environment()
    from pyspark.conf import SparkConf
    from pyspark.java_gateway import launch_gateway

    settings = {**SESSION_SETTINGS, **BOUNDARY_SETTINGS}
    gateway = launch_gateway(SparkConf(loadDefaults=False).setAll(list(settings.items())))
    address = gateway.gateway_parameters
    gateway.close()  # a connection must not be shared
    os.environ["PYSPARK_GATEWAY_PORT"] = str(address.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = address.auth_token
    process: Popen[bytes] = gateway.proc
    return process


def leave_java() -> None:
    """Have the shared Java, if there is one, forget the objects of this process: plans and their results."""
    if not under_spark_submit():
        return
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    names = gateway.java_gateway_server.getGateway().getBindings().keySet()
    kept = gateway.jvm.java.util.ArrayList()
    for name in _GATEWAY_OBJECTS:
        kept.add(name)
    names.retainAll(kept)


def _prepare_environment() -> None:
    """Set the variables by which PySpark starts Java, or finds the one that runs."""
    os.environ.pop("SPARK_REMOTE", None)  # PySpark would prefer it
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not under_spark_submit():
        os.environ["JAVA_HOME"] = str(java_home())
        # calls from Java, one for each micro-batch of a stream, carry a secret only without pinned threads
        os.environ["PYSPARK_PIN_THREAD"] = "false"


@contextmanager
def reading(prepare: Callable[[SparkSession], Rows], *, master: str | None, announcer: Announcer) -> Iterator[Rows]:
    """The rows that ``prepare`` plans with a new session, which is stopped at the end.

    Raises:
        InvalidRequest: no session can be opened, or ``prepare`` refuses the table; no row was read.
    """
    announcer.stage(ApplicationStage.STARTING)
    with _opened(master) as spark:
        announcer.stage(ApplicationStage.READING)
        failpoint("before_read")
        rows = prepare(spark)
        failpoint("after_read")
        yield rows


@contextmanager
def _opened(master: str | None) -> Iterator[SparkSession]:
    """A session, which is stopped at the end, and with it what was started for it."""
    if master == EMBEDDED:
        from spark_jobs.embedded.client import embedded_session

        with embedded_session(SQL_SETTINGS) as spark:
            yield spark
        return
    spark = open_session(master)
    try:
        yield spark
    finally:
        spark.stop()
