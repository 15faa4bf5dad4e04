"""A reader for CSV files in which no line can affect the reading of another.

The rules are public. All files begin with the same header line; for the table of an account, it is the bound one. Every
line is a row, so that a record whose quoted field contains line breaks counts as several rows: a quoted value ends with
its line, and a ``"`` inside it is doubled. A line without text, or equal to the header, is omitted; a line with more
than ``MAX_VALUES`` separators counts as a line of nulls. Texts are converted as by TRY_CAST; values that do not fit,
and empty values, are null.

Spark's own reader raises on a line with too many values, and reads a time of day as a timestamp of the current date.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.contract.binding import BoundColumn
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.tables.expressions import quoted
from spark_jobs.tables.texts import converted

MAX_VALUES = 10_000
"""The largest number of values in a line; Spark's parser raises on twice as many."""


def read_csv(spark: SparkSession, path: str, columns: Sequence[BoundColumn], *, bound: bool) -> DataFrame:
    """The ``columns`` of the csv files under ``path``, with their types, and the partition columns of the folders.

    Args:
        spark: the session.
        path: the folder.
        columns: names and types.
        bound: whether ``columns`` is exactly the header, in its order, followed by the partition columns.

    Raises:
        InvalidRequest: the first lines of the files differ, or the header lacks a column. The message is the same in
            all cases and quotes nothing, because a file without a header begins with a private row.
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
            requirement="must contain csv files that all begin with the same header line of the table's column names",
            remedy="write the column names into the first line of each file, in the order of the account's binding",
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
        *(converted(sf.col(f"values.c{place}"), types[name]).alias(name) for name, place in places.items()),
        *(converted(sf.col(quoted(name)), types.get(name, "string")).alias(name) for name in folders),
    )


def _header(lines: DataFrame) -> str | None:
    """The common first line of all files; None if the first lines differ or there are none."""
    places = lines.select(
        "value", "_metadata.file_path", "_metadata.file_block_start", sf.monotonically_increasing_id()
    )
    places = places.toDF("value", "file", "start", "place").where("start = 0")
    firsts = places.groupBy("file").agg(sf.min_by("value", "place").alias("value")).select("value").distinct()
    headers = [str(row["value"]) for row in firsts.limit(2).collect()]
    return headers[0] if len(headers) == 1 else None


def _place(name: str, names: list[str]) -> int | None:
    """The index of ``name`` in ``names``, if it occurs exactly once; else None."""
    same = [place for place, other in enumerate(names) if other == name]
    alike = same or [place for place, other in enumerate(names) if other.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None
