from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_form import FileForm
from spark_jobs.contract.tables import TableSource
from spark_jobs.tables.source import read_table
from tests.support.spark import settings as spark_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "Zebedee-4711"
ONE_SENTENCE = (
    "must contain csv files that all begin with the same header line of the table's column names; "
    "write the column names into the first line of each file, in the order of the account's binding"
)
"""Whatever is wrong with a header: which name is missing would answer a question about the first line."""


def rows(spark: SparkSession, folder: Path, columns: dict[str, str]) -> list[list[Any]]:
    return sorted((list(row) for row in table(spark, folder, columns).collect()), key=repr)


def table(spark: SparkSession, folder: Path, columns: dict[str, str]) -> Any:
    fields = {"format": "csv", "path": str(folder.parent), "snapshot": {"path_version": folder.name}}
    return read_table(spark, TableSource.parse({**fields, "columns": columns}))


def write(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "v1"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.csv").write_bytes(text.encode())
    return folder


def test_columns_are_found_by_their_name_in_the_header(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, a="name,Age, score \nann,30,0.5\n", b="name,Age, score \nbob,40,0.25\n")
    assert rows(spark, folder, {"score": "double", "age": "int"}) == [[0.25, 40], [0.5, 30]]


def test_quotes_line_ends_and_compression_are_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, a='\ufeffn,t\r\n1,"a,b"\r\n2,"say ""x"""\r\n\r\n3,\r\n')
    (folder / "b.csv.gz").write_bytes(gzip.compress(b"n,t\n4,z\n"))
    assert rows(spark, folder, {"n": "int", "t": "string"}) == [[1, "a,b"], [2, 'say "x"'], [3, None], [4, "z"]]


def test_folders_give_partition_columns(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / "v1" / f"day=0{day}"
        folder.mkdir(parents=True)
        (folder / "x.csv").write_text(f"n\n{day}\n")
    assert rows(spark, tmp_path / "v1", {"n": "int"}) == [[1, "01"], [2, "02"]]
    assert rows(spark, tmp_path / "v1", {"n": "int", "day": "int"}) == [[1, 1], [2, 2]]


def test_no_value_of_a_line_stops_the_others(spark: SparkSession, tmp_path: Path) -> None:
    columns = {
        "a": "int",
        "d": "date",
        "t": "timestamp",
        "x": "double",
        "c": "decimal(5, 2)",
        "o": "boolean",
        "y": "tinyint",
        "s": "string",
    }
    lines = [
        ",".join(columns),
        "1,2026-01-31,2026-01-31 12:00:00,0.5,1.25,true,7,good",
        ",".join([SECRET] * 8),
        "99999999999,2026-02-30,12:30,1e999,1e99,2,300,far",
        "99999999999,999999999-01-01,12:30 America/Port-au-Prince,-,123456.7,-,-129,farther",
        ",,,,,,,",
        "1",
        "9," * 30_000,
        '2,"open',
        "x" * 2_000_000,
        "\x00,\x00",
        "2,2026-01-31,2026-01-31 12:00:00,0.5,1.25,true,7,last",
    ]
    folder = write(tmp_path, a="\n".join(lines) + "\n")
    with (folder / "b.csv").open("wb") as file:
        file.write(lines[0].encode() + b"\n\xff\xfe,\xc3\x28\n")
    found = {}
    for ansi in ("true", "false"):
        with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
            found[ansi] = rows(spark, folder, columns)
    assert found["true"] == found["false"]
    assert len(found["true"]) == len(lines)
    noon = datetime.datetime.fromisoformat("2026-01-31 12:00:00")
    by_name = {row[-1]: row[:-1] for row in found["true"] if row[-1] is not None}
    for name, first in (("good", 1), ("last", 2)):
        a, d, t, x, c, o, y = by_name[name]
        assert (a, d, x, float(c), o, y) == (first, datetime.date(2026, 1, 31), 0.5, 1.25, True, 7)
        assert t.astimezone(datetime.UTC).replace(tzinfo=None) == noon
    assert by_name[SECRET] == [None] * 7
    assert by_name["far"] == [None, None, None, float("inf"), None, None, None]
    assert by_name["farther"] == [None] * 7


def test_one_line_counts_once_however_it_is_quoted(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, a='n,t\n1,"two\nlines"\n2,x\n')
    assert rows(spark, folder, {"n": "int"}) == [[1], [2], [None]]


@pytest.mark.parametrize(
    ("files", "columns", "told"),
    [
        ({"a": "n,t\n1,2\n"}, {"m": "int"}, ONE_SENTENCE),
        ({"a": "n,N,t\n1,2,3\n"}, {"nn": "int"}, ONE_SENTENCE),
        ({"a": "n,n\n1,2\n"}, {"n": "int"}, ONE_SENTENCE),
        ({"a": "n,t\n1,2\n", "b": "t,n\n1,2\n"}, {"n": "int"}, ONE_SENTENCE),
        ({"a": f"{SECRET},1\n", "b": "x,2\n"}, {"n": "int"}, ONE_SENTENCE),
        ({"a": f"{SECRET},1\n"}, {"n": "int"}, ONE_SENTENCE),
        ({"a": f"{SECRET},1\n"}, {"Adam": "int"}, ONE_SENTENCE),
        ({"a": ""}, {"n": "int"}, ONE_SENTENCE),
        ({}, {"n": "int"}, ONE_SENTENCE),
        ({"a": "n\n1\n"}, {"n": "array<int>"}, "must be one of boolean"),
        ({"a": "n\n1\n"}, {"n": "decimal(2,3)"}, "must be one of boolean"),
        ({"a": "n\n1\n"}, {"n": "int, m int"}, "columns.n: got 'm int'; must be a domain ("),
    ],
)
def test_files_that_are_no_table_are_refused_without_their_words(
    spark: SparkSession, tmp_path: Path, files: dict[str, str], columns: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        table(spark, write(tmp_path, **files), columns)
    assert str(refused.value).endswith(told) if told == ONE_SENTENCE else told in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        ("n,t", {"n": "int", "t": "string"}),
        (' n ,"t"', {"n": "int", "t": "string"}),
        ("n,t,u", None),
        ("t,n", None),
        ("N,t", None),
        (f"{SECRET},t", None),
    ],
)
def test_the_header_of_an_accounts_table_is_the_bound_one(
    spark: SparkSession, tmp_path: Path, header: str, columns: dict[str, str] | None
) -> None:
    write(tmp_path, a=f"{header}\n1,x\n")
    fields = {"format": "csv", "path": str(tmp_path), "snapshot": {"path_version": "v1"}}
    bound = {"columns": {"n": "int", "t": "string"}, "version": {"by": "path_version"}, "public_columns": []}
    source = TableSource.parse({**fields, **bound})
    if columns is not None:
        assert [list(row) for row in read_table(spark, source).collect()] == [[1, "x"]]
        return
    with pytest.raises(InvalidRequest) as refused:
        read_table(spark, source)
    assert str(refused.value) == f"table.path: {ONE_SENTENCE}"


def test_a_folder_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="exists"):
        table(spark, tmp_path / "v1", {"n": "int"})


def written(tmp_path: Path, text: str | bytes, columns: dict[str, str], *options: str) -> tuple[Path, Any]:
    folder = write(tmp_path)
    (folder / "a.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    form = FileForm.of_options(options)
    source = {"format": "csv", "path": str(tmp_path), "snapshot": {"path_version": "v1"}, "columns": columns}
    return folder, TableSource.parse({**source, "file_form": form.model_dump()})


@pytest.mark.parametrize(
    ("values", "of", "options", "expected"),
    [
        (["1.0", "0.0", "-3.000", "1.5", "1e3", "2"], "int", [], [1, 0, -3, None, None, 2]),
        (["1.0", "0.0", "true"], "boolean", [], [True, False, True]),
        (['"12,345.60"', '"1,2"', "999", '"1,234"', "NA", "1.5"], "double", ["thousands=,"],
         [12345.6, None, 999.0, 1234.0, None, 1.5]),
        (['"1,23,456.5"'], "double", ["thousands=,"], [123456.5]),
        (['"0,52"', '"1.234,5"', "1.234", "7"], "double", ["decimal=,"], [0.52, None, None, 7.0]),
        (['"1.234,5"', "1.234", "12.34", "NaN"], "double", ["decimal=,", "thousands=."],
         [1234.5, 1234.0, None, float("nan")]),
        (['"1.234"', '"1,0"'], "int", ["decimal=,", "thousands=."], [1234, 1]),
        (["52%", "12.3 %", "0.5", "%"], "double", ["percent=yes"], [0.52, 0.123, 0.5, None]),
        ([" >50K", '" a "', "   ", '""'], "string", [], [">50K", "a", None, None]),
        ([" >50K"], "string", ["trim=no"], [" >50K"]),
        (["NA", "?", "x", ""], "string", ["null=NA", "null=?"], [None, None, "x", None]),
        (["ja", "nein", "true"], "boolean", ["true=ja", "false=nein"], [True, False, None]),
        (["10/03/2004", "1/3/2004", "31/02/2004", "2004-03-10"], "date", ["date=dd/MM/yyyy"],
         [datetime.date(2004, 3, 10), None, None, None]),
        (["3/10/04", "13/1/04"], "date", ["date=M/d/yy"], [datetime.date(2004, 3, 10), None]),
        (["10-Mar-2004", "01-DEC-1999", "01-XXX-1999"], "date", ["date=dd-MMM-yyyy"],
         [datetime.date(2004, 3, 10), datetime.date(1999, 12, 1), None]),
        (["20040310"], "date", ["date=yyyyMMdd"], [datetime.date(2004, 3, 10)]),
        (["10/03/2004 18.00.00", "10/03/2004 25.00.00", "18.00.00"], "timestamp_utc",
         ["timestamp=dd/MM/yyyy HH.mm.ss"], ["2004-03-10T18:00:00", None, None]),
        (["3/10/2004 6:05 PM", "3/10/2004 12:00 AM", "3/10/2004 0:00 AM"], "timestamp_utc",
         ["timestamp=M/d/yyyy h:mm a"], ["2004-03-10T18:05:00", "2004-03-10T00:00:00", None]),
        (["2004-03-10T18:00:00.1234567+02:00"], "timestamp_utc", ["timestamp=yyyy-MM-dd'T'HH:mm:ss.SSSSSSSXXX"],
         ["2004-03-10T16:00:00.123456"]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_values_are_read_in_their_declared_form(
    spark: SparkSession, tmp_path: Path, values: list[str], of: str, options: list[str], expected: list[Any]
) -> None:
    lines = "".join(f"{place},{value}\n" for place, value in enumerate(values))
    _, source = written(tmp_path, f"n,v\n{lines}", {"n": "int", "v": of.removesuffix("_utc")}, *options)
    found = [row["v"] for row in sorted(read_table(spark, source).collect())]
    if of == "timestamp_utc":
        found = [one and one.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() for one in found]
    assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (b"t;d;h\n\xfc \x80;10/03/2004;18.00.00\n", ["separator=;", "encoding=cp1252", "date=dd/MM/yyyy"], "ü €"),
        (b"t;d;h\n\xfc \x80;10/03/2004;18.00.00\n", ["separator=;", "encoding=latin1", "date=dd/MM/yyyy"], "ü \x80"),
        (b"t\td\th\n\xa4\t10/03/2004\tx\n", ["separator=tab", "encoding=iso8859-15", "date=dd/MM/yyyy"], "€"),
        (rb't,d,h' b"\n" rb'"a \"b\", c",10/03/2004,x' b"\n", ["escape=\\", "date=dd/MM/yyyy"], 'a "b", c'),
        (b"t|d|h\n'a|b'|10/03/2004|x\n", ["separator=pipe", "quote='", "date=dd/MM/yyyy"], "a|b"),
        (b't,d,h\n a"b , 10/03/2004 ,x\n', ["quote=none", "date=dd/MM/yyyy"], 'a"b'),
        (b't,d,h\n "a, b" , 10/03/2004 ,x\n', ["date=dd/MM/yyyy"], "a, b"),
    ],
)  # fmt: skip
def test_lines_are_read_in_their_declared_form(
    spark: SparkSession, tmp_path: Path, text: bytes, options: list[str], expected: str
) -> None:
    columns = {"t": "string", "d": "date", "h": "string"}
    _, source = written(tmp_path, text, columns, *options)
    [row] = read_table(spark, source).collect()
    assert (row["t"], row["d"]) == (expected, datetime.date(2004, 3, 10))


def test_no_text_makes_a_declared_form_fail(spark: SparkSession, tmp_path: Path) -> None:
    odd = [
        "",
        "+",
        "99999999999/99/99",
        "00/00/0000",
        "31/12/9999",
        "1e999%",
        "-.,%",
        "\u0663",
        "'",
        "1,,1",
        "$1",
        "\\",
    ]
    options = ["decimal=,", "thousands=.", "percent=yes", "date=dd/MM/yyyy", "timestamp=d/M/yyyy h:mm a", "separator=;"]
    columns = {"n": "int", "i": "bigint", "x": "double", "c": "decimal(5,2)", "d": "date", "t": "timestamp"}
    lines = "".join(f"{place};{';'.join([text] * 5)}\n" for place, text in enumerate(odd))
    _, source = written(tmp_path, f"{';'.join(columns)}\n{lines}", columns, *options)
    for ansi in ("true", "false"):
        with spark_settings(spark, {"spark.sql.ansi.enabled": ansi}):
            assert read_table(spark, source).count() == len(read_table(spark, source).collect()) == len(odd)
