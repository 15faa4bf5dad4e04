"""An archive of the classes that Spark loads: ``python -m tests.support.java_classes``, which ``make test`` does once.

The tests start Java hundreds of times. Each time it would find and check thousands of classes in Spark's jars, about
half of the time until Spark answers; mapped from an archive, they are there at once. Java ignores an archive that
another Java or other jars made.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java for short runs on small tables: half of the processor time went into compiling for speed."""
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Without these, Java says on standard output why it does not use an archive."""
SECONDS = 120


def options() -> str:
    """Options of Java for the tests."""
    return f"{QUICK} -XX:SharedArchiveFile={ARCHIVE} {SILENT}" if ARCHIVE.is_file() else QUICK


def main() -> int:
    """Start Spark, use what most tests use, and have Java write down the classes that it loaded."""
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        made = Path(folder) / ARCHIVE.name
        os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} -XX:ArchiveClassesAtExit={made} {SILENT} -Djava.io.tmpdir={folder}"
        os.environ["SPARK_LOCAL_DIRS"] = folder
        _use_spark(Path(folder))
        if not made.is_file():
            print("this Java makes no archive of classes; tests will run without one")
            return 0
        made.replace(ARCHIVE)
    return 0


def _use_spark(folder: Path) -> None:
    from pyspark import SparkContext
    from pyspark.sql import functions as sql

    from spark_jobs.application.session import open_session

    session = open_session("local[1]")
    rows = session.range(1000).select(
        "id", sql.rand(1).alias("score"), sql.col("id").cast("string").alias("name"), (sql.col("id") % 2).alias("label")
    )
    for form in ("parquet", "csv"):
        rows.write.format(form).save(str(folder / form))
    table = session.read.parquet(str(folder / "parquet")).where("score < 0.9 AND name IS NOT NULL")
    cells = table.withColumn("cell", sql.floor(sql.col("score") * 64).cast("int"))
    cells.groupBy("label", "cell").agg(sql.count("*"), sql.sum("score"), sql.min(sql.xxhash64("name", "id"))).collect()
    cells.groupBy("label").agg(sql.expr("sum(if(cell < 9, 1, 0))"), sql.max(sql.struct("score", "id"))).toArrow()
    session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS)


if __name__ == "__main__":
    sys.exit(main())
