"""A reader for CSV files in which no line can affect the reading of another.

The rules are public. All files begin with the same header line; for the table of an account, this is the header that
the account binds. Every line is a row: a quoted value ends with its line, so that a record whose quoted field contains
line breaks counts as several rows. A line without text, or equal to the header, is omitted; a line with more than
``MAX_VALUES`` values counts as a line of nulls. Separator, quotes, encoding and the form of values are the table's
(``FileForm``). Texts are converted as by TRY_CAST; values that do not fit, and empty values, are null.

Spark's own reader raises on a line with too many values, and reads a time of day as a timestamp of the current date.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import HEADER
from spark_jobs.contract.file_form import FileForm, upper_half
from spark_jobs.contract.first_line import header_names
from spark_jobs.tables.expressions import quoted
from spark_jobs.tables.texts import ASSUMED, UNPARSED, converted, unparsed

MAX_VALUES = 10_000
"""The largest number of values in a line; Spark's parser raises on twice as many."""


def read_csv(
    spark: SparkSession, path: str, columns: Sequence[BoundColumn], *, bound: bool, form: FileForm = ASSUMED
) -> DataFrame:
    """The ``columns`` of the csv files under ``path``, with their types, and the partition columns of the folders.

    Args:
        spark: the session.
        path: the folder.
        columns: names and types.
        bound: whether ``columns`` is exactly the header, in its order, followed by the partition columns.
        form: how the files are written.

    Raises:
        InvalidRequest: the first lines of the files differ, or the header lacks a column. The message is the same in
            all cases and quotes nothing, because a file without a header begins with a private row.
    """
    types = {column.name: column.type for column in columns}
    lines = spark.read.text(path)
    folders = lines.columns[1:]
    decoded = _decoded(sf.col("value"), form.encoding)
    header = _header(lines, decoded)
    names = [] if header is None else header_names(header, form)
    wanted = [name for name in types if name not in folders]
    places = {name: _place(name, names) for name in wanted}
    exact = names == wanted and set(folders) <= set(types)
    if header is None or None in places.values() or (bound and not exact):
        raise InvalidRequest("table.path", None, HEADER[0], HEADER[1])
    rows = lines.select(decoded.alias("value"), *(quoted(name) for name in folders))
    rows = rows.where((sf.col("value") != header) & (sf.trim("value") != ""))
    few = sf.length("value") - sf.length(sf.replace("value", sf.lit(form.separator), sf.lit(""))) < MAX_VALUES
    texts = sf.from_csv(
        sf.when(few, sf.col("value")),
        ", ".join(f"c{place} string" for place in range(len(names))),
        _options(form),
    )
    rows = rows.select(texts.alias("values"), *(quoted(name) for name in folders))
    texts_of = {name: _text(sf.col(f"values.c{place}"), form) for name, place in places.items()}
    return rows.select(
        *(converted(texts_of[name], types[name], form).alias(name) for name in places),
        *(converted(sf.col(quoted(name)), types.get(name, "string")).alias(name) for name in folders),
        *(
            [
                sf.struct(*(unparsed(text, types[name], form).alias(name) for name, text in texts_of.items())).alias(
                    UNPARSED
                )
            ]
            if texts_of
            else []
        ),
    )


def _options(form: FileForm) -> dict[str, str]:
    trim = str(form.trim).lower()
    return {
        "mode": "PERMISSIVE",
        "sep": form.separator,
        "quote": form.quote or "\0",
        "escape": form.escape or form.quote or "\0",
        "ignoreLeadingWhiteSpace": trim,
        "ignoreTrailingWhiteSpace": trim,
    }


def _text(text: Column, form: FileForm) -> Column:
    text = sf.trim(text) if form.trim else text
    # an empty text, such as of a value in quotes or of blanks alone, is no value
    return sf.when(text != "", text)


def _decoded(line: Column, encoding: str) -> Column:
    """A line's text: for an encoding of one byte a character, that of Latin-1 with its upper half replaced."""
    if encoding == "utf-8":
        return line
    latin = sf.decode(line.cast("binary"), "ISO-8859-1")
    meant, plain = str(upper_half(encoding)), "".join(map(chr, range(128, 256)))
    changed = [(one, other) for one, other in zip(plain, meant, strict=True) if one != other]
    if not changed:
        return latin
    return sf.translate(latin, "".join(one for one, _ in changed), "".join(other for _, other in changed))


def _header(lines: DataFrame, decoded: Column) -> str | None:
    """The common first line of all files; None if the first lines differ or there are none."""
    places = lines.select(
        decoded, "_metadata.file_path", "_metadata.file_block_start", sf.monotonically_increasing_id()
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
