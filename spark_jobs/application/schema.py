"""``python -m spark_jobs.application.schema TABLE``: the schema of a catalog's table, for ``dp-budget open|bind``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spark_jobs.application.progress import divert_output
from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.places import CATALOG
from spark_jobs.contract.store.layout import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parser() -> argparse.ArgumentParser:
    """The arguments of ``python -m spark_jobs.application.schema``."""
    arguments = argparse.ArgumentParser(
        prog="python -m spark_jobs.application.schema",
        description="Print the columns of a catalog's table, their types and its versions, as JSON that "
        "`dp-budget open` and `dp-budget bind` take by --schema. No row is read.",
    )
    arguments.add_argument("table", metavar="TABLE", help="the table: catalog:db.name, or db.name")
    arguments.add_argument("--master", help="Spark master (default: local[*], or what spark-submit decided)")
    return arguments


def table_schema(spark: SparkSession, name: str) -> dict[str, Any]:
    """The fields of a table's binding that the catalog provides, for confirmation by the administrator who binds it.

    The version of a partitioned table is given by its partition columns; that of any other table by the catalog's
    version number.

    Args:
        spark: session with the catalogs.
        name: ``db.name`` or ``catalog.db.name``.

    Raises:
        InvalidRequest: the table does not exist, it is a view, or it is stored in another format than those of
            ``catalogs.FORMATS``.
    """
    from spark_jobs.tables.catalogs import catalog_table

    frame, partitioned = catalog_table(spark, name)
    by_partition = {"by": "partition", "columns": list(partitioned)}
    return {
        "format": "catalog",
        "columns": {field.name: field.dataType.simpleString() for field in frame.schema.fields},
        "version": by_partition if partitioned else {"by": "table_version"},
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Print the schema on standard output; Spark's own output goes to a private file."""
    from spark_jobs.application.session import open_session

    arguments = parser().parse_args(argv)
    printed = os.fdopen(os.dup(1), "w")
    outside, _ = divert_output()
    try:
        spark = open_session(arguments.master)
        fields = table_schema(spark, arguments.table.removeprefix(CATALOG))
    except InvalidRequest as refused:
        print(refused, file=outside, flush=True)
        return ExitCode.REFUSED
    print(json.dumps(fields, indent=2), file=printed, flush=True)
    spark.stop()
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
