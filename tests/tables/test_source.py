from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dp_operators.budget.table_schemas import binding_of
from spark_jobs.application import schema
from spark_jobs.application.schema import table_schema
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.source import SETTINGS, read_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECRET = "Zebedee-4711"


UNBOUND = (
    "table: got '{name}'; must have the columns that its account binds, of the same types; "
    "compare them with `dp-budget show`; a state with other columns cannot be read"
)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    rows = spark.range(12).selectExpr(
        "id", "concat('r/', id % 2) as region", "concat('0', 1 + id % 3) as month", "date '2026-01-01' as day"
    )
    rows.write.parquet(str(folder / "plain" / "v=1"))
    rows.where("id < 4").write.parquet(str(folder / "plain" / "v=2"))
    rows.write.partitionBy("month", "region").parquet(str(folder / "parted"))
    (folder / "plain" / "empty").mkdir()
    return folder


@pytest.fixture(scope="module")
def catalog(spark: SparkSession) -> None:
    spark.sql("create database if not exists sales")
    spark.range(6).selectExpr("id", "id % 2 as half", "date_add(date '2026-01-01', int(id % 3)) as day").write.mode(
        "overwrite"
    ).partitionBy("half", "day").saveAsTable("sales.visits")
    spark.sql("create or replace view sales.recent as select * from sales.visits")


def source(path: Path | None = None, *, snapshot: dict[str, Any], **fields: Any) -> TableSource:
    where = {} if path is None else {"path": str(path)}
    return TableSource.parse({**where, "snapshot": snapshot, **fields})


def refusal(spark: SparkSession, table: TableSource) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        read_table(spark, table)
    line = str(refused.value)
    assert "\n" not in line
    assert "Exception" not in line
    assert "org.apache" not in line
    assert SECRET not in line
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    return refused.value


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_a_version_of_a_path_is_read(spark: SparkSession, lake: Path) -> None:
    assert ids(read_table(spark, source(lake / "plain", snapshot={"path_version": "v=1"}))) == list(range(12))
    assert ids(read_table(spark, source(lake / "plain", snapshot={"path_version": "v=2"}))) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ({"month": "01"}, [0, 3, 6, 9]),
        ({"month": 1}, [0, 3, 6, 9]),
        ({"month": "01", "region": "r/1"}, [3, 9]),
        ({"REGION": "r/0"}, [0, 2, 4, 6, 8, 10]),
    ],
)
def test_partitions_of_a_path_are_pinned(
    spark: SparkSession, lake: Path, pins: dict[str, Any], expected: list[int]
) -> None:
    assert ids(read_table(spark, source(lake / "parted", snapshot={"partition": pins}))) == expected


def test_partition_columns_of_a_path_are_strings_whatever_they_hold(spark: SparkSession, lake: Path) -> None:
    frame = read_table(spark, source(lake / "parted", snapshot={"partition": {"month": 1}}))
    assert dict(frame.dtypes)["month"] == "string"


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_partition_columns_of_a_bound_type_are_values_of_it_or_null(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    for day in ("2026-01-02", SECRET, "__HIVE_DEFAULT_PARTITION__"):
        spark.range(1).coalesce(1).write.format(form).save(f"{tmp_path}/t/v1/day={day}/month=3")
    columns = {"id": "bigint", "day": "date", "month": "int"}
    table = source(tmp_path / "t", snapshot={"path_version": "v1"}, format=form, columns=columns)
    frame = read_table(spark, table)
    assert dict(frame.dtypes) == columns
    assert sorted(map(str, (tuple(row) for row in frame.collect()))) == [
        "(0, None, 3)", "(0, None, 3)", "(0, datetime.date(2026, 1, 2), 3)",
    ]  # fmt: skip
    pinned = source(tmp_path / "t", snapshot={"partition": {"day": "2026-01-02"}}, format=form, columns=columns)
    assert len(read_table(spark, pinned.model_copy(update={"path": f"{tmp_path}/t/v1"})).collect()) == 1


@pytest.mark.parametrize("value", ["04", 99, "Zebedee-4711", True, 1.5])
def test_a_partition_that_is_not_there_is_an_empty_table(spark: SparkSession, lake: Path, value: Any) -> None:
    frame = read_table(spark, source(lake / "parted", snapshot={"partition": {"month": value}}))
    assert frame.columns == ["id", "day", "month", "region"]
    assert ids(frame) == []


@pytest.mark.usefixtures("catalog")
def test_partitions_of_a_catalog_table_are_pinned(spark: SparkSession) -> None:
    table = {"format": "catalog", "name": "sales.visits"}
    assert ids(read_table(spark, source(snapshot={"partition": {"half": 1}}, **table))) == [1, 3, 5]
    pins = {"half": 1, "day": "2026-01-02"}
    assert ids(read_table(spark, source(snapshot={"partition": pins}, **table))) == [1]


def test_only_the_pinned_partition_is_read(spark: SparkSession, lake: Path) -> None:
    frame = read_table(spark, source(lake / "parted", snapshot={"partition": {"month": "01", "region": "r/0"}}))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    pruned = plan[plan.index("PartitionFilters: [") :].partition("PushedFilters")[0]
    assert "month" in pruned
    assert "region" in pruned


def test_what_a_table_means_rests_on_settings_that_are_set(spark: SparkSession, lake: Path) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    read_table(spark, source(lake / "plain", snapshot={"path_version": "v=1"}))
    assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"path": "nowhere", "snapshot": {"path_version": "v1"}}, "exists"),
        ({"path": "plain", "snapshot": {"path_version": "v=9"}}, "exists"),
        ({"path": "plain", "snapshot": {"path_version": "empty"}}, "files in it"),
        ({"path": "parted", "snapshot": {"partition": {"id": 1}}}, "this table has month and region"),
        ({"path": "parted", "snapshot": {"partition": {"year": 1}}}, "must be a column of the table"),
        ({"path": "plain/v=1", "snapshot": {"partition": {"region": "r/1"}}}, "this table has none"),
        ({"format": "catalog", "name": "sales.nothing", "snapshot": {"partition": {"half": 1}}}, "exists"),
        ({"format": "catalog", "name": "nobody.nothing", "snapshot": {"partition": {"half": 1}}}, "exists"),
        ({"format": "catalog", "name": "a.b.c.d", "snapshot": {"partition": {"half": 1}}}, "catalog that Spark knows"),
        ({"name": "sales.visits.branch_audit", "snapshot": {"table_version": 1}}, "catalog that Spark knows"),
        ({"format": "catalog", "name": "sales.visits", "snapshot": {"table_version": 1}}, "keeps its versions"),
        ({"format": "catalog", "name": "sales.recent", "snapshot": {"partition": {"half": 1}}}, "not a view"),
        ({"format": "catalog", "name": "sales.visits", "snapshot": {"partition": {"half": "x"}}}, "must not combine"),
        ({"format": "catalog", "name": "sales.visits", "snapshot": {"partition": {"day": "x"}}}, "must be a date"),
        ({"path": "gs://bucket/t", "snapshot": {"path_version": "v1"}}, "Spark can read"),
    ],
)
@pytest.mark.usefixtures("catalog")
def test_a_table_that_cannot_be_read_is_refused_in_one_line(
    spark: SparkSession, lake: Path, table: dict[str, Any], told: str
) -> None:
    if "path" in table and "://" not in table["path"]:
        table = {**table, "path": str(lake / table["path"])}
    assert told in str(refusal(spark, TableSource.parse(table)))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id": "string", "day": "date"}, "got 'column id of type bigint'; must be of type string in all files"),
        ({"id": "bigint", "day": "timestamp"}, "got 'column day of type date'; must be of type timestamp in all files"),
        (
            {"id": "bigint", "sick": "boolean"},
            "got 'sick'; must be a column of at least one file, because the account binds it",
        ),
    ],
)
def test_a_file_of_another_schema_than_the_bound_one_is_refused_before_a_row_is_read(
    spark: SparkSession, tmp_path: Path, columns: dict[str, str], told: str
) -> None:
    folder = tmp_path / "t" / "v1"
    spark.range(1000).selectExpr(
        "id", "concat('r/', id % 2) as region", "concat('0', 1 + id % 3) as month", "date '2026-01-01' as day"
    ).coalesce(1).write.parquet(str(folder))
    [file] = folder.glob("*.parquet")
    written = file.read_bytes()
    footer = int.from_bytes(written[-8:-4], "little") + 8
    # all that is no schema is damaged, so that reading any row would fail otherwise
    file.write_bytes(written[:4] + bytes(len(written) - footer - 4) + written[-footer:])
    (folder / f".{file.name}.crc").unlink()
    bound = {"format": "parquet", "columns": columns, "version": {"by": "path_version"}, "public_columns": []}
    table = source(tmp_path / "t", snapshot={"path_version": "v1"}, **bound)
    assert told in str(refusal(spark, table))


@pytest.mark.parametrize(
    "columns",
    [
        {"id": "int", "half": "bigint", "day": "date"},
        {"id": "bigint", "half": "int", "day": "date"},
        {"id": "bigint", "half": "bigint", "day": "date", "sick": "boolean"},
    ],
)
@pytest.mark.usefixtures("catalog")
def test_a_catalog_table_of_another_schema_than_the_bound_one_is_refused_alike(
    spark: SparkSession, columns: dict[str, str]
) -> None:
    version = {"by": "partition", "columns": ["half", "day"]}
    bound = {"format": "catalog", "columns": columns, "version": version, "public_columns": []}
    snapshot = {"partition": {"half": 1, "day": "2026-01-02"}}
    table = source(name="sales.visits", snapshot=snapshot, **bound)
    assert str(refusal(spark, table)) == UNBOUND.format(name="sales.visits")


@pytest.mark.usefixtures("catalog")
def test_the_printed_schema_of_a_catalog_table_binds_it(spark: SparkSession, tmp_path: Path) -> None:
    printed = tmp_path / "visits.json"
    printed.write_text(json.dumps(table_schema(spark, "sales.visits")))
    binding = binding_of("catalog:sales.visits", schema=printed)
    assert [(column.name, column.type) for column in binding.columns] == [
        ("id", "bigint"), ("half", "bigint"), ("day", "date"),
    ]  # fmt: skip
    assert binding.version.columns == ("half", "day")
    table = source(name="sales.visits", snapshot={"partition": {"half": 1, "day": "2026-01-02"}})
    assert ids(read_table(spark, table.completed(binding))) == [1]
    for name, bound in (("sales.recent", "not a view"), ("sales.nothing", "exists")):
        with pytest.raises(InvalidRequest, match=bound):
            table_schema(spark, name)


@pytest.mark.usefixtures("catalog")
def test_the_command_prints_the_schema_or_one_line(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.application.session.open_session", lambda _master: spark)
    monkeypatch.setattr(schema, "divert_output", lambda: (sys.stderr, tmp_path / "private.log"))
    monkeypatch.setattr(spark, "stop", lambda: None)
    assert schema.main(["catalog:sales.visits"]) == 0
    assert json.loads(capfd.readouterr().out) == table_schema(spark, "sales.visits")
    assert schema.main(["catalog:sales.nothing"]) == 2
    refused = capfd.readouterr()
    assert refused.out == ""
    assert refused.err == (
        "table.name: got 'sales.nothing'; must be a table that exists; check its name in the catalog\n"
    )


def test_files_that_do_not_fit_together_are_refused_without_a_look_at_rows(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t" / "v1"
    spark.range(1).selectExpr("id as a").write.parquet(str(folder))
    spark.sql(f"select '{SECRET}' as a").write.mode("append").parquet(str(folder))
    told = refusal(spark, source(tmp_path / "t", snapshot={"path_version": "v1"}))
    assert "column a of type" in str(told)


def test_a_column_that_some_files_lack_is_null_there(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "t" / "v1"
    spark.range(1).selectExpr("id").write.parquet(str(folder))
    spark.range(1, 2).selectExpr("id", "2 as later").write.mode("append").parquet(str(folder))
    frame = read_table(spark, source(tmp_path / "t", snapshot={"path_version": "v1"}))
    assert sorted((row.id, row.later) for row in frame.collect()) == [(0, None), (1, 2)]


@pytest.mark.parametrize("alone", [True, False])
def test_a_damaged_file_is_refused_and_not_quoted(spark: SparkSession, tmp_path: Path, alone: bool) -> None:
    folder = tmp_path / "t" / "v1"
    folder.mkdir(parents=True)
    if not alone:
        spark.range(1).write.mode("append").parquet(str(folder))
    (folder / "damaged.parquet").write_text(SECRET)
    told = refusal(spark, source(tmp_path / "t", snapshot={"path_version": "v1"}))
    assert "only intact files" in str(told)


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_file_without_a_byte_is_refused_in_one_line(spark: SparkSession, tmp_path: Path, form: str) -> None:
    folder = tmp_path / "t" / "v1"
    folder.mkdir(parents=True)
    (folder / f"empty.{form}").touch()
    table = source(tmp_path / "t", snapshot={"path_version": "v1"}, format=form)
    assert str(refusal(spark, table)).startswith(f"table.path: got '{tmp_path / 't'}'; must ")


class TestOrc:
    """A folder of ORC files is read like one of Parquet files."""

    def test_a_version_and_a_partition_are_read(self, spark: SparkSession, tmp_path: Path) -> None:
        rows = spark.range(12).selectExpr("id", "concat('r/', id % 2) as region")
        rows.write.orc(str(tmp_path / "plain" / "v1"))
        rows.write.partitionBy("region").orc(str(tmp_path / "parted"))
        plain = read_table(spark, source(tmp_path / "plain", snapshot={"path_version": "v1"}, format="orc"))
        parted = source(tmp_path / "parted", snapshot={"partition": {"region": "r/1"}}, format="orc")
        assert ids(plain) == list(range(12))
        assert ids(read_table(spark, parted)) == list(range(1, 12, 2))

    def test_columns_that_some_files_lack_are_null_and_other_types_are_refused(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        folder = tmp_path / "t" / "v1"
        table = source(tmp_path / "t", snapshot={"path_version": "v1"}, format="orc")
        spark.range(1).selectExpr("id").write.orc(str(folder))
        spark.range(1, 2).selectExpr("id", "2 as later").write.mode("append").orc(str(folder))
        assert sorted((row.id, row.later) for row in read_table(spark, table).collect()) == [(0, None), (1, 2)]
        spark.sql(f"select '{SECRET}' as id").write.mode("append").orc(str(folder))
        assert "one type for each column" in str(refusal(spark, table))

    def test_a_damaged_file_is_refused_and_not_quoted(self, spark: SparkSession, tmp_path: Path) -> None:
        folder = tmp_path / "t" / "v1"
        spark.range(1).write.orc(str(folder))
        (folder / "damaged.orc").write_text(SECRET)
        told = refusal(spark, source(tmp_path / "t", snapshot={"path_version": "v1"}, format="orc"))
        assert "only intact files" in str(told)

    def test_the_bound_columns_are_those_of_the_files(self, spark: SparkSession, tmp_path: Path) -> None:
        spark.range(1).write.orc(str(tmp_path / "t" / "v1"))
        pin = {"snapshot": {"path_version": "v1"}, "format": "orc"}
        assert ids(read_table(spark, source(tmp_path / "t", columns={"id": "bigint"}, **pin))) == [0]
        told = refusal(spark, source(tmp_path / "t", columns={"id": "int"}, **pin))
        assert str(told) == UNBOUND.format(name=tmp_path / "t")

    def test_no_value_stops_the_others(self, spark: SparkSession, tmp_path: Path) -> None:
        """The ends of each type, and days before the calendar changed."""
        values = {
            "day": ["date '0001-01-01'", "date '1582-10-04'", "date '9999-12-31'", "null"],
            "moment": ["timestamp '0001-01-01 00:00:00'", "timestamp '1582-10-04 00:00:00'", "null", "null"],
            "x": ["double('NaN')", "double('Infinity')", "-0.0D", "null"],
            "n": ["bigint('-9223372036854775808')", "9223372036854775807L", "0L", "null"],
            "d": ["99999.99BD", "-99999.99BD", "0.00BD", "null"],
        }
        for place in range(4):
            chosen = ", ".join(f"{texts[place]} as {name}" for name, texts in values.items())
            types = "cast(day as date) day, cast(moment as timestamp) moment, cast(x as double) x, cast(n as bigint) n"
            frame = spark.sql(f"select {types}, cast(d as decimal(7,2)) d from (select {chosen})")
            frame.write.mode("append").orc(str(tmp_path / "t" / "v1"))
        read = read_table(spark, source(tmp_path / "t", snapshot={"path_version": "v1"}, format="orc"))
        texts = read.selectExpr("string(day) d", "string(moment) m", "string(x) x", "string(n) n").collect()
        assert sorted(map(str, (row.d for row in texts))) == ["0001-01-01", "1582-10-04", "9999-12-31", "None"]
        assert {row.m for row in texts} == {"0001-01-01 00:00:00", "1582-10-04 00:00:00", None}
        assert {row.x for row in texts} == {"NaN", "Infinity", "-0.0", None}
        assert {row.n for row in texts} == {"-9223372036854775808", "9223372036854775807", "0", None}
