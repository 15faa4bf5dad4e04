"""Tables of a real PostgreSQL, read by its JDBC driver: one snapshot, values that never raise, one name of a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable
from py4j.protocol import Py4JJavaError

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables import databases
from spark_jobs.tables.source import read_table
from tests.support.databases import Database, running_database, write_connections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow]

BOUNDS = {"column": "id", "lower": 0, "upper": 900, "partitions": 4}
TABLES = (
    "visits", "odd", "seen", "kept", "parent", "child", "whole", "part", "MixedCase", "one", "two", "lent",
    "spans", "guarded", "behind", "ratios", "held", "grown", "settings", "apart",
    "busy", "over_apart",
)  # fmt: skip


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
            "CREATE TABLE one (id bigint, v text)",
            "CREATE TABLE two (id bigint, v text)",
            "CREATE TABLE shared () INHERITS (one, two)",
            "INSERT INTO shared VALUES (7, '1')",
            "CREATE TABLE lent (id bigint, v text) PARTITION BY LIST (v)",
            "CREATE FOREIGN DATA WRAPPER elsewhere",
            "CREATE SERVER far FOREIGN DATA WRAPPER elsewhere",
            "CREATE FOREIGN TABLE lent_1 PARTITION OF lent FOR VALUES IN ('1') SERVER far",
            "CREATE ROLE reader LOGIN",
            "CREATE TABLE others (person text)",
            "CREATE TABLE guarded (id bigint, v text)",
            "INSERT INTO guarded VALUES (1, '1')",
            "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY p ON guarded USING (EXISTS (SELECT FROM others WHERE person = 'bob'))",
            "CREATE TABLE behind (id bigint, v text) PARTITION BY LIST (v)",
            "CREATE TABLE behind_1 PARTITION OF behind FOR VALUES IN ('1')",
            "ALTER TABLE behind_1 ENABLE ROW LEVEL SECURITY",
            "GRANT SELECT ON visits, others, guarded, behind, behind_1 TO reader",
            "CREATE TABLE ratios (id bigint, v text, a int, b int, q int GENERATED ALWAYS AS (a / b) VIRTUAL,"
            " s int GENERATED ALWAYS AS (a + b) STORED)",
            "INSERT INTO ratios (id, v, a, b) VALUES (1, '1', 4, 0)",
            "CREATE TABLE settings (id int, v text, t interval, m money, x bytea, d date[], f float4[])",
            "INSERT INTO settings VALUES (1, '1', '1 day 2 hours', 1234.5, 'a', '{2026-01-31}', '{0.1234567}')",
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


@pytest.fixture
def reader(read: Any, database: Database, tmp_path: Path) -> None:
    """Read as a user whom policies apply to."""
    allowed = [f"public.{table}" for table in TABLES]
    write_connections(tmp_path / "jdbc.json", lake={**database.connection(*allowed), "user": "reader"})


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


@pytest.mark.parametrize("table", ["seen", "kept", "child", "part", "missing"])
def test_a_second_name_of_rows_is_refused(read: Any, table: str) -> None:
    with pytest.raises(InvalidRequest, match="must be a table that exists, and neither a view nor a partition of"):
        read(table)


@pytest.mark.parametrize("table", ["parent", "one", "two", "lent"])
def test_a_table_whose_rows_may_have_two_names_is_refused(read: Any, table: str) -> None:
    with pytest.raises(InvalidRequest, match="no children other than partitions that are tables of the database"):
        read(table)


@pytest.mark.parametrize("table", ["guarded", "behind"])
@pytest.mark.parametrize("person", ["bob", "ann"])
def test_a_policy_that_applies_to_the_user_is_refused_whatever_the_rows_are(
    read: Any, database: Database, reader: None, table: str, person: str
) -> None:
    database.execute(f"INSERT INTO others VALUES ('{person}')")
    try:
        with pytest.raises(InvalidRequest) as refused:
            read(table)
    finally:
        database.execute("DELETE FROM others")
    assert str(refused.value) == (
        f"table.name: got 'jdbc:lake.public.{table}'; must be a table without policies of row-level security for the "
        "connection's user, on it or on any partition; read it as a user with BYPASSRLS"
    )


def test_a_policy_that_applies_later_hides_no_row(read: Any, database: Database, reader: None) -> None:
    database.execute("ALTER ROLE reader BYPASSRLS")
    try:
        frame = read("guarded")
        assert frame.count() == 1
    finally:
        database.execute("ALTER ROLE reader NOBYPASSRLS")
    with pytest.raises(Py4JJavaError, match="Job aborted due to stage failure"):
        frame.count()


def test_a_column_that_is_computed_when_it_is_read_is_absent(read: Any) -> None:
    assert [row.asDict() for row in read("ratios").collect()] == [{"id": 1, "v": "1", "a": 4, "b": 0, "s": 4}]
    with pytest.raises(InvalidRequest, match="must have the columns that its account binds"):
        read("ratios", columns={"id": "bigint", "v": "string", "q": "int"})


def test_a_database_that_may_contain_what_is_no_text_is_refused(read: Any, database: Database, tmp_path: Path) -> None:
    database.execute("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    url = f"{database.server.url('bytes')}&port={database.port}"
    database.server.execute("CREATE TABLE visits (id bigint, v text)", url)
    fields = database.connection("public.visits")
    write_connections(tmp_path / "jdbc.json", lake={**fields, "url": fields["url"].replace("/postgres", "/bytes")})
    with pytest.raises(InvalidRequest) as refused:
        read()
    assert str(refused.value) == (
        "table.name: got 'jdbc:lake.public.visits'; must be in a database whose encoding is UTF8, not SQL_ASCII; "
        "copy it into one that is"
    )


def test_texts_depend_on_no_setting_of_the_database(read: Any, database: Database) -> None:
    changes = {
        "IntervalStyle": "iso_8601", "extra_float_digits": "-9", "bytea_output": "escape", "DateStyle": "German",
    }  # fmt: skip
    frame = read("settings")
    before = frame.collect()
    assert [tuple(row) for row in before] == [
        (1, "1", "1 day 02:00:00", "$1,234.50", "\\x61", "{2026-01-31}", "{0.1234567}")
    ]
    for name, value in changes.items():
        database.execute(f"ALTER ROLE postgres SET {name} TO {value}")
    try:
        assert frame.collect() == before
    finally:
        database.execute("ALTER ROLE postgres RESET ALL")


def test_a_table_that_is_read_stays_what_it_is(read: Any, database: Database) -> None:
    database.execute("CREATE TABLE held (id bigint, v text)")
    database.execute("INSERT INTO held VALUES (1, '1')")
    frame = read("held")
    for change in ("TRUNCATE held", "ALTER TABLE held RENAME TO old", "DROP TABLE held"):
        with pytest.raises(LockNotAvailable):
            database.execute(f"SET lock_timeout TO '100ms'; {change}")
    assert frame.count() == 1


def test_rows_that_are_attached_later_are_not_read(read: Any, database: Database) -> None:
    database.execute("CREATE TABLE grown (id bigint, v text)")
    database.execute("CREATE TABLE spans (id bigint, v text) PARTITION BY RANGE (id)")
    database.execute("CREATE TABLE spans_1 PARTITION OF spans FOR VALUES FROM (0) TO (10)")
    database.execute("CREATE TABLE spans_2 (id bigint, v text)")
    database.execute("INSERT INTO spans VALUES (1, '1')")
    database.execute("INSERT INTO spans_2 VALUES (11, '1')")
    frame, other = read("spans"), read("grown")
    database.execute("ALTER TABLE spans ATTACH PARTITION spans_2 FOR VALUES FROM (10) TO (20)")
    assert (frame.count(), read("spans").count()) == (1, 2)
    database.execute("CREATE TABLE late () INHERITS (grown)")
    database.execute("BEGIN; TRUNCATE late; COPY late FROM PROGRAM 'echo 1,1' WITH (FREEZE, FORMAT csv); COMMIT")
    assert other.count() == 0


def test_a_name_that_means_another_table_by_now_fails(read: Any, database: Database) -> None:
    frame = read("visits")
    database.execute("ALTER SCHEMA public RENAME TO before")
    try:
        database.execute("CREATE SCHEMA public")
        database.execute("CREATE VIEW public.visits AS SELECT *, 'before.visits'::regclass::oid AS tableoid"
                         " FROM before.visits")  # fmt: skip
        with pytest.raises(Py4JJavaError, match="Job aborted due to stage failure"):
            frame.count()
    finally:
        database.execute("DROP SCHEMA IF EXISTS public CASCADE")
        database.execute("ALTER SCHEMA before RENAME TO public")
    assert frame.count() == 450


def test_nothing_waits_for_ever(read: Any, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LOCK_WAIT", "500ms")
    frame = read("odd", pins={"id": 1})
    url = f"{database.server.url()}&port={database.port}"
    database.execute("CREATE TABLE busy (id bigint, v text)")
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE busy IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(InvalidRequest) as refused:
            read("busy")
        assert "must be a table that nobody changes: it could not be locked for reading in" in str(refused.value)
        assert "\n" not in str(refused.value)
    assert read("busy").count() == 0
    with ThreadPoolExecutor() as pool, psycopg.connect(url) as changer:
        waiting = pool.submit(changer.execute, "TRUNCATE odd")
        try:
            until_waiting(database)
            with pytest.raises(Py4JJavaError, match="Job aborted due to stage failure"):
                frame.count()
        finally:
            changer.cancel()
            assert waiting.exception() is not None
    assert frame.count() == 1


def until_waiting(database: Database) -> None:
    """Return as soon as somebody waits for a lock."""
    deadline = time.monotonic() + 30
    url = f"{database.server.url()}&port={database.port}"
    while not database.server.execute("SELECT 1 FROM pg_locks WHERE NOT granted", url):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_refusal_holds_no_lock(read: Any, database: Database) -> None:
    database.execute("CREATE TABLE apart (id bigint, v text)")
    database.execute("CREATE VIEW over_apart AS SELECT * FROM apart")
    for table in ("over_apart", "apart"):
        with pytest.raises(InvalidRequest):
            read(table, partitioning={**BOUNDS, "column": "nothing"})
    database.execute("SET lock_timeout TO '5s'; TRUNCATE apart")


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
