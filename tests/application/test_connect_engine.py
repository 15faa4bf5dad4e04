"""The contract of an engine, for a Spark Connect server: it counts what Spark in this process does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.connect.session import SparkSession as RemoteSession

from spark_jobs.application.count_statistics import prepare
from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.embedded.client import CONNECT_MODE
from tests.support.connect_server import BOUNDARY, connect_server
from tests.support.engine_cases import cases, counted, differences, request
from tests.support.engine_rows import table, write
from tests.support.spark import settings

pytestmark = [pytest.mark.spark, pytest.mark.verify]

SQL = {name: value for name, value in SQL_SETTINGS.items() if ".sql." in name}
REQUESTS = [
    *(f"where-{place}" for place in range(0, 15, 3)),
    "roc_curve-0", "calibration-0", "aggregates-0", "aggregates-1", "by_group-0", "ecdf-0", "linear_fit-0",
    "linear_regression-0", "residual_plot-0", "profile-0", "blocks-months", "blocks-texts", "decimal-sums",
    "label-text", "lookup", "periods-at", "unit-one-row", "unit-one-by-row", "unit-texts", "unit-times", "unit-doubles",
    "unit-variance", "unit-group",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("lake") / "v1"
    write(made, table())
    return made


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with connect_server(tmp_path_factory.mktemp("server"), BOUNDARY) as server:
        session = RemoteSession.builder.remote(server.remote).create()
        for name, value in SQL.items():
            session.conf.set(name, value)
        yield session
        session.stop()


@pytest.fixture(autouse=True)
def salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DP_DIAGNOSTICS_SALT", "0" * 32)


def by_server(session: Any, asked: Any) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECT_MODE, "1")
        return counted(prepare(session, asked), asked)


def by_spark(spark: Any, asked: Any) -> dict[str, Any]:
    with settings(spark, SQL):
        return counted(prepare(spark, asked), asked)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_server_counts_as_spark_does(spark: Any, remote: Any, folder: Path, name: str) -> None:
    asked = request(folder, **cases()[name])
    assert differences(by_spark(spark, asked), by_server(remote, asked)) == []


def test_other_rows_are_counted_otherwise(spark: Any, remote: Any, folder: Path) -> None:
    """The control of the test above."""
    one, other = (request(folder, **cases()[name]) for name in ("aggregates-0", "unit-one-row"))
    same = request(folder, **cases()["aggregates-0"], where="few = 1")
    assert differences(by_spark(spark, one), by_server(remote, same)) != []
    assert differences(by_spark(spark, other), by_server(remote, other)) == []
