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
    # closed for good at the interpreter's end, when the log's stream is closed already
    logging.getLogger("py4j").setLevel(logging.WARNING)


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
