"""The Spark settings that the author of a task or of a command may choose: how large a release is, and nothing else.

Any other setting decides what is read, where it goes or which code runs: a metastore gives a table a second name, a
metrics sink writes exact counts, a jar is a program. Those are the administrator's, in the connection or in
``spark-defaults.conf``.
"""

from __future__ import annotations

from collections.abc import Iterable

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


def require_task_settings(names: Iterable[str]) -> None:
    """Refuse settings that are the administrator's.

    Raises:
        InvalidRequest: a name is not in ``TASK_SETTINGS``.
    """
    for name in names:
        if name not in TASK_SETTINGS:
            raise InvalidRequest(
                "conf", value=name,
                requirement="must be a setting of memory, cores, executors or partitions, such as spark.driver.memory",
                remedy="let an administrator put others into the connection's conf or into spark-defaults.conf",
            )  # fmt: skip
