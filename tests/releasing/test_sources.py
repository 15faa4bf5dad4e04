"""Tables of every format through the command, the ledger and the real application: released, or refused for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_jobs.contract import PrivacyUnit
from tests.support.commands import Command
from tests.support.databases import Database, running_database, write_connections
from tests.support.release_lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

COLUMNS = {"id": "bigint", "score": "double"}
OTHER_COLUMNS = "must have the columns that its account binds, of the same types"
ROWS = 400

IN_ONE_JAVA = pytest.mark.usefixtures("command", "shared_java")


@pytest.fixture
def lake(lab: Lab) -> Path:
    folder = Path(lab.folder).resolve() / "lake"
    (folder / "v1").mkdir(parents=True)
    return folder


def v1(table: Path | str) -> dict[str, Any]:
    return {"path": str(table), "snapshot": {"path_version": "v1"}}


def write_parquet(file: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), file)


@IN_ONE_JAVA
def test_json_lines_are_released_for_units_and_groups_that_are_named_by_a_path(command: Command, lake: Path) -> None:
    cities = ("Rome", "Oslo", "Bern")
    people = [
        {
            "score": i % 100 / 100,
            "mark": i % 10 / 10,
            "person": {"id": f"p{i % ROWS}", "address": {"city": cities[i % 3]}},
        }
        for i in range(3 * ROWS)
    ]
    lines = [*(json.dumps(row) for row in people), "{damaged", "", '{"score": "far"}']
    (lake / "v1" / "a.json").write_text("\n".join(lines))
    columns = {"score": "double", "mark": "double", "person": "struct<id:string,address:struct<city:string>>"}
    command.open(str(lake), columns=columns, form="json", unit=PrivacyUnit(column="person.id"))
    box = {"x": "score", "y": "mark", "x_bounds": [0, 1], "y_bounds": [0, 1]}
    by_city = {"group_by": "person.address.city", "groups": list(cities), "method": "noisy_stats"}
    release = command.release(
        v1(lake),
        where="person.address.city <> 'Oslo'",
        unit={"column": "person.id"},
        diagnostics=[
            {"kind": "ecdf", "column": "score", "bounds": [0, 1]},
            {"kind": "linear_regression", **box, **by_city},
        ],
    )
    # everybody has a row outside Oslo, of which one counts; damaged lines name nobody
    assert release.results["ecdf"]["rows"] == pytest.approx(ROWS, abs=3)
    rows = dict(zip(cities, release.results["linear_regression"]["rows"], strict=True))
    assert rows["Oslo"] == pytest.approx(0, abs=5)
    assert rows["Rome"] + rows["Bern"] == pytest.approx(ROWS, abs=10)
    assert min(rows["Rome"], rows["Bern"]) > ROWS / 4
    assert any(line.startswith("Each line of a JSON file is a row.") for line in release.rules)


def vanish(lake: Path) -> None:
    (lake / "v1").rename(lake / "v0")


def empty(lake: Path) -> None:
    (lake / "v1" / "a.parquet").unlink()


def mark(lake: Path) -> None:
    empty(lake)
    (lake / "v1" / "_SUCCESS").touch()


def cut(lake: Path) -> None:
    (lake / "v1" / "a.parquet").write_bytes(b"")


def retype(lake: Path) -> None:
    write_parquet(lake / "v1" / "a.parquet", id=[1], score=["high"])


def drop(lake: Path) -> None:
    write_parquet(lake / "v1" / "a.parquet", score=[0.5])


@pytest.mark.parametrize(
    ("change", "line", "states"),
    [
        (vanish, "must be a table that exists", ()),
        (empty, "must be a table that exists", ()),
        pytest.param(mark, "must be a table with files in it", ("void",), marks=pytest.mark.soak),
        (cut, "must be a table with files in it", ()),
        (retype, "must be of type double in all files", ()),
        pytest.param(
            drop, "must be a column of at least one file, because the account binds it", (), marks=pytest.mark.soak
        ),
    ],
)
@IN_ONE_JAVA
def test_a_table_that_is_not_as_it_was_is_refused_for_nothing(
    command: Command, lake: Path, change: Callable[[Path], None], line: str, states: tuple[str, ...]
) -> None:
    write_parquet(lake / "v1" / "a.parquet", id=[1, 2], score=[0.25, 0.5])
    command.open(str(lake), columns=COLUMNS)
    change(lake)
    command.refuses(v1(lake), line, states=states)


@pytest.mark.parametrize(
    ("form", "line", "states"),
    [
        pytest.param("orc", "must be a table with files in it", ("void",), marks=pytest.mark.soak),
        ("csv", "must contain csv files that all begin with the same header", ()),
    ],
)
@IN_ONE_JAVA
def test_a_table_of_an_empty_file_is_refused_for_nothing(
    command: Command, lake: Path, form: str, line: str, states: tuple[str, ...]
) -> None:
    (lake / "v1" / f"a.{form}").touch()
    command.open(str(lake), columns=COLUMNS, form=form)
    command.refuses(v1(lake), line, states=states)


@IN_ONE_JAVA
def test_more_counts_than_a_driver_may_hold_are_refused_for_nothing(command: Command, lake: Path) -> None:
    write_parquet(lake / "v1" / "a.parquet", id=[1, 2], score=[0.25, 0.5], mark=[0.5, 0.5])
    command.open(str(lake), columns={**COLUMNS, "mark": "double"}, public=["id"])
    box = {"x": "score", "y": "mark", "x_bounds": [0, 1], "y_bounds": [0, 1]}
    groups = {"group_by": "id", "groups": list(range(64)), "method": "dp_exp_theil_sen", "public_sizes": True}
    lines = [{"kind": "linear_regression", **box, **groups}]
    many = "must need at most 67,108,864 counts"
    command.refuses(v1(lake), many, diagnostics=lines, neighbours="replace_one")


@IN_ONE_JAVA
def test_a_json_table_without_a_file_is_refused_for_nothing(command: Command, lake: Path) -> None:
    (lake / "v1" / "_SUCCESS").touch()
    command.open(str(lake), columns=COLUMNS, form="json")
    command.refuses(v1(lake), "must be a table with files in it", states=("void",))


@pytest.mark.parametrize(
    "scheme",
    [
        "gs://bucket",
        pytest.param("abfss://box@account.dfs.core.windows.net", marks=pytest.mark.soak),
        pytest.param("hdfs://nowhere:1", marks=pytest.mark.soak),
    ],
)
@IN_ONE_JAVA
def test_a_scheme_without_a_file_system_is_refused_for_nothing(
    command: Command, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a store that does not answer is asked again for a minute, so that none is called and nobody waits
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9")
    monkeypatch.setattr("asyncio.sleep", _at_once)
    command.open(f"{scheme}/rows", columns=COLUMNS)
    line = "must be a table that can be read" if scheme.startswith("hdfs") else "must be in a store that Spark can read"
    command.refuses(v1(f"{scheme}/rows"), line, states=("void",))


async def _at_once(*_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"snapshot": {"path_version": "v1", "table_version": 3}}, "by exactly one of path_version, partition and"),
        ({"snapshot": {"path_version": "v1", "partition": {"day": "1"}}}, "by exactly one of path_version, partition"),
        ({"snapshot": {"path_version": "v1"}, "name": "sales.visits"}, "exactly one of path and name must be given"),
        ({"snapshot": {"table_version": 3}}, "can pin only a catalog, delta or iceberg table"),
        ({"path": None, "name": "sales.rows", "snapshot": {"table_version": "main"}}, "should be a valid integer"),
        ({"path": None, "name": "sales.rows", "snapshot": {"branch": "main"}}, "is not a field of this part"),
        ({"snapshot": {}}, "by exactly one of path_version, partition and table_version"),
    ],
)
@IN_ONE_JAVA
def test_a_snapshot_that_is_none_is_refused_for_nothing(
    command: Command, lake: Path, table: dict[str, Any], line: str
) -> None:
    command.open(str(lake), columns=COLUMNS)
    command.refuses({"path": str(lake), **table}, line)


@pytest.mark.halved
@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize(
    ("snapshot", "line", "states"),
    [
        ({"table_version": 3}, "must be of a format that Spark can read", ("void",)),
        ({"table_version": "main"}, "should be a valid integer", ()),
        ({"path_version": "v1"}, "must be replaced by table_version for the format", ()),
    ],
)
@IN_ONE_JAVA
def test_a_versioned_table_without_its_connector_or_version_is_refused_for_nothing(
    command: Command, lake: Path, form: str, snapshot: dict[str, Any], line: str, states: tuple[str, ...]
) -> None:
    command.open(str(lake), columns=COLUMNS, form=form, version={"by": "table_version"})
    command.refuses({"path": str(lake), "snapshot": snapshot}, line, states=states)


@pytest.fixture(scope="module")
def database(jdbc_driver: Path) -> Iterator[Database]:
    with running_database(jdbc_driver) as database:
        database.execute("CREATE TABLE visits (id bigint, version text, score double precision)")
        database.execute(
            f"INSERT INTO visits SELECT i, (1 + i % 2)::text, (i % 100) / 100.0 FROM generate_series(1, {2 * ROWS}) i"
        )
        database.execute("CREATE VIEW seen AS SELECT * FROM visits")
        yield database


VISITS = "jdbc:lake.public.visits"
BOUNDS = {"column": "id", "lower": 1, "upper": 2 * ROWS, "partitions": 3}
STATE = {"snapshot": {"partition": {"version": "1"}}}


@pytest.fixture
def connected(command: Command, database: Database, monkeypatch: pytest.MonkeyPatch) -> Command:
    connect(command, database, monkeypatch)
    return command


def connect(command: Command, database: Database, monkeypatch: pytest.MonkeyPatch, **fields: str) -> None:
    """Give the command's Spark the driver, and write the connection."""
    folder = Path(command.lab.folder)
    connection = database.connection("public.visits", "public.seen", **fields)
    for name, value in write_connections(folder / "jdbc.json", lake=connection).items():
        monkeypatch.setenv(name, value)
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "spark-defaults.conf").write_text(f"spark.jars {database.driver}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder / "conf"))


def open_visits(command: Command, table: str = VISITS, **columns: str) -> None:
    types = {"id": "bigint", "version": "string", "score": "double", **columns}
    command.open(table, columns=types, form="jdbc", version={"by": "partition", "columns": ["version"]})


def test_a_table_of_a_database_is_released(connected: Command) -> None:
    open_visits(connected)
    release = connected.release({"name": VISITS, "partitioning": BOUNDS, **STATE})
    assert release.results["ecdf"]["rows"] == pytest.approx(ROWS, abs=3)
    assert any(line.startswith("All rows come from one snapshot of the database") for line in release.rules)


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({}, "is required for a table of a database"),
        ({"partitioning": {"column": "id", "lower": 1, "partitions": 3}}, "table.partitioning.upper: is required"),
        ({"partitioning": {**BOUNDS, "lower": 9000}}, "must be above lower, 9000"),
        ({"partitioning": {**BOUNDS, "partitions": 100_000}}, "table.partitioning.partitions"),
        ({"partitioning": BOUNDS, "query": "SELECT 1"}, "is not a field of this part of the request"),
        ({"partitioning": BOUNDS, "dbtable": "visits"}, "is not a field of this part of the request"),
        ({"partitioning": BOUNDS, "snapshot": {"table_version": 1}}, "can pin only a catalog, delta or iceberg table"),
        (
            {"partitioning": BOUNDS, "snapshot": {"path_version": "v1"}},
            "can pin only a table that is named by its path",
        ),
        ({"partitioning": BOUNDS, "name": "jdbc:lake.(SELECT 1) t"}, "must name a connection, a schema and"),
        ({"partitioning": BOUNDS, "name": 'jdbc:lake.public."visits"'}, "must name a connection, a schema"),
        ({"partitioning": BOUNDS, "name": "jdbc:lake.public.Visits"}, "must be bound to an account of the ledger"),
        (
            {"partitioning": BOUNDS, "name": "jdbc:lake.pg_catalog.pg_authid"},
            "must be bound to an account of the ledger",
        ),
    ],
)
def test_a_request_for_a_database_without_bounds_or_with_a_query_is_refused_for_nothing(
    connected: Command, table: dict[str, Any], line: str
) -> None:
    open_visits(connected)
    connected.refuses({"name": VISITS, **STATE, **table}, line)


def test_what_the_administrator_does_not_allow_is_refused_before_the_reservation(connected: Command) -> None:
    secret = "jdbc:lake.public.secret"
    open_visits(connected, secret)
    connected.refuses({"name": secret, "partitioning": BOUNDS, **STATE}, "must be a table that DP_DIAGNOSTICS_JDBC")


@pytest.mark.parametrize(
    ("table", "columns", "bounds", "line"),
    [
        ("jdbc:lake.public.seen", {}, BOUNDS, "neither a view nor a partition of another table"),
        pytest.param(VISITS, {"score": "float"}, BOUNDS, OTHER_COLUMNS, marks=pytest.mark.soak),
        pytest.param(VISITS, {"gone": "int"}, BOUNDS, OTHER_COLUMNS, marks=pytest.mark.soak),
        (VISITS, {}, {**BOUNDS, "column": "version"}, "must be a declared column of whole numbers"),
    ],
)
def test_a_table_of_a_database_that_does_not_fit_is_refused_for_nothing(
    connected: Command, table: str, columns: dict[str, str], bounds: dict[str, Any], line: str
) -> None:
    open_visits(connected, table, **columns)
    connected.refuses({"name": table, "partitioning": bounds, **STATE}, line, states=("void",))


def test_only_the_right_password_reads_a_database(
    command: Command, jdbc_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = Path(command.lab.folder) / "password"
    with running_database(jdbc_driver, passwords=True) as database:
        database.execute("CREATE TABLE visits (id bigint, version text, score double precision)")
        database.execute(f"INSERT INTO visits SELECT i, '1', 0.5 FROM generate_series(1, {ROWS}) i")
        database.execute("CREATE ROLE reader LOGIN PASSWORD 'right'")
        database.execute("GRANT SELECT ON visits TO reader")
        connect(command, database, monkeypatch, user="reader", password_file=str(secret))
        open_visits(command)
        table = {"name": VISITS, "partitioning": BOUNDS, **STATE}
        command.refuses(table, "must name a file that can be read")
        secret.write_text("wrong\n")
        command.refuses(table, "must be a table that can be read", states=("void",))
        secret.write_text("right\n")
        status, lines, errors = command.run(table)
        assert status == 0, errors
        written = "\n".join((*lines, *errors, *(path.read_text() for path in Path(lines[-1]).glob("*.json"))))
        assert secret.read_text().strip() not in written.split()
        assert "password" not in written
