"""The input contract: a table's schema against what a request needs, as a Great Expectations suite.

The needs of a request are declared in ``spark_jobs.contract.columns``. The suite runs on an empty table with the same
schema, so its result cannot depend on a value or contain one.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.column_types import TYPES
from spark_jobs.contract.columns import ColumnNeed, needs
from spark_jobs.contract.table_request import TableRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def check_input(spark: SparkSession, schema: StructType, request: TableRequest) -> None:
    """Check that a table of ``schema`` has the columns that ``request`` reads, each of a type it can use.

    The inputs of a saved pipeline are checked where it is read, and the inside of an expression where it is translated.

    Raises:
        InvalidRequest: a column is missing or has the wrong type; it names the first one in the order of the request.
    """
    wanted = needs(request, schema.names)
    met = _met_expectations(spark, schema, wanted)
    for need in wanted:
        if ("exists", need) not in met:
            raise need.missing(schema.names)
        if ("type", need) not in met:
            field = next(field for field in schema.fields if field.name == need.spelling_in(schema.names))
            raise need.mistyped(field.dataType.simpleString())


def great_expectations() -> Any:
    """The Great Expectations library, silent and without telemetry; importing it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # in a process with logging configured, the import would log hundreds of lines
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations

    # this module sets its own level, and logs each context
    logging.getLogger(great_expectations.data_context.types.base.__name__).setLevel(logging.WARNING)
    return great_expectations


def warm_up() -> threading.Thread:
    """Start importing the library in a thread, while the Spark session starts."""
    thread = threading.Thread(target=great_expectations, name="warm-up-great-expectations", daemon=True)
    thread.start()
    return thread


def _met_expectations(
    spark: SparkSession, schema: StructType, wanted: tuple[ColumnNeed, ...]
) -> set[tuple[str, ColumnNeed]]:
    """The expectations that the schema meets: ``exists`` and ``type`` for each needed column."""
    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    # the library interprets dots in column names
    aliases = {name: f"column_{place}" for place, name in enumerate(schema.names)}
    expectations = []
    for number, need in enumerate(wanted):
        column = aliases.get(need.spelling_in(schema.names) or "", "missing")
        types = [name for kind in need.kinds for name in TYPES[kind]]
        exists = gx.expectations.ExpectColumnToExist(column=column, meta={"need": number, "of": "exists"})
        typed = gx.expectations.ExpectColumnValuesToBeInTypeList(
            column=column, type_list=types, meta={"need": number, "of": "type"}
        )
        expectations += [exists] if column == "missing" else [exists, typed]
    empty = spark.createDataFrame([], schema).toDF(*aliases.values())
    source = context.data_sources.add_spark("input")
    batch = source.add_dataframe_asset("table").add_batch_definition_whole_dataframe("empty")
    suite = gx.ExpectationSuite(name="input", expectations=expectations)
    results = batch.get_batch({"dataframe": empty}).validate(suite, result_format="BOOLEAN_ONLY").results
    facts = [result.expectation_config.meta for result in results if result.success]
    return {(str(meta["of"]), wanted[int(meta["need"])]) for meta in facts}
