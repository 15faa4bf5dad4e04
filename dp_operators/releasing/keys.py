"""Release keys: two attempts with the same key are attempts at the same release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from spark_jobs.contract.errors import InvalidRequest


@dataclass(frozen=True, kw_only=True)
class ReleaseKey:
    """The key of a release that an Airflow task makes.

    It does not contain the try number: a retry is another attempt at the same release and must use the first draw.

    Attributes:
        deployment: name of the Airflow deployment; it matters where several share a ledger.
        dag_id: id of the DAG.
        run: what identifies the DAG run: its partition or interval if it is scheduled or backfilled, otherwise its id.
        task_id: id of the task, with its task groups.
        map_index: index of the mapped task instance; -1 for a task that is not mapped.
    """

    deployment: str
    dag_id: str
    run: str
    task_id: str
    map_index: int = -1

    def __post_init__(self) -> None:
        for name in ("deployment", "dag_id", "run", "task_id"):
            if not getattr(self, name):
                raise InvalidRequest(f"key.{name}", "", "must not be empty", "give a name")

    def __str__(self) -> str:
        """The key in one line; ``parse`` recovers every part, so that different keys give different lines."""
        parts = (self.deployment, self.dag_id, self.run, self.task_id, str(self.map_index))
        return "/".join(quote(part, safe="+:@,=") for part in parts)

    @classmethod
    def parse(cls, line: str) -> Self:
        """The key that ``str`` wrote.

        Raises:
            InvalidRequest: the line is not a release key.
        """
        parts = [unquote(part) for part in line.split("/")]
        try:
            deployment, dag_id, run, task_id, map_index = parts
            key = cls(deployment=deployment, dag_id=dag_id, run=run, task_id=task_id, map_index=int(map_index))
        except ValueError:
            key = None
        if key is None or str(key) != line:
            raise InvalidRequest(
                "key", line, "must be a release key: deployment/dag/run/task/map-index",
                "copy it from the release's manifest",
            )  # fmt: skip
        return key
