"""A stand-in for a catalog of Iceberg or Delta: Spark's own resolution of names and versions, over folders of Parquet.

No package registry that the tests reach has the connectors for this Spark. The stand-in is what they are to Spark, a
``TableCatalog``: it is told the version that Spark has read from the query, and answers with the table of that folder.
It says of its tables that they are of the provider that it is configured with. Spark's compiler of generated code
compiles it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "Zebedee-4711"
"""What its errors say, and no line of ours may."""
NEWEST = "newest"
_CLASS = "standin.VersionedCatalog"
_SOURCE = """
package standin;

import java.io.File;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.v2.parquet.ParquetTable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

public class VersionedCatalog implements TableCatalog {
  private String name, folder, provider;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.folder = options.get("folder");
    this.provider = options.get("provider");
  }

  public String name() { return name; }

  private Table at(Identifier table, String version) {
    File rows = new File(folder + "/" + table.name() + "/" + version);
    if (!rows.exists()) throw new IllegalArgumentException("SECRET: no version " + version);
    Map options = new HashMap();
    options.put("provider", provider);
    return new ParquetTable(
        name + "." + table,
        SparkSession.active(),
        new CaseInsensitiveStringMap(options),
        scala.jdk.javaapi.CollectionConverters.asScala(Collections.singletonList(rows.getPath())).toSeq(),
        scala.Option.apply(null),
        ParquetFileFormat.class);
  }

  public Table loadTable(Identifier table) { return at(table, "NEWEST"); }
  public Table loadTable(Identifier table, String version) { return at(table, version); }
  public Identifier[] listTables(String[] namespace) { return new Identifier[0]; }
  public Table createTable(Identifier table, TableInfo info) { throw new UnsupportedOperationException(); }
  public Table alterTable(Identifier table, TableChange[] changes) { throw new UnsupportedOperationException(); }
  public boolean dropTable(Identifier table) { throw new UnsupportedOperationException(); }
  public void renameTable(Identifier table, Identifier other) { throw new UnsupportedOperationException(); }
}
""".replace("SECRET", SECRET).replace("NEWEST", NEWEST)


@contextmanager
def versioned_catalogs(spark: SparkSession, folder: Path, **providers: str) -> Iterator[None]:
    """Let the session have catalogs by these names, with what each says of how its tables are stored."""
    java = spark._jvm
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE)
    thread = java.java.lang.Thread.currentThread()
    own = thread.getContextClassLoader()
    thread.setContextClassLoader(compiler.getClassLoader())
    settings = {
        name: value
        for catalog, provider in providers.items()
        for name, value in {
            f"spark.sql.catalog.{catalog}": _CLASS,
            f"spark.sql.catalog.{catalog}.folder": str(folder),
            f"spark.sql.catalog.{catalog}.provider": provider,
        }.items()
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
        thread.setContextClassLoader(own)
