"""Rows that hold a secret in every column, and requests that try to make somebody say it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.column_checks import check_columns
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.request import ReleaseRequest
from spark_jobs.tables.contribution import bound_contributions
from spark_jobs.tables.expressions import filter_column
from spark_jobs.tables.scoring import label_and_score, prepare_model
from spark_jobs.tables.source import read_table
from tests.support.requests import LOGISTIC, a_request
from tests.support.spark import settings as spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify]

WORD, NUMBER, DAY = "Zebedee", "47114711", "1847-03-11"
SECRETS = (WORD, NUMBER, DAY)
ROW = (
    f"'{WORD}' as name, {NUMBER} as pin, {NUMBER}.25D as amount, {NUMBER}BD as exact, date '{DAY}' as born, "
    f"timestamp '{DAY} 10:11:12' as seen, '{NUMBER}' as digits, '{DAY}' as written, 1 as y, 0.5D as score, "
    f"array('{WORD}') as several, named_struct('inside', {NUMBER}) as nested"
)
TYPES = {
    "name": "string",
    "pin": "int",
    "amount": "double",
    "exact": "decimal(20,2)",
    "born": "date",
    "seen": "timestamp",
    "digits": "string",
    "written": "string",
    "y": "int",
    "score": "double",
}
COLUMNS_MODEL = {"kind": "columns", "basis": "public", "score": "score"}

HOSTILE: list[dict[str, Any]] = [
    # casts and arithmetic that would raise, and print what they failed on
    {"where": "cast(name as int) = 1"},
    {"where": "cast(name as double) / 0 = 1 or cast(name as date) = born or cast(name as boolean)"},
    {"where": "pin * 9223372036854775807 > 0 and -pin < 0 and abs(pin) > 0 and cast(amount * 1e300 as int) = 1"},
    {"where": "cast(exact as int) / (pin - pin) > 1 and year(born) / (year(seen) - 1847) = 1"},
    {"where": "length(name) / 0 > 1 and ln(-amount) > 0 and sqrt(-amount) > 0 and power(amount, 1e9) > 0"},
    {"model": {**LOGISTIC, "coefficients": {"cast(name as double)": 1, "pin * pin * pin": 1, "1 / (y - 1)": 1}}},
    {"model": {**LOGISTIC, "coefficients": {"amount": 1e308}, "categorical": {"name": {"x": 1}, "pin": {"1": 1}}}},
    # values of the wrong class, and scores that do not fit
    {"label": {"column": "name", "positive": "a", "negative": "b"}},
    {"label": "pin"},
    {"model": {**COLUMNS_MODEL, "score": "amount"}},
    {"model": {**COLUMNS_MODEL, "score": "exact"}, "scoring": {"outside": "drop"}},
    {"unit": {"column": "name"}},
    # requests that the schema refuses
    {"label": "name"},
    {"model": {**COLUMNS_MODEL, "score": "name"}},
    {"model": {**LOGISTIC, "coefficients": {"name": 1}}},
    {"where": "name > 1"},
    {"where": "name = born"},
    {"where": "several is null"},
    {"where": "nested is null"},
    {"where": "raise_error(name) is null"},
    {"where": "(select max(name) from t) > 'a'"},
    {"unit": {"column": "nested"}},
]


def run(spark: SparkSession, request: ReleaseRequest) -> int:
    table = read_table(spark, request.table)
    check_columns(request, {field.name: field.dataType.simpleString() for field in table.schema.fields})
    if request.where is not None:
        table = table.where(filter_column(request.where, table.schema))
    prepared = prepare_model(table, request.model)
    label, score = label_and_score(prepared, request)
    unit = [] if request.unit.column is None else [request.unit.column]
    rows = prepared.select(label.alias("label"), score.alias("points"), *unit)
    bounded = bound_contributions(rows, unit=request.unit, keys=["label", "points"], salt=b"0123456789abcdef")
    return bounded.where("label is not null and points is not null").count()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("lake")
    spark.sql(f"select {ROW}").write.parquet(str(folder / "parquet" / "v1"))
    csv = folder / "csv" / "v1"
    csv.mkdir(parents=True)
    lines = [
        ",".join(TYPES),
        ",".join([WORD] * len(TYPES)),
        ",".join([NUMBER] * len(TYPES)),
        f'"{WORD}',
        f"{WORD}," * 30_000,
    ]
    (csv / "a.csv").write_text("\n".join(lines))
    return {
        "parquet": {"path": str(folder / "parquet"), "snapshot": {"path_version": "v1"}},
        "csv": {
            "format": "csv",
            "path": str(folder / "csv"),
            "columns": TYPES,
            "snapshot": {"path_version": "v1"},
        },
    }


@pytest.mark.parametrize(("kind", "ansi"), [("parquet", "true"), ("parquet", "false"), ("csv", "true")])
def test_no_request_makes_anybody_say_a_value(
    spark: SparkSession,
    tables: dict[str, dict[str, Any]],
    kind: str,
    ansi: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = []
    with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
        for changes in HOSTILE:
            try:
                run(spark, a_request(table=tables[kind], **changes))
            except InvalidRequest as refused:
                said.append(str(refused))
    assert 8 <= len(said) <= 12
    printed = capfd.readouterr()
    everything = "\n".join([*said, printed.out, printed.err, caplog.text])
    assert [secret for secret in SECRETS if secret in everything] == []


def test_ordinary_sql_does_say_it(spark: SparkSession, tables: dict[str, dict[str, Any]]) -> None:
    """The control: without the total forms the secret is in the error."""
    from pyspark.errors import PySparkException

    frame = spark.read.parquet(tables["parquet"]["path"] + "/v1")
    with spark_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        for text in ("cast(name as int)", "cast(amount * 1e300 as int)", "cast(written as double)"):
            with pytest.raises(PySparkException) as raised:
                frame.selectExpr(text).collect()
            assert any(secret[:8] in str(raised.value) for secret in (WORD, "4.7114711", DAY))


def test_a_damaged_page_says_nothing_about_rows(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark raises while it counts is about the file; the application keeps even that to itself."""
    folder = tmp_path / "t" / "v1"
    spark.sql(f"select {ROW}").coalesce(1).write.option("compression", "none").parquet(str(folder))
    for crc in folder.glob(".*.crc"):
        crc.unlink()
    file = next(folder.glob("*.parquet"))
    content = bytearray(file.read_bytes())
    content[4:400] = b"\xff" * 396
    file.write_bytes(content)
    request = a_request(table={"path": str(tmp_path / "t"), "snapshot": {"path_version": "v1"}})
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever the reader trips over
        run(spark, request)
    assert [secret for secret in SECRETS if secret in str(raised.value)] == []
