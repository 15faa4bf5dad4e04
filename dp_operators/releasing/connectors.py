"""The jar that Spark needs to read ``s3://``: looked for before anything is charged, as Spark comes without it."""

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
"""Settings that bring classes, or name the one that reads ``s3a://``."""

_CONNECTOR = re.compile(r"hadoop-(?:aws|cloud)[\w.-]*|(?<=/)\*|fs\.s3a?\.")
_NEEDED = re.compile(r"hadoop-client-api-([\d.]+)\.jar")
_PRESENT = re.compile(r"hadoop-aws-([\d.]+)\.jar")


def require_connector(path: str | None, *, settings: Mapping[str, str], home: Path | None) -> None:
    """Refuse a table in S3 that the Spark of this machine has no connector for.

    Args:
        path: of the table.
        settings: of Spark, those of ``spark-defaults.conf`` among them.
        home: Spark's folder, with ``jars`` in it; None if it is not on this machine, where nothing can be known.

    Raises:
        InvalidRequest: neither Spark's jars nor its settings hold ``hadoop-aws``, or the jar is of another version than
            Spark's Hadoop. One line names the jar, where it was looked for and what to do.
    """
    if path is None or urlsplit(path).scheme not in S3 or home is None:
        return
    missing = missing_connector(settings=settings, home=home)
    if missing:
        version = hadoop_version(home) or "VERSION"
        raise InvalidRequest(
            "table.path",
            value=path,
            requirement=f"needs a connector: {missing}",
            remedy=f"put org.apache.hadoop:hadoop-aws:{version} into spark.jars.packages, or the jar and the AWS SDK "
            "bundle that it names into spark.jars",
        )


def missing_connector(*, settings: Mapping[str, str], home: Path) -> str:
    """What is missing for tables in S3, and where it was looked for; empty if nothing is."""
    needed = hadoop_version(home)
    names = sorted(file.name for file in (home / "jars").glob("hadoop-aws-*.jar"))
    versions = [match[1] for name in names if (match := _PRESENT.fullmatch(name))]
    if needed in versions or any(_brings(settings.get(name, "")) for name in SETTINGS):
        return ""
    if versions:
        return f"hadoop-aws-{versions[0]}.jar in {home / 'jars'} is of another version than Spark's Hadoop, {needed}"
    return f"hadoop-aws-{needed or 'VERSION'}.jar is neither in {home / 'jars'} nor in {SETTINGS[0]} or {SETTINGS[1]}"


def _brings(value: str) -> bool:
    return bool(_CONNECTOR.search(value)) or value.startswith("org.apache.hadoop.fs.")


def hadoop_version(home: Path) -> str | None:
    """The version of the Hadoop that a Spark is built with."""
    jars = (_NEEDED.fullmatch(file.name) for file in (home / "jars").glob("hadoop-client-api-*.jar"))
    return next((match[1] for match in jars if match), None)


def spark_home(environ: Mapping[str, str] = os.environ, *, binary: str | None = None) -> Path | None:
    """The folder of the Spark that is started: ``SPARK_HOME``, or that of the binary, or PySpark's."""
    named = environ.get("SPARK_HOME")
    if named:
        return Path(named)
    if binary is not None and (Path(binary).resolve().parents[1] / "jars").is_dir():
        return Path(binary).resolve().parents[1]
    package = importlib.util.find_spec("pyspark")
    return Path(package.origin).parent if package is not None and package.origin else None


def spark_defaults(home: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of ``spark-defaults.conf``, where Spark would read it; empty if there is none."""
    folder = environ.get("SPARK_CONF_DIR") or (str(home / "conf") if home else "")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines() if folder else []
    except OSError:
        return {}
    pairs = (re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines)
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and not pair[0].startswith("#")}
