"""One small Spark session for the whole test run."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_jobs.application.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
}


def open_spark(warehouse: Path) -> SparkSession:
    """A session on two cores of this machine, on the Java that the application would use."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.config("spark.sql.warehouse.dir", str(warehouse)).getOrCreate()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's session, with a warehouse of its own."""
    session = open_spark(tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()
    _end_java()


def _end_java() -> None:
    """End the session's Java process, and wait until it has removed its folders."""
    from pyspark import SparkContext

    # what is closed at the interpreter's end would be logged to a stream that is closed already
    logging.getLogger("py4j").setLevel(logging.WARNING)
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)


@contextmanager
def settings(spark: SparkSession, changes: dict[str, str]) -> Iterator[None]:
    """Run with these SQL settings, and put the old ones back."""
    before = {name: spark.conf.get(name, None) for name in changes}
    for name, value in changes.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
