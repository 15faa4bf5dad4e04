"""What a scheduler does with a DAG, wherever the installed Airflow keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow import sdk

try:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
except ImportError:  # Airflow 3.1
    from airflow.models.dagbag import DagBag, sync_bag_to_db  # type: ignore[no-redef]

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = ["DagBag", "needs_partitions", "restored", "sync_bag_to_db"]

needs_partitions = pytest.mark.skipif(
    not hasattr(sdk, "CronPartitionTimetable"), reason="this Airflow has no timetable of partitions; 3.2 has"
)


def restored(dag: DAG) -> Any:
    """The DAG as a scheduler has it from the metadata database."""
    from airflow.serialization import serialized_objects as forms

    form = getattr(forms, "DagSerialization", None) or forms.SerializedDAG
    return form.deserialize_dag(form.serialize_dag(dag))
