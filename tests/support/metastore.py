"""A Hive metastore in Derby, and what a Spark that finds its tables there makes of them.

Only one process at a time may open the metastore, so each use is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.contract.errors import InvalidRequest
from spark_jobs.contract.tables import TableSource
from tests.support.repository import ROOT


@dataclass(frozen=True)
class Metastore:
    """A folder with a metastore, a warehouse, and the settings by which Spark finds both."""

    folder: Path

    @classmethod
    def create(cls, folder: Path) -> Metastore:
        """An empty one."""
        settings = {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": f"file://{folder}/warehouse",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
            "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
            "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={folder}/derby.log",
        }
        (folder / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        return cls(folder)

    def files(self, table: str) -> Path:
        """The folder of a table's files."""
        return self.folder / "warehouse" / "sales.db" / table

    def execute(self, statements: Sequence[str]) -> None:
        """Run SQL statements."""
        self._process({"statements": statements})

    def read(self, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, int | str]:
        """For each table, the number of rows that a release would read, or the line that refuses it."""
        read: dict[str, int | str] = self._process({"tables": tables})
        return read

    def _process(self, task: Mapping[str, Any]) -> Any:
        ended = subprocess.run(
            [sys.executable, "-m", "tests.support.metastore"],
            input=json.dumps(task),
            env={**os.environ, "SPARK_CONF_DIR": str(self.folder)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        return json.loads(ended.stdout.splitlines()[-1])


def main() -> None:
    """Do the task on standard input, in this process."""
    from pyspark.sql import SparkSession

    from spark_jobs.tables.source import read_table

    task = json.load(sys.stdin)
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    for statement in task.get("statements", ()):
        spark.sql(statement)
    found: dict[str, int | str] = {}
    for name, fields in task.get("tables", {}).items():
        try:
            found[name] = len(read_table(spark, TableSource.parse(fields)).collect())
        except InvalidRequest as refused:
            found[name] = str(refused)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
