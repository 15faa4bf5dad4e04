"""Fields of structs as columns of their own, named by their path, so that later code reads a flat table."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, StructType

from spark_jobs.contract.nested_fields import NestedField, nested_fields
from spark_jobs.tables.expressions import quoted
from spark_jobs.tables.texts import UNPARSED


def with_fields(frame: DataFrame) -> DataFrame:
    """``frame`` with the simple fields of its structs after its columns; a field of a null struct is null.

    Spark reads only those fields from a columnar file that are used later.
    """
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields if field.name != UNPARSED}
    fields = [field for field in nested_fields(types) if _is_in(field, frame.schema)]
    columns = (sf.col(".".join(quoted(name) for name in field.names)).alias(field.path) for field in fields)
    return frame.select(*(quoted(name) for name in frame.columns), *columns) if fields else frame


def _is_in(field: NestedField, schema: DataType) -> bool:
    """Whether the field is where its path leads: the text of a type is ambiguous if a name has a colon or a bracket."""
    for name in field.names:
        if not isinstance(schema, StructType) or name not in schema.names:
            return False
        schema = schema[name].dataType
    return True
