"""Tables of a real Hive metastore, by name: read and released, or refused for nothing."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.support.commands import Command
from tests.support.metastore import Metastore

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

ROWS = 400
COLUMNS = {"score": "double", "day": "string"}
HIVE = "(score DOUBLE) PARTITIONED BY (day STRING) STORED AS"
TABLES = {
    "visits": f"{HIVE} PARQUET",
    "orcs": f"{HIVE} ORC",
    "native": "(score DOUBLE, day STRING) USING PARQUET PARTITIONED BY (day)",
    "gone": f"{HIVE} PARQUET",
    "texts": f"{HIVE} TEXTFILE",
    "altered": f"{HIVE} PARQUET",
    "dropped": f"{HIVE} PARQUET",
    "mixed_parquet": f"{HIVE} PARQUET",
    "mixed_orc": f"{HIVE} ORC",
    "unmarked": "(score DOUBLE, name STRING) PARTITIONED BY (day STRING) STORED AS PARQUET",
}
"""The tables of two days and how their rows are stored; Spark's own readers read all but ``texts``."""
OTHER_COLUMNS = "must have the columns that its account binds, of the same types"
OTHER_TYPES = "must have the same type for a column in the catalog and in all files"
TEXTS = "must be stored as parquet, orc, delta, iceberg, and not as org.apache.hadoop.hive.serde2"
DOES_NOT_EXIST = "must be a table that exists"


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Metastore:
    made = Metastore.create(tmp_path_factory.mktemp("hive"))
    statements = [
        "CREATE DATABASE sales",
        *(f"CREATE TABLE sales.{name} {stored}" for name, stored in TABLES.items()),
        *(
            f"INSERT INTO sales.{name} SELECT id % 100 / 100D, cast(1 + id % 2 AS STRING) FROM range({2 * ROWS})"
            for name in TABLES
            if name != "unmarked"
        ),
        "ALTER TABLE sales.unmarked ADD PARTITION (day = '1')",
        "CREATE VIEW sales.recent AS SELECT * FROM sales.visits",
        "ALTER TABLE sales.altered ADD COLUMNS (mark DOUBLE)",
        "DROP TABLE sales.dropped",
    ]
    for form in ("PARQUET", "ORC"):
        day = made.files(f"mixed_{form.lower()}") / "day=1"
        statements.append(f"INSERT OVERWRITE DIRECTORY '{day}' USING {form} SELECT string(id) AS score FROM range(9)")
    unmarked = made.files("unmarked") / "day=1"
    texts = f"SELECT id / 100D AS score, binary(string(id)) AS name FROM range({ROWS})"
    statements.append(f"INSERT OVERWRITE DIRECTORY '{unmarked}' USING PARQUET {texts}")
    made.execute(statements)
    shutil.rmtree(made.files("gone") / "day=1")
    return made


def first_day(name: str, day: str = "1") -> dict[str, Any]:
    return {"name": f"sales.{name}", "snapshot": {"partition": {"day": day}}}


@pytest.fixture(scope="module")
def read(metastore: Metastore) -> dict[str, int | str]:
    """Of every table's first day, how many rows are read, or the line that refuses it."""
    bound = {"format": "catalog", "columns": COLUMNS}
    tables = {name: {**first_day(name), **bound} for name in (*TABLES, "recent")}
    tables["altered"]["columns"] = {**COLUMNS, "mark": "float"}
    tables["unmarked"]["columns"] = {**COLUMNS, "name": "string"}
    tables["mixed_orc, second day"] = {**first_day("mixed_orc", "2"), **bound}
    return metastore.read(tables)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("visits", ROWS),
        ("orcs", ROWS),
        ("native", ROWS),
        ("mixed_orc, second day", ROWS),
        ("unmarked", ROWS),
        ("gone", 0),
    ],
)
def test_a_partition_is_read_and_one_without_a_folder_is_empty(
    read: dict[str, int | str], name: str, rows: int
) -> None:
    assert read[name] == rows


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("texts", TEXTS),
        ("recent", "must be a table, not a view"),
        ("altered", OTHER_COLUMNS),
        ("mixed_parquet", OTHER_TYPES),
        ("mixed_orc", OTHER_TYPES),
        ("dropped", DOES_NOT_EXIST),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_a_row_is_read(
    read: dict[str, int | str], name: str, line: str
) -> None:
    """A reader for doubles, for instance, would fail at the first row of a file of texts."""
    assert line in str(read[name])


@pytest.fixture
def hive(command: Command, metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("SPARK_CONF_DIR", str(metastore.folder))
    return command


def open_table(hive: Command, name: str) -> dict[str, Any]:
    """The first day of the table, for which an account is opened."""
    version = {"by": "partition", "columns": ["day"]}
    hive.open(f"catalog:sales.{name}", columns=COLUMNS, form="catalog", version=version)
    return first_day(name)


def test_a_partition_of_a_table_of_the_metastore_is_released(hive: Command) -> None:
    release = hive.release(open_table(hive, "visits"))
    assert release.results["ecdf"]["rows"] == pytest.approx(ROWS, abs=3)


def test_a_table_of_the_metastore_that_does_not_fit_costs_nothing(hive: Command) -> None:
    hive.refuses(open_table(hive, "mixed_parquet"), OTHER_TYPES, states=("void",))
