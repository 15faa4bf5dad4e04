"""The exceptions that PySpark raises for Java's; none if only PySpark's client is installed, which has no Spark."""

from __future__ import annotations

from typing import Any

JAVA_ERRORS: Any
try:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark, without types
except ImportError:
    JAVA_ERRORS = ()
else:
    JAVA_ERRORS = (Py4JJavaError,)
