"""The files of a folder, listed and opened by Spark's own file systems; only names and footers are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from spark_jobs.contract.store.pipelines import hidden
from spark_jobs.contract.store.table_files import TableFiles, UnlistedStore, footer_bytes, log_among
from spark_jobs.tables.java_errors import JAVA_ERRORS


@dataclass(frozen=True, kw_only=True)
class HadoopFiles:
    """The files below a folder, without those that Spark ignores.

    Attributes:
        sizes: the size of each file in bytes, by its path below the folder.
        open: opens the file at such a path.
        java: PySpark's gateway to the Java machine.
        log: the format of the table (such as Delta) whose log lies among the files; empty if there is none.
    """

    sizes: Mapping[str, int]
    open: Callable[[str], Any]
    java: Any
    log: str = ""

    @classmethod
    def of(cls, spark: SparkSession, folder: str) -> HadoopFiles:
        """List the files below ``folder``.

        Raises:
            UnlistedStore: the folder cannot be listed, or the session is Spark Connect's, so that only the server knows
                its store.
        """
        if is_remote():
            raise UnlistedStore("a store that only the server knows")
        java: Any = spark._jvm
        try:
            root = java.org.apache.hadoop.fs.Path(folder)
            system = root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            root = system.makeQualified(root)
            listing, sizes = system.listFiles(root, True), {}
            while listing.hasNext():
                status = listing.next()
                name = root.toUri().relativize(status.getPath().toUri()).getPath()
                sizes[str(name)] = int(status.getLen())
        except JAVA_ERRORS:
            raise UnlistedStore("a folder that cannot be listed") from None
        shown = {name: size for name, size in sorted(sizes.items()) if not hidden(name)}
        return cls(sizes=shown, open=partial(_opened, java, system, root), java=java, log=log_among(sizes))

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the files below the folder, sorted."""
        return tuple(self.sizes)

    def tail(self, name: str) -> bytes | None:
        """A file's footer (``footer_bytes``).

        Raises:
            OSError: the store failed.
        """
        try:
            return footer_bytes(self.sizes[name], partial(self._last, name))
        except JAVA_ERRORS:
            raise OSError("the store failed") from None

    def _last(self, name: str, count: int) -> bytes:
        stream = self.open(name)
        try:
            stream.seek(max(self.sizes[name] - count, 0))
            return bytes(self.java.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()


def _opened(java: Any, system: Any, root: Any, name: str) -> Any:
    return system.open(java.org.apache.hadoop.fs.Path(root, java.org.apache.hadoop.fs.Path(None, None, name)))


def listed(spark: SparkSession, folder: str, local: str | None) -> TableFiles | HadoopFiles:
    """The files below a folder, listed by this process.

    Raises:
        UnlistedStore: this process cannot list them.
    """
    from spark_jobs.contract.places import Place

    return HadoopFiles.of(spark, folder) if local is None else TableFiles.of(Place.of_folder(local))
