"""CSV files, read so that no line can stop or change the reading of another.

The rules are public. The first line of every file is one and the same header. A line is a row: a quoted value ends with
its line, and a ``"`` inside it is written twice. A line without text, or equal to the header, is left out; one with
more than ``MAX_VALUES`` separators counts as a line of nulls. A column's text is converted as TRY_CAST does, and what
does not fit, as well as an empty value, is null.

Spark's own reader raises on a line with too many values, and takes a time of day for a moment of today.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.contract.errors import RequestRefused
from spark_jobs.tables.expressions import quoted

MAX_VALUES = 10_000
"""Values in a line at most; Spark's parser raises on twice as many."""

TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp")
_SYNONYMS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")


def read_csv(spark: SparkSession, path: str, columns: Mapping[str, str]) -> DataFrame:
    """The ``columns`` of the csv files under ``path``, of their types, and the partition columns of the folders.

    Raises:
        RequestRefused: an unknown type, files whose first lines differ, or a header without one of the columns. What
            the header says is not told: a file without one begins with somebody's row.
    """
    types = {name: column_type(name, text) for name, text in columns.items()}
    lines = spark.read.text(path)
    folders = lines.columns[1:]
    header = _header(lines, path)
    names = [name.strip() for name in next(csv.reader([header]))]
    places = {name: _place(name, names) for name in types if name not in folders}
    few = sf.length("value") - sf.length(sf.replace("value", sf.lit(","), sf.lit(""))) < MAX_VALUES
    texts = sf.from_csv(
        sf.when(few, sf.col("value")),
        ", ".join(f"c{place} string" for place in range(len(names))),
        {"mode": "PERMISSIVE", "sep": ",", "quote": '"', "escape": '"'},
    )
    rows = lines.where((sf.col("value") != header) & (sf.trim("value") != ""))
    rows = rows.select(texts.alias("values"), *(quoted(name) for name in folders))
    return rows.select(
        *(_converted(sf.col(f"values.c{place}"), types[name]).alias(name) for name, place in places.items()),
        *(_converted(sf.col(quoted(name)), types.get(name, "string")).alias(name) for name in folders),
    )


def column_type(name: str, text: str) -> str:
    """The type that a request gives for the csv column ``name``, as Spark writes it.

    Raises:
        RequestRefused: none of the types that a csv column may have.
    """
    wanted = re.sub(r"\s", "", text.lower())
    wanted = _SYNONYMS.get(wanted, wanted)
    decimal = _DECIMAL.fullmatch(wanted)
    if wanted in TYPES or (decimal and 0 <= int(decimal[2]) <= int(decimal[1]) <= 38 and int(decimal[1]) > 0):
        return wanted
    raise RequestRefused(
        f"table.columns.{name}",
        given=text,
        bound=f"must be one of {', '.join(TYPES)}, decimal(p,s)",
        remedy="correct the type",
    )


def _header(lines: DataFrame, path: str) -> str:
    """The line that every file begins with."""
    places = lines.select(
        "value", "_metadata.file_path", "_metadata.file_block_start", sf.monotonically_increasing_id()
    )
    places = places.toDF("value", "file", "start", "place").where("start = 0")
    firsts = places.groupBy("file").agg(sf.min_by("value", "place").alias("value")).select("value").distinct()
    found = [str(row["value"]) for row in firsts.limit(2).collect()]
    if len(found) != 1:
        raise RequestRefused(
            "table.path",
            given=path,
            bound="must hold csv files that all begin with the same header line",
            remedy="write the columns' names into the first line of each file, in one order",
        )
    return found[0]


def _place(name: str, names: list[str]) -> int:
    same = [place for place, other in enumerate(names) if other == name]
    alike = same or [place for place, other in enumerate(names) if other.lower() == name.lower()]
    if len(alike) != 1:
        raise RequestRefused(
            "table.columns",
            given=name,
            bound="must be named once in the first line of the csv files",
            remedy="correct the name, or write a header line",
        )
    return alike[0]


def _converted(text: Column, type_name: str) -> Column:
    if type_name == "string":
        return text
    if type_name == "timestamp":
        # a time of day alone would become a moment of the day of the run
        return sf.when(text.rlike(r"^\s*[+-]?\d{4,}-"), text.try_cast(type_name))
    return text.try_cast(type_name)
