"""The input contract: a table's schema against what a request needs, as a Great Expectations suite.

What is needed is stated in ``spark_jobs.contract.columns``. The suite runs on a table without rows that has the
schema, so no value can decide whether it holds, and none can be in its result.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from spark_jobs.contract.column_types import TYPES
from spark_jobs.contract.columns import ColumnNeed, needs
from spark_jobs.contract.request import ReleaseRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def check_input(spark: SparkSession, schema: StructType, request: ReleaseRequest) -> None:
    """Check that a table of ``schema`` has the columns that ``request`` reads, each of a type it can use.

    The inputs of a saved pipeline are checked where it is read, and the inside of an expression where it is translated.

    Raises:
        InvalidRequest: it has not; about the first need, in the order of the request, that is not met.
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
    """The library, silent and without telemetry; importing it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    # imported into a process that logs already, it would write hundreds of lines
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations

    # sets a level of its own, and announces each context
    logging.getLogger(great_expectations.data_context.types.base.__name__).setLevel(logging.WARNING)
    return great_expectations


def warm_up() -> threading.Thread:
    """Start importing the library, beside a Spark session that starts."""
    thread = threading.Thread(target=great_expectations, name="warm-up-great-expectations", daemon=True)
    thread.start()
    return thread


def _met_expectations(
    spark: SparkSession, schema: StructType, wanted: tuple[ColumnNeed, ...]
) -> set[tuple[str, ColumnNeed]]:
    """The expectations that the schema meets: that a needed column exists, and that it has a type."""
    gx = great_expectations()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = gx.data_context.types.base.ProgressBarsConfig(globally=False)
    # the library has ideas of its own about dots in names
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
