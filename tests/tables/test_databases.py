"""Tables of a real PostgreSQL, read by its JDBC driver: one snapshot, values that never raise, one name of a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.source import read_table
from tests.support.databases import Database, running_database, write_connections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow]

BOUNDS = {"column": "id", "lower": 0, "upper": 900, "partitions": 4}
TABLES = ("visits", "odd", "seen", "kept", "parent", "child", "whole", "part", "Mixed Case".replace(" ", ""))


@pytest.fixture(scope="module")
def database(jdbc_driver: Path) -> Iterator[Database]:
    with running_database(jdbc_driver) as database:
        for statement in (
            "CREATE TABLE visits (id bigint, v text, score double precision)",
            "INSERT INTO visits SELECT i, (1 + i % 2)::text, i / 1000.0 FROM generate_series(1, 900) i",
            "CREATE TABLE odd (id int, n numeric(5,2), big numeric, at timestamptz, seen timestamp, day date,"
            " b boolean, t text, j json, r real)",
            "INSERT INTO odd VALUES (1, 1.25, 2.5, '2026-01-31 12:00+01', '2026-01-31 12:00', '2026-01-31', true, 'a',"
            " '{}', 0.5)",
            "INSERT INTO odd VALUES (-5, 'NaN', '1e30', 'infinity', '0044-03-15 BC', 'infinity', null, E'a''b\\n',"
            " null, 'NaN')",
            "INSERT INTO odd (id) VALUES (null)",
            "CREATE VIEW seen AS SELECT * FROM visits",
            "CREATE MATERIALIZED VIEW kept AS SELECT * FROM visits",
            "CREATE TABLE parent (id bigint, v text)",
            "CREATE TABLE child () INHERITS (parent)",
            "CREATE TABLE whole (id bigint, v text) PARTITION BY LIST (v)",
            "CREATE TABLE part PARTITION OF whole FOR VALUES IN ('1')",
            "INSERT INTO whole VALUES (1, '1')",
            'CREATE TABLE "MixedCase" ("id" bigint, v text, "a ""b?{}" int)',
            "INSERT INTO \"MixedCase\" VALUES (1, '1', 7)",
        ):
            database.execute(statement)
        yield database


@pytest.fixture
def read(spark: SparkSession, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    allowed = [f"public.{table}" for table in (*TABLES, "missing")]
    for name, value in write_connections(tmp_path / "jdbc.json", lake=database.connection(*allowed)).items():
        monkeypatch.setenv(name, value)
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    places = spark._sc._gateway.new_array(jvm.java.net.URL, 1)
    places[0] = jvm.java.io.File(str(database.driver)).toURI().toURL()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(places, before))
    spark._jsc.sc().addJar(str(database.driver))

    def read(table: str = "visits", pins: Any = None, columns: Any = None, **changes: Any) -> DataFrame:
        return read_table(
            spark,
            TableSource.parse(
                {
                    "name": f"jdbc:lake.public.{table}",
                    "snapshot": {"partition": pins or {"v": "1"}},
                    "columns": columns,
                    "partitioning": BOUNDS,
                    **changes,
                }
            ),
        )

    yield read
    thread.setContextClassLoader(before)


def test_every_row_of_the_version_is_read_once_whatever_the_bounds(read: Any) -> None:
    for bounds in (BOUNDS, {**BOUNDS, "lower": 400, "upper": 401}, {**BOUNDS, "lower": -(2**40), "partitions": 3}):
        frame = read(partitioning=bounds)
        assert sorted(row["id"] for row in frame.collect()) == list(range(2, 901, 2))
    assert frame.dtypes == [("id", "bigint"), ("v", "string"), ("score", "double")]
    assert read().rdd.getNumPartitions() == 4


def test_all_passes_see_the_rows_of_one_snapshot(read: Any, database: Database) -> None:
    frame = read()
    database.execute("INSERT INTO visits VALUES (902, '1', 0), (904, '1', 0), (-2, '1', 0)")
    try:
        assert (frame.count(), frame.count()) == (450, 450)
        assert read().count() == 453
        database.execute("DELETE FROM visits WHERE id = 2")
        assert (frame.count(), read().count()) == (450, 452)
    finally:
        database.execute("DELETE FROM visits WHERE id > 900 OR id < 0")
        database.execute("INSERT INTO visits SELECT 2, '1', 0.002 WHERE NOT EXISTS (SELECT FROM visits WHERE id = 2)")


def test_no_value_raises(read: Any) -> None:
    rows = {row["id"]: row.asDict() for row in read("odd", pins={"id": 1}).collect()}
    assert [str(value) for value in rows[1].values()] == [
        "1", "1.25", "2.500000000000000000", "2026-01-31 11:00:00", "2026-01-31 12:00:00", "2026-01-31", "True", "a",
        "{}", "0.5",
    ]  # fmt: skip
    [odd] = read("odd", pins={"id": -5}).collect()
    assert odd.asDict() == {
        **dict.fromkeys(("n", "big", "at", "seen", "day", "b", "j")), "id": -5, "t": "a'b\n", "r": odd["r"],
    }  # fmt: skip
    assert odd["r"] != odd["r"]


def test_names_are_the_databases_own(read: Any) -> None:
    assert [tuple(row) for row in read("MixedCase").collect()] == [(1, "1", 7)]
    assert read("whole").count() == 1
    assert read("parent").count() == 0


@pytest.mark.parametrize("table", ["seen", "kept", "child", "part", "missing"])
def test_a_second_name_of_rows_is_refused(read: Any, table: str) -> None:
    with pytest.raises(InvalidRequest, match="must be a table that exists, and neither a view nor a partition of"):
        read(table)


@pytest.mark.parametrize("value", ["' OR 1=1 --", "1'", "a\\", "x" * 201, True, 1.5, "ü"])
def test_a_version_is_a_plain_word(read: Any, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(pins={"v": value}).collect()
    assert "must be a whole number, or text of letters" in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"columns": {"id": "int", "v": "string"}}, "must have the columns that its account binds"),
        ({"columns": {"id": "bigint", "v": "string", "gone": "int"}}, "must have the columns that its account binds"),
        ({"partitioning": {**BOUNDS, "column": "score"}}, "must be a declared column of whole numbers"),
        ({"partitioning": {**BOUNDS, "column": "nothing"}}, "must be a declared column of whole numbers"),
        ({"pins": {"nothing": "1"}}, "must be a column of the table"),
        ({"pins": {"id": "one"}}, "must be a table that can be read"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(read: Any, changes: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**changes)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_server_that_does_not_answer_is_refused_without_its_address(
    read: Any, database: Database, tmp_path: Path
) -> None:
    fields = {**database.connection("public.visits"), "url": "jdbc:postgresql://127.0.0.1:1/secretbase"}
    write_connections(tmp_path / "jdbc.json", lake=fields)
    with pytest.raises(InvalidRequest) as refused:
        read()
    assert str(refused.value) == (
        "table.name: got 'jdbc:lake.public.visits'; must be a table that can be read; "
        "check its address, its format and the permission to read it"
    )
