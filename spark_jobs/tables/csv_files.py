"""CSV files, read so that no line can stop or change the reading of another.

The rules are public. The first line of every file is one and the same header; of a table of an account, the one that is
bound. A line is a row, so that a record whose quoted field holds line breaks is several: a quoted value ends with its
line, and a ``"`` inside it is written twice. A line without text, or equal to the header, is left out; one with
more than ``MAX_VALUES`` separators counts as a line of nulls. A column's text is converted as TRY_CAST does, and what
does not fit, as well as an empty value, is null.

Spark's own reader raises on a line with too many values, and takes a time of day for a moment of today.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.contract.binding import BoundColumn
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.tables.expressions import quoted

MAX_VALUES = 10_000
"""Values in a line at most; Spark's parser raises on twice as many."""


def read_csv(spark: SparkSession, path: str, columns: Sequence[BoundColumn], *, bound: bool) -> DataFrame:
    """The ``columns`` of the csv files under ``path``, of their types, and the partition columns of the folders.

    Args:
        spark: the session.
        path: the folder.
        columns: names and types.
        bound: whether they are the whole header, in its order, and then the partition columns.

    Raises:
        InvalidRequest: files whose first lines differ, or a header that has not the columns. One sentence, whatever
            is wrong and wherever: a file without a header begins with somebody's row.
    """
    types = {column.name: column.type for column in columns}
    lines = spark.read.text(path)
    folders = lines.columns[1:]
    header = _header(lines)
    names = [] if header is None else [name.strip() for name in next(csv.reader([header]), [])]
    wanted = [name for name in types if name not in folders]
    places = {name: _place(name, names) for name in wanted}
    exact = names == wanted and set(folders) <= set(types)
    if header is None or None in places.values() or (bound and not exact):
        raise InvalidRequest(
            "table.path",
            requirement="must hold csv files that all begin with one header line, which names the table's columns",
            remedy="write the columns' names into the first line of each file, in the order in which they are bound",
        )
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


def _header(lines: DataFrame) -> str | None:
    """The line that every file begins with; None if there is no such line."""
    places = lines.select(
        "value", "_metadata.file_path", "_metadata.file_block_start", sf.monotonically_increasing_id()
    )
    places = places.toDF("value", "file", "start", "place").where("start = 0")
    firsts = places.groupBy("file").agg(sf.min_by("value", "place").alias("value")).select("value").distinct()
    headers = [str(row["value"]) for row in firsts.limit(2).collect()]
    return headers[0] if len(headers) == 1 else None


def _place(name: str, names: list[str]) -> int | None:
    """Where ``names`` has ``name``, once; None if it has not."""
    same = [place for place, other in enumerate(names) if other == name]
    alike = same or [place for place, other in enumerate(names) if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _converted(text: Column, type_name: str) -> Column:
    if type_name == "string":
        return text
    if type_name == "timestamp":
        # a time of day alone would become a moment of the day of the run
        return sf.when(text.rlike(r"^\s*[+-]?\d{4,}-"), text.try_cast(type_name))
    return text.try_cast(type_name)
