"""The demo's DAG runs: a metadata database of their own, and two example DAGs, really run, in this process.

``python -m examples.demo`` starts this in a process of its own, with everything Airflow is to know in the
environment, and shows what it logs.
"""

from __future__ import annotations

import sys
from pathlib import Path

DAG_IDS = ("release_diagnostics", "private_count_stream")
DAGS = Path(__file__).parents[2] / "dags"


def main() -> int:
    """Run each DAG that an argument names once; 0 if their runs succeeded."""
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag  # type: ignore[no-redef]
    from airflow.utils.db import initdb

    initdb()
    dags = [DagBag(dag_folder=DAGS / f"{dag_id}.py").dags[dag_id] for dag_id in sys.argv[1:]]
    return 0 if all(str(dag.test().state) == "success" for dag in dags) else 1


if __name__ == "__main__":
    sys.exit(main())
