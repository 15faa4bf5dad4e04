"""A reader for Parquet files whose schema comes from their footers, so that no file's own types can fail a run.

Files with the same types are read together. Every value is then cast by itself to the bound type, exactly or else to
null. So whole numbers may be stored as doubles, as some programs store them if the column has missing values; a column
may be without any value; and of timestamps in nanoseconds, the microseconds are kept. Columns that no engine reads are
left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.contract.bound_columns import BoundColumn
from spark_jobs.contract.column_types import struct_fields
from spark_jobs.contract.footers import NANOSECONDS, VOID, Footer, common_types, is_readable, readable_part
from spark_jobs.tables.expressions import quoted

_WHOLE = ("tinyint", "smallint", "int", "bigint")


def read_parquet(
    spark: SparkSession,
    path: str,
    columns: Sequence[BoundColumn] | None,
    footers: Mapping[str, Footer],
    *,
    folders: Collection[str],
) -> DataFrame:
    """The ``columns`` of the files under ``path``, with their types, and the partition columns of the folders.

    Args:
        spark: the session.
        path: the folder.
        columns: names and types, checked against the footers (``file_checks``); None for all columns of the files.
        footers: the footers of the files to read, by their paths below the folder; if the table is pinned by a
            partition, only those of the partition.
        folders: the columns that the folders add.
    """
    types = common_types(footers.values()) if columns is None else {one.name: one.type for one in columns}
    others = {folder.lower() for folder in folders}
    types = {name: readable_part(of) for name, of in types.items() if name.lower() not in others and is_readable(of)}
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, footer in footers.items():
        of = {column.lower(): of for column, of in footer.types.items()}
        groups.setdefault(tuple(of.get(column.lower(), VOID) for column in types), []).append(name)
    if len(groups) < 2:
        # the folder as a whole: a list of its files would be long
        of_all = next(iter(groups), tuple(types.values()))
        return _read(spark, path, [path], types, of_all, folders)
    parts = [
        _read(spark, path, [f"{path}/{name}" for name in names], types, of, folders) for of, names in groups.items()
    ]
    return reduce(DataFrame.unionByName, parts)


def _read(
    spark: SparkSession,
    path: str,
    files: list[str],
    types: Mapping[str, str],
    of: Sequence[str],
    folders: Collection[str],
) -> DataFrame:
    """Files whose columns all have the types ``of``, cast to ``types``; further columns are those of folders."""
    in_files = dict(zip(types, of, strict=True))
    there = {name: _read_as(one, types[name]) for name, one in in_files.items() if one != VOID}
    # without any column of files there would be no schema, and Spark would look for one
    columns = there or {_unused(types): "int"}
    # the embedded engine has to be told the columns of folders; a name with escapes is another column to Spark
    of_folders = dict.fromkeys((name for name in folders if "%" not in name), "string")
    schema = ", ".join(f"{quoted(name)} {_ddl(one)}" for name, one in (columns | of_folders).items())
    frame = spark.read.option("basePath", path).schema(schema).parquet(*files)
    added = [name for name in frame.columns if name not in columns]
    values = (
        cast(sf.col(quoted(name)), in_files[name], to).alias(name)
        if name in there
        else sf.lit(None).cast(_ddl(to)).alias(name)
        for name, to in types.items()
    )
    return frame.select(*values, *(sf.col(quoted(name)) for name in added))


def _unused(types: Mapping[str, str]) -> str:
    return "_" * (1 + max(map(len, types), default=0))


def _ddl(type_text: str) -> str:
    """A type with the names of a struct's fields in quotes."""
    fields = struct_fields(type_text)
    if fields is None:
        return type_text
    return f"struct<{', '.join(f'{quoted(name)}: {_ddl(of)}' for name, of in fields)}>"


def _read_as(of_file: str, bound: str) -> str:
    """The type to read a column of a file's type as."""
    if of_file in NANOSECONDS:
        return "bigint"
    return bound if (of_file, bound) == ("binary", "string") else of_file


def cast(value: Column, of_file: str, bound: str) -> Column:
    """A column of a file's type, cast to the bound type: exactly or to null, but nanoseconds and floats are rounded."""
    if of_file in NANOSECONDS:
        thousands = sf.try_subtract(value, sf.pmod(value, sf.lit(1000)))
        return sf.timestamp_micros(sf.call_function("div", thousands, sf.lit(1000))).cast(bound)
    if of_file == bound or (of_file, bound) == ("binary", "string"):
        return value
    if bound in _WHOLE:
        whole = value if of_file in _WHOLE else sf.when(sf.rint(value) == value, value)
        return whole.try_cast(bound)
    if of_file in _WHOLE and bound in ("float", "double"):
        # two long numbers must not become one: they may be two units
        number = value.cast(bound)
        return sf.when(number.try_cast("bigint") == value, number)
    return value.cast(bound)
