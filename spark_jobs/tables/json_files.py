"""A reader for files of JSON lines in which no line can affect the reading of another.

The rules are public. Every line with text is a row, and is read with the declared columns alone: nothing is inferred
from the data. The line must begin with a ``{``; what follows the object is ignored. A line that is not such an object
counts as a row of nulls. A value is null if it is missing or does not fit: the text of a value is converted as by
TRY_CAST, just as in csv files. A name is matched exactly; if an object has the same name twice, the last value counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StringType, StructField, StructType

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_types import struct_fields
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.file_checks import EMPTY
from spark_jobs.contract.file_form import FileForm
from spark_jobs.tables.expressions import quoted
from spark_jobs.tables.texts import ASSUMED, UNPARSED, converted, unparsed

_OBJECT = "object"


def read_json(spark: SparkSession, path: str, columns: Sequence[BoundColumn], *, form: FileForm = ASSUMED) -> DataFrame:
    """The ``columns`` of the JSON lines in the files under ``path``, and the partition columns of the folders.

    ``form`` states how numbers, dates, booleans and nulls are written.

    Raises:
        InvalidRequest: there is no file.
    """
    lines = spark.read.text(path)
    if not lines.inputFiles():
        raise InvalidRequest("table.path", None, EMPTY[0], EMPTY[1])
    folders = lines.columns[1:]
    types = {column.name: column.type for column in columns}
    wanted = {name: of for name, of in types.items() if name not in folders}
    # the reader would put a damaged line into a column of this name, so it must be no column's
    unused = "_" * (1 + max(map(len, types), default=0))
    value = sf.regexp_replace("value", "^[ \\t\\ufeff]+", "")
    texts = sf.from_json(
        sf.when(value.startswith("{"), value),
        StructType([StructField(name, _as_texts(of)) for name, of in wanted.items()]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": unused},
    )
    rows = lines.where(sf.trim("value") != "").select(texts.alias(_OBJECT), *(quoted(name) for name in folders))
    return rows.select(
        *(_typed(sf.col(f"{_OBJECT}.{quoted(name)}"), of, form).alias(name) for name, of in wanted.items()),
        *(converted(sf.col(quoted(name)), types.get(name, "string")).alias(name) for name in folders),
        sf.struct(
            *(
                unparsed(sf.col(f"{_OBJECT}.{quoted(name)}"), of, form).alias(name)
                for name, of in wanted.items()
                if struct_fields(of) is None
            ),
            sf.lit(False).alias(unused),
        ).alias(UNPARSED),
    )


def _as_texts(of: str) -> DataType:
    """The type with text for each simple value in it."""
    fields = struct_fields(of)
    return StringType() if fields is None else StructType([StructField(name, _as_texts(part)) for name, part in fields])


def _typed(value: Column, of: str, form: FileForm) -> Column:
    fields = struct_fields(of)
    if fields is None:
        return converted(value, of, form)
    return sf.struct(*(_typed(value.getField(name), part, form).alias(name) for name, part in fields))
