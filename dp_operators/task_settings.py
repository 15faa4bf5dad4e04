"""The Spark settings that the author of a task or of a command may choose: the resources of a release, nothing else.

Any other setting decides what is read, where it goes or which code runs: a metastore gives a table a second name, a
metrics sink writes exact counts, a jar is a program. Those are the administrator's, in the connection or in
``spark-defaults.conf``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spark_jobs.contract.errors import InvalidRequest

_OF_BOTH = ("cores", "memory", "memoryOverhead", "memoryOverheadFactor")
TASK_SETTINGS = frozenset(
    (
        *(f"spark.{part}.{name}" for part in ("driver", "executor") for name in _OF_BOTH),
        *(f"spark.kubernetes.{part}.{name}.cores" for part in ("driver", "executor") for name in ("request", "limit")),
        *(f"spark.emr-serverless.{part}.disk" for part in ("driver", "executor")),
        *(f"spark.dynamicAllocation.{name}" for name in ("initialExecutors", "minExecutors", "maxExecutors")),
        *(f"spark.dynamicAllocation.{name}" for name in ("enabled", "executorIdleTimeout", "shuffleTracking.enabled")),
        *(f"spark.memory.{name}" for name in ("fraction", "storageFraction", "offHeap.enabled", "offHeap.size")),
        "spark.driver.maxResultSize",
        "spark.executor.instances",
        "spark.executor.pyspark.memory",
        "spark.cores.max",
        "spark.default.parallelism",
        "spark.network.timeout",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        "spark.sql.adaptive.enabled",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.shuffle.partitions",
        "spark.task.cpus",
        "spark.yarn.priority",
        "spark.yarn.queue",
    )
)


_PLAIN = re.compile(r"[\w.:-]*", re.ASCII)
"""A number, a size, a time or a name. Spark replaces ``${env:NAME}`` by a variable of the driver, and Databricks
``{{secrets/SCOPE/KEY}}`` by a secret, and a queue's name is public."""


def require_task_settings(settings: Mapping[str, object]) -> None:
    """Refuse settings that are the administrator's.

    Raises:
        InvalidRequest: they are no dictionary, a name is not in ``TASK_SETTINGS``, or a value has characters other than
            letters, digits and ``. _ : -``.
    """
    if not isinstance(settings, Mapping):
        raise InvalidRequest(
            "conf", type(settings).__name__, "must be a dictionary of Spark settings",
            "write it like {'spark.driver.memory': '4g'}",
        )  # fmt: skip
    for name, value in settings.items():
        if name not in TASK_SETTINGS:
            raise InvalidRequest(
                "conf", name,
                "must be a setting of memory, cores, executors or partitions, such as spark.driver.memory",
                "let an administrator put others into the connection's conf or into spark-defaults.conf",
            )  # fmt: skip
        if not _PLAIN.fullmatch(str(value)):
            raise InvalidRequest(
                f"conf.{name}", value, "must be a plain value: letters, digits and . _ : -",
                "write the value itself, such as 4g",
            )  # fmt: skip
