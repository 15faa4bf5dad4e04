"""The steps of a stream of rows: what Spark counts, the embedded engine counts to the last one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_jobs.application.embedded_tables import prepare_steps_embedded
from spark_jobs.application.session import SQL_SETTINGS
from spark_jobs.application.streams.counting import count_steps, prepare_steps
from spark_jobs.contract import InvalidRequest
from spark_jobs.contract.embedded_engine import require_embedded
from spark_jobs.contract.stream_request import StreamRequest
from spark_jobs.embedded.client import CONNECT_MODE, embedded_session
from spark_jobs.tables.source import read_table
from tests.support.engine_rows import COLUMNS, table, write
from tests.support.spark import settings

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STEPS = {
    "hours": ("1 hour", "2020-01-01T00:00:00Z", 20_000),
    "days": ("1 day", "2019-06-01T07:00:00Z", 900),
    "seconds": ("7 seconds", "1969-12-31T23:59:40Z", 90_000),
    "weeks": ("1 week", "1969-12-01T00:00:00Z", 4_000),
}
CASES: dict[str, dict[str, Any]] = {
    f"{time}-{name}": {"time": time, "step": step, "start": start, "steps": steps}
    for time in ("at", "local", "born")
    for name, (step, start, steps) in STEPS.items()
}
CASES["states"] = {"states": {"column": "site", "keys": ["a", "b", "A", "\u1e9e\u0130", "1"]}}
CASES["whole-states"] = {"states": {"column": "few", "keys": [0, 2]}}
CASES["where"] = {"time": "local", "where": "x > 0.5 OR site LIKE '%a' OR born > DATE '2020-01-01'"}
CASES["blocks"] = {"block_expression": "year(born)", "blocks": ("2020", "2022")}


def stream(folder: Path, **changes: Any) -> StreamRequest:
    columns = [{"name": name, "type": of} for name, of in COLUMNS.items()]
    bound = {"format": "parquet", "columns": columns, "version": {"by": "path_version"}}
    return StreamRequest.parse(
        {
            "account": "visits",
            "table": {"path": str(folder.parent), "snapshot": {"path_version": folder.name}, **bound},
            "time": "at",
            "start": "2019-06-01T00:00:00Z",
            "step": "1 day",
            "steps": 1000,
            "budget": {"epsilon": "1"},
            **changes,
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = tmp_path_factory.mktemp("lake") / "v1"
    write(lake, table())
    return lake


@pytest.fixture(scope="module")
def embedded() -> Iterator[Any]:
    with embedded_session(SQL_SETTINGS) as session:
        del os.environ[CONNECT_MODE]  # a test has a session of Spark besides
        yield session


def cells(session: Any, request: StreamRequest, prepare: Callable[[Any, StreamRequest], Any]) -> np.ndarray:
    return count_steps(prepare(session, request), request, first=1, steps=request.steps - 1).cells


@pytest.mark.parametrize(
    "name", [name if name in ("at-hours", "states") else pytest.param(name, marks=pytest.mark.verify) for name in CASES]
)
def test_steps_are_counted_alike(spark: Any, embedded: Any, folder: Path, name: str) -> None:
    request = stream(folder, **CASES[name])
    sql_settings = {name: value for name, value in SQL_SETTINGS.items() if ".sql." in name}
    with settings(spark, sql_settings):
        expected = cells(
            spark, request, lambda session, one: prepare_steps(session, one, read_table(session, one.table))
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CONNECT_MODE, "1")
        counted = cells(embedded, request, prepare_steps_embedded)
    assert expected.sum() > 0
    assert np.array_equal(counted, expected)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"unit": {"column": "person", "max_rows": 3}, "capacity": 900},
            "unit.column: got 'person'; must be left out of a stream",
        ),
        ({"follow": {"delay": "10 minutes"}}, "follow: got '10 minutes'; must be left out"),
        ({"where": "LN(x) > 0"}, "where: .* must not contain LN"),
    ],
)
def test_what_is_not_proved_of_a_stream_is_refused(folder: Path, changes: dict[str, Any], line: str) -> None:
    require_embedded(stream(folder))
    with pytest.raises(InvalidRequest, match=f"^{line}.* with the embedded engine; run the request on Spark, "):
        require_embedded(stream(folder, **changes))
