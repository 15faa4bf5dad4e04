"""Checks, before anything is charged, that Spark has the jar for ``s3://``, which its distribution lacks."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from spark_jobs.contract.errors import InvalidRequest

S3 = ("s3", "s3a", "s3n")
SETTINGS = (
    "spark.jars",
    "spark.jars.packages",
    "spark.driver.extraClassPath",
    "spark.hadoop.fs.s3a.impl",
)
"""Spark settings that add jars, or that name the class which reads ``s3a://``."""

_CONNECTOR = re.compile(r"hadoop-(?:aws|cloud)[\w.-]*|(?<=/)\*|fs\.s3a?\.")
_NEEDED = re.compile(r"hadoop-client-api-([\d.]+)\.jar")
_PRESENT = re.compile(r"hadoop-aws-([\d.]+)\.jar")


def require_connector(path: str | None, *, settings: Mapping[str, str], home: Path | None) -> None:
    """Refuse a table in S3 if the Spark of this machine has no connector for it.

    Args:
        path: the table's path.
        settings: Spark's settings, including those of ``spark-defaults.conf``.
        home: Spark's folder, which contains ``jars``; None if Spark is not on this machine and cannot be checked.

    Raises:
        InvalidRequest: neither Spark's jars nor its settings have ``hadoop-aws``, or the jar's version differs from
            that of Spark's Hadoop. The message names the jar, the places that were searched, and the remedy.
    """
    if path is None or urlsplit(path).scheme not in S3 or home is None:
        return
    missing = missing_connector(settings=settings, home=home)
    if missing:
        version = hadoop_version(home) or "VERSION"
        raise InvalidRequest(
            "table.path", path, f"needs a connector: {missing}",
            f"put org.apache.hadoop:hadoop-aws:{version} into spark.jars.packages, or the jar and the AWS SDK "
            "bundle that it names into spark.jars",
        )  # fmt: skip


def missing_connector(*, settings: Mapping[str, str], home: Path) -> str:
    """The jar that is missing for tables in S3, and the places that were searched; empty if none is missing."""
    needed = hadoop_version(home)
    names = sorted(file.name for file in (home / "jars").glob("hadoop-aws-*.jar"))
    versions = [match[1] for name in names if (match := _PRESENT.fullmatch(name))]
    if needed in versions or any(_brings(settings.get(name, "")) for name in SETTINGS):
        return ""
    if versions:
        return f"hadoop-aws-{versions[0]}.jar in {home / 'jars'} does not match Spark's Hadoop, {needed}"
    return f"hadoop-aws-{needed or 'VERSION'}.jar is neither in {home / 'jars'} nor in {SETTINGS[0]} or {SETTINGS[1]}"


def _brings(value: str) -> bool:
    return bool(_CONNECTOR.search(value)) or value.startswith("org.apache.hadoop.fs.")


def hadoop_version(home: Path) -> str | None:
    """The version of Hadoop that Spark was built with; None if its jar is not in ``home``."""
    jars = (_NEEDED.fullmatch(file.name) for file in (home / "jars").glob("hadoop-client-api-*.jar"))
    return next((match[1] for match in jars if match), None)


def spark_home(environ: Mapping[str, str] = os.environ, *, binary: str | None = None) -> Path | None:
    """The folder of the Spark that is started: ``SPARK_HOME``, else that of ``spark-submit``, else PySpark's."""
    named = environ.get("SPARK_HOME")
    if named:
        return Path(named)
    if binary is not None and (Path(binary).resolve().parents[1] / "jars").is_dir():
        return Path(binary).resolve().parents[1]
    package = importlib.util.find_spec("pyspark")
    return Path(package.origin).parent if package is not None and package.origin else None


def spark_defaults(home: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings in the ``spark-defaults.conf`` that Spark would read; empty if there is no such file."""
    folder = environ.get("SPARK_CONF_DIR") or (str(home / "conf") if home else "")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines() if folder else []
    except OSError:
        return {}
    pairs = (re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines)
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and not pair[0].startswith("#")}
