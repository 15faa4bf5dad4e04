"""Java's exceptions, as PySpark raises them; PySpark's client alone, which has no Spark, raises none."""

from __future__ import annotations

from typing import Any

JAVA_ERRORS: Any
try:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # comes with pyspark, without types
except ImportError:
    JAVA_ERRORS = ()
else:
    JAVA_ERRORS = (Py4JJavaError,)
