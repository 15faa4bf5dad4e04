"""Tables of a real Hive metastore, by name: released, or refused for nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Command

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.verify]

ROWS = 400
COLUMNS = {"score": "double", "day": "string"}
BY_DAY = {"by": "partition", "columns": ["day"]}
HIVE = "(score DOUBLE) PARTITIONED BY (day STRING) STORED AS"
TABLES = {
    "visits": f"{HIVE} PARQUET",
    "orcs": f"{HIVE} ORC",
    "native": "(score DOUBLE, day STRING) USING PARQUET PARTITIONED BY (day)",
    "gone": f"{HIVE} PARQUET",
    "texts": f"{HIVE} TEXTFILE",
}
"""The tables of two days and how their rows are stored; Spark's own readers read all but the last one."""


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a metastore in Derby, a warehouse, and the settings by which Spark finds both."""
    folder = tmp_path_factory.mktemp("hive")
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file://{folder}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    query(
        folder,
        "CREATE DATABASE sales",
        *(f"CREATE TABLE sales.{name} {stored}" for name, stored in TABLES.items()),
        *(
            f"INSERT INTO sales.{name} SELECT id % 100 / 100D, cast(1 + id % 2 AS STRING) FROM range({2 * ROWS})"
            for name in TABLES
        ),
        "CREATE VIEW sales.recent AS SELECT * FROM sales.visits",
    )
    shutil.rmtree(folder / "warehouse" / "sales.db" / "gone" / "day=1")
    return folder


def query(folder: Path, *statements: str) -> None:
    """Run the statements in a process of their own, since only one at a time may open the metastore."""
    program = (
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').getOrCreate()\n"
        "for statement in sys.argv[1:]:\n"
        "    spark.sql(statement)\n"
        "spark.stop()\n"
    )
    environ = {**os.environ, "SPARK_CONF_DIR": str(folder)}
    ended = subprocess.run(
        [sys.executable, "-c", program, *statements], env=environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


@pytest.fixture
def hive(command: Command, metastore: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("SPARK_CONF_DIR", str(metastore))
    return command


def open_table(hive: Command, name: str, **columns: str) -> dict[str, Any]:
    """The first day of the table, for which an account is opened."""
    hive.open(f"catalog:sales.{name}", columns={**COLUMNS, **columns}, form="catalog", version=BY_DAY)
    return {"name": f"sales.{name}", "snapshot": {"partition": {"day": "1"}}}


@pytest.mark.parametrize("name", ["visits", "orcs", "native"])
def test_a_partition_of_a_table_of_the_metastore_is_released(hive: Command, name: str) -> None:
    release = hive.release(open_table(hive, name))
    assert release.results["ecdf"]["rows"] == pytest.approx(ROWS, abs=3)


def test_a_partition_whose_folder_is_gone_is_empty_like_one_that_never_was(hive: Command) -> None:
    table = open_table(hive, "gone")
    assert hive.release(table).results["ecdf"]["rows"] == pytest.approx(0, abs=3)


@pytest.mark.parametrize(
    ("name", "columns", "line"),
    [
        ("texts", {}, "must be stored as parquet, orc, delta, iceberg, and not as org.apache.hadoop.hive.serde2"),
        ("recent", {}, "must be a table, not a view"),
        ("visits", {"score": "float"}, "must have the columns that its account binds, of the same types"),
    ],
)
def test_a_table_of_the_metastore_that_does_not_fit_is_refused_for_nothing(
    hive: Command, name: str, columns: dict[str, str], line: str
) -> None:
    hive.refuses(open_table(hive, name, **columns), line, states=("void",))


@pytest.mark.parametrize("form", ["PARQUET", "ORC"])
def test_a_partition_with_a_file_of_other_types_is_refused_for_nothing(
    hive: Command, metastore: Path, form: str
) -> None:
    """A reader for doubles would fail at the first row of such a file, after the charge."""
    name = f"mixed_{form.lower()}"
    query(
        metastore,
        f"CREATE TABLE sales.{name} {HIVE} {form}",
        f"INSERT INTO sales.{name} SELECT id / 100D, '2' FROM range({ROWS})",
        f"INSERT OVERWRITE DIRECTORY '{metastore}/warehouse/sales.db/{name}/day=1' USING {form} "
        f"SELECT concat('text ', id) AS score FROM range({ROWS})",
        f"ALTER TABLE sales.{name} ADD PARTITION (day = '1')",
    )
    table = open_table(hive, name)
    hive.refuses(table, "must have the same type for a column in the catalog and in all files", states=("void",))
    intact = {**table, "snapshot": {"partition": {"day": "2"}}}
    assert hive.run(intact)[0] == 0


def test_a_table_that_was_dropped_or_altered_is_refused_for_nothing(hive: Command, metastore: Path) -> None:
    query(
        metastore,
        f"CREATE TABLE sales.brief {HIVE} PARQUET",
        "ALTER TABLE sales.brief ADD COLUMNS (mark DOUBLE)",
    )
    table = open_table(hive, "brief", mark="float")
    hive.refuses(table, "must have the columns that its account binds, of the same types", states=("void",))
    query(metastore, "DROP TABLE sales.brief")
    hive.refuses(table, "must be a table that exists", states=("void", "void"))
